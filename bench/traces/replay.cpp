#include <headroom/bench/traces/replay.hpp>

#include <algorithm>
#include <memory>
#include <vector>

namespace headroom::traces {

namespace {

class Replay {
  public:
    Replay(const Trace& trace, const ReplayOptions& options)
        : trace_(trace),
          memory_(make_driver(options), {.limit = options.limit}),
          blocks_(id_count(trace)),
          bytes_(blocks_.size()) {
        if (options.history > 0) memory_.start_history(options.history);
        for (const std::string& path : trace.paths) paths_.push_back(memory_.intern(path));
    }
    ~Replay() {
        for (memory::Block* block : blocks_) {
            if (block) memory_.deallocate(block);
        }
    }
    Replay(const Replay&) = delete;
    Replay& operator=(const Replay&) = delete;

    ReplayResult run() {
        const std::size_t all_steps = steps(trace_);
        const std::size_t first_steady = all_steps / 2;
        std::size_t step = 0;
        memory::MemoryStatistics before;
        for (const Operation& operation : trace_.operations) {
            if (operation.kind == Operation::Kind::step && step++ == first_steady) {
                before = memory_.statistics();
                result_.warm_up = log_.calls;
                memory_.reset_peak();
            }
            play(operation);
        }
        const memory::MemoryStatistics statistics = memory_.statistics();
        result_.operations = trace_.operations.size();
        result_.steady_steps = all_steps - first_steady;
        result_.steady_allocations = statistics.allocations - before.allocations;
        result_.stretch = log_.times.end() / ideal_end();
        result_.in_steady = log_.calls - result_.warm_up;
        result_.steady = {peak_live(trace_, first_steady + 1), statistics.peak_allocated, statistics.peak_reserved};
        result_.whole = {peak_live(trace_), std::max(before.peak_allocated, statistics.peak_allocated),
                         std::max(before.peak_reserved, statistics.peak_reserved)};
        return result_;
    }

  private:
    std::unique_ptr<memory::Driver> make_driver(const ReplayOptions& options) {
        memory::SimulatedOptions simulated;
        simulated.properties = gpu_properties(options.device_bytes);
        simulated.event_latency = options.event_latency;
        return std::make_unique<CountingDriver>(memory::make_simulated_driver(simulated), log_);
    }

    /// A block is written when it is allocated, and read where another stream uses it.
    void play(const Operation& operation) {
        switch (operation.kind) {
            case Operation::Kind::allocate: {
                const memory::Tag tag{operation.category, paths_[operation.path]};
                blocks_[operation.id] = memory_.allocate(operation.bytes, operation.stream, tag).handle;
                bytes_[operation.id] = static_cast<double>(operation.bytes);
                log_.times.work(operation.stream, bytes_[operation.id]);
                break;
            }
            case Operation::Kind::free:
                memory_.deallocate(std::exchange(blocks_[operation.id], nullptr));
                break;
            case Operation::Kind::record_use:
                log_.times.work(operation.stream, bytes_[operation.id]);
                memory_.record_use(blocks_[operation.id], operation.stream);
                break;
            case Operation::Kind::wait:
                log_.times.wait(operation.stream, log_.times.now(operation.awaited));
                break;
            case Operation::Kind::step:
                memory_.begin_step();
                break;
        }
    }

    /// When all would be done if the allocator let nobody wait.
    double ideal_end() const {
        StreamTimes times;
        std::vector<double> bytes(blocks_.size());
        for (const Operation& operation : trace_.operations) {
            if (operation.kind == Operation::Kind::allocate) {
                bytes[operation.id] = static_cast<double>(operation.bytes);
                times.work(operation.stream, bytes[operation.id]);
            }
            if (operation.kind == Operation::Kind::record_use) times.work(operation.stream, bytes[operation.id]);
            if (operation.kind == Operation::Kind::wait) times.wait(operation.stream, times.now(operation.awaited));
        }
        return times.end();
    }

    const Trace& trace_;
    DriverLog log_;
    memory::DeviceMemory memory_;
    std::vector<memory::PathId> paths_;
    std::vector<memory::Block*> blocks_;
    std::vector<double> bytes_;
    ReplayResult result_;
};

}  // namespace

memory::DriverProperties gpu_properties(std::size_t bytes) {
    return {.name = "simulated GPU",
            .granularity = std::size_t{2} << 20,
            .alignment = 512,
            .total_bytes = bytes,
            .address_bytes = std::size_t{1} << 38,
            .touchable = false,
            .synchronous = false};
}

ReplayResult replay(const Trace& trace, const ReplayOptions& options) { return Replay(trace, options).run(); }

}  // namespace headroom::traces
