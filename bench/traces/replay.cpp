#include <headroom/bench/traces/replay.hpp>

#include <algorithm>
#include <chrono>
#include <memory>
#include <vector>

namespace headroom::traces {

namespace {

class Replay {
  public:
    Replay(const Trace& trace, const ReplayOptions& options)
        : trace_(trace),
          driver_(make_driver(options)),
          memory_(std::unique_ptr<Driver>(driver_), {.limit = options.limit, .plan = options.plan}),
          blocks_(id_count(trace)) {
        if (options.history > 0) memory_.start_history(options.history);
        for (const std::string& path : trace.paths) paths_.push_back(memory_.intern(path));
    }
    ~Replay() {
        for (Block* block : blocks_) {
            if (block) memory_.deallocate(block);
        }
    }
    Replay(const Replay&) = delete;
    Replay& operator=(const Replay&) = delete;

    ReplayResult run() {
        const std::size_t all_steps = steps(trace_);
        const std::size_t first_steady = all_steps / 2;
        std::size_t step = 0;
        std::size_t live_before = 0;
        const auto begin = std::chrono::steady_clock::now();
        for (const Operation& operation : trace_.operations) {
            if (operation.kind == Operation::Kind::step && step++ == first_steady) {
                live_before = memory_.statistics().peak_allocated;
                result_.whole.reserved = memory_.statistics().peak_reserved;
                result_.warm_up = calls_;
                memory_.reset_peak();
            }
            play(operation);
        }
        const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
        const MemoryStatistics statistics = memory_.statistics();
        result_.seconds = time.count();
        result_.operations = trace_.operations.size();
        result_.steady_steps = all_steps - first_steady;
        result_.in_steady = calls_ - result_.warm_up;
        result_.steady = {peak_live(trace_, first_steady + 1), statistics.peak_allocated, statistics.peak_reserved};
        result_.whole = {peak_live(trace_), std::max(live_before, statistics.peak_allocated),
                         std::max(result_.whole.reserved, statistics.peak_reserved)};
        return result_;
    }

  private:
    Driver* make_driver(const ReplayOptions& options) {
        SimulatedOptions simulated;
        simulated.properties = gpu_properties(options.device_bytes);
        simulated.event_latency = options.event_latency;
        return new CountingDriver(make_simulated_driver(simulated), calls_);
    }

    void play(const Operation& operation) {
        switch (operation.kind) {
            case Operation::Kind::allocate: {
                const Tag tag{operation.category, paths_[operation.path]};
                blocks_[operation.id] = memory_.allocate(operation.bytes, operation.stream, tag).handle;
                break;
            }
            case Operation::Kind::free:
                memory_.deallocate(std::exchange(blocks_[operation.id], nullptr));
                break;
            case Operation::Kind::record_use:
                memory_.record_use(blocks_[operation.id], operation.stream);
                break;
            case Operation::Kind::wait:
                wait(operation);
                break;
            case Operation::Kind::step:
                memory_.begin_step();
                break;
        }
    }

    /// The program's own business: not counted.
    void wait(const Operation& operation) {
        const DriverCalls before = calls_;
        const EventHandle event = driver_->record(operation.awaited);
        driver_->wait(operation.stream, event);
        driver_->destroy_event(event);
        calls_ = before;
    }

    const Trace& trace_;
    DriverCalls calls_;
    Driver* driver_;  ///< owned by `memory_`
    DeviceMemory memory_;
    std::vector<PathId> paths_;
    std::vector<Block*> blocks_;
    ReplayResult result_;
};

}  // namespace

DriverProperties gpu_properties(std::size_t bytes) {
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
