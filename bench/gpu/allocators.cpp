// Replays allocation traces on a GPU: Headroom's allocator, cudaMalloc and cudaMallocAsync. How much each takes of the
// device for what is live, and how long its calls keep the host. One JSON object on standard output. PyTorch's
// allocator replays the same files in bench/peers/allocator_torch.py.
//   allocators TRACE...
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <headroom/bench/traces/trace.hpp>
#include <headroom/memory/cuda_driver.hpp>
#include <headroom/memory/device_memory.hpp>

namespace {

using namespace headroom;
using namespace headroom::traces;
using Kind = Operation::Kind;

void expect_success(cudaError_t error, const char* call) {
    if (error != cudaSuccess) throw std::runtime_error(std::string(call) + ": " + cudaGetErrorString(error));
}

/// The streams of a trace, and events for the waits between them.
class Streams {
  public:
    explicit Streams(memory::StreamId count) {
        for (memory::StreamId i = 0; i < count; ++i) {
            expect_success(cudaStreamCreateWithFlags(&streams_.emplace_back(), cudaStreamNonBlocking),
                           "cudaStreamCreate");
        }
        expect_success(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "cudaEventCreate");
    }
    ~Streams() {
        for (cudaStream_t stream : streams_) cudaStreamDestroy(stream);
        cudaEventDestroy(event_);
    }
    Streams(const Streams&) = delete;
    Streams& operator=(const Streams&) = delete;

    cudaStream_t operator[](memory::StreamId i) const { return streams_[i]; }
    std::vector<cudaStream_t> all() const { return streams_; }
    void wait(memory::StreamId stream, memory::StreamId awaited) {
        expect_success(cudaEventRecord(event_, streams_[awaited]), "cudaEventRecord");
        expect_success(cudaStreamWaitEvent(streams_[stream], event_), "cudaStreamWaitEvent");
    }

  private:
    std::vector<cudaStream_t> streams_;
    cudaEvent_t event_ = nullptr;
};

/// What is replayed on.
class Allocator {
  public:
    virtual ~Allocator() = default;
    virtual void allocate(const Operation& operation) = 0;
    virtual void free(std::uint32_t id) = 0;
    virtual void record_use(const Operation&) {}
    virtual void begin_step() {}
    /// After each of these, while no time is taken.
    virtual void observe() {}
    /// Bytes of the device that it holds, the most so far.
    virtual std::size_t peak_reserved() = 0;
};

class Headroom final : public Allocator {
  public:
    Headroom(const Trace& trace, Streams& streams)
        : blocks_(id_count(trace)), memory_(memory::make_cuda_driver({.device = 0, .streams = streams.all()})) {}
    void allocate(const Operation& operation) override {
        blocks_[operation.id] = memory_.allocate(operation.bytes, operation.stream, {operation.category, 0}).handle;
    }
    void free(std::uint32_t id) override { memory_.deallocate(std::exchange(blocks_[id], nullptr)); }
    void record_use(const Operation& operation) override {
        memory_.record_use(blocks_[operation.id], operation.stream);
    }
    void begin_step() override { memory_.begin_step(); }
    std::size_t peak_reserved() override { return memory_.statistics().peak_reserved; }
    ~Headroom() override {
        for (memory::Block* block : blocks_) {
            if (block) memory_.deallocate(block);
        }
    }

  private:
    std::vector<memory::Block*> blocks_;
    memory::DeviceMemory memory_;
};

/// cudaMalloc and cudaFree, which wait for the device; what they hold is what the device has less than before.
class Malloc final : public Allocator {
  public:
    explicit Malloc(const Trace& trace) : blocks_(id_count(trace)) { before_ = free_bytes(); }
    ~Malloc() override {
        for (void* block : blocks_) cudaFree(block);
    }
    void allocate(const Operation& operation) override {
        expect_success(cudaMalloc(&blocks_[operation.id], std::max<std::size_t>(1, operation.bytes)), "cudaMalloc");
        grew_ = true;
    }
    void observe() override {
        if (std::exchange(grew_, false)) peak_ = std::max(peak_, before_ - std::min(before_, free_bytes()));
    }
    void free(std::uint32_t id) override { expect_success(cudaFree(std::exchange(blocks_[id], nullptr)), "cudaFree"); }
    std::size_t peak_reserved() override { return peak_; }

  private:
    static std::size_t free_bytes() {
        std::size_t free = 0, total = 0;
        expect_success(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
        return free;
    }
    std::vector<void*> blocks_;
    std::size_t before_ = 0, peak_ = 0;
    bool grew_ = false;
};

/// cudaMallocAsync from a pool that keeps what it has.
class MallocAsync final : public Allocator {
  public:
    MallocAsync(const Trace& trace, Streams& streams)
        : streams_(streams), blocks_(id_count(trace)), of_(id_count(trace)) {
        cudaMemPoolProps properties{};
        properties.allocType = cudaMemAllocationTypePinned;
        properties.location = {.type = cudaMemLocationTypeDevice, .id = 0};
        expect_success(cudaMemPoolCreate(&pool_, &properties), "cudaMemPoolCreate");
        std::uint64_t keep = ~std::uint64_t{0};
        expect_success(cudaMemPoolSetAttribute(pool_, cudaMemPoolAttrReleaseThreshold, &keep),
                       "cudaMemPoolSetAttribute");
    }
    ~MallocAsync() override {
        for (std::size_t i = 0; i < blocks_.size(); ++i) {
            if (blocks_[i]) cudaFreeAsync(blocks_[i], streams_[of_[i]]);
        }
        cudaDeviceSynchronize();
        cudaMemPoolDestroy(pool_);
    }
    void allocate(const Operation& operation) override {
        of_[operation.id] = operation.stream;
        expect_success(cudaMallocFromPoolAsync(&blocks_[operation.id], std::max<std::size_t>(1, operation.bytes), pool_,
                                               streams_[operation.stream]),
                       "cudaMallocFromPoolAsync");
    }
    void free(std::uint32_t id) override {
        expect_success(cudaFreeAsync(std::exchange(blocks_[id], nullptr), streams_[of_[id]]), "cudaFreeAsync");
    }
    /// Its own stream must wait before it frees, or the block would be given out too early.
    void record_use(const Operation& operation) override { streams_.wait(of_[operation.id], operation.stream); }
    std::size_t peak_reserved() override {
        std::uint64_t most = 0;
        expect_success(cudaMemPoolGetAttribute(pool_, cudaMemPoolAttrReservedMemHigh, &most),
                       "cudaMemPoolGetAttribute");
        return most;
    }

  private:
    Streams& streams_;
    cudaMemPool_t pool_ = nullptr;
    std::vector<void*> blocks_;
    std::vector<memory::StreamId> of_;
};

struct Replayed {
    double nanoseconds_per_call = 0;  ///< of the host, in the second half of the steps
    std::size_t peak_reserved = 0;
};

Replayed replay(const Trace& trace, Streams& streams, Allocator& allocator) {
    using Clock = std::chrono::steady_clock;
    const std::size_t last = steps(trace);
    std::size_t step = 0, calls = 0;
    Clock::duration time{};
    for (const Operation& operation : trace.operations) {
        if (operation.kind == Kind::wait) {
            streams.wait(operation.stream, operation.awaited);
            continue;
        }
        if (operation.kind == Kind::step) ++step;
        const Clock::time_point begin = Clock::now();
        switch (operation.kind) {
            case Kind::allocate:
                allocator.allocate(operation);
                break;
            case Kind::free:
                allocator.free(operation.id);
                break;
            case Kind::record_use:
                allocator.record_use(operation);
                break;
            default:
                allocator.begin_step();
        }
        const Clock::duration taken = Clock::now() - begin;
        allocator.observe();
        if (2 * step <= last) continue;
        time += taken;
        ++calls;
    }
    expect_success(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    const double nanoseconds = std::chrono::duration<double, std::nano>(time).count();
    return {nanoseconds / static_cast<double>(std::max<std::size_t>(1, calls)), allocator.peak_reserved()};
}

void run(const std::vector<std::string>& files) {
    auto rows = nlohmann::ordered_json::array();
    for (const std::string& file : files) {
        const Trace trace = read_trace(file);
        Streams streams(stream_count(trace));
        const std::pair<const char*, std::function<std::unique_ptr<Allocator>()>> makers[] = {
            {"headroom", [&] { return std::make_unique<Headroom>(trace, streams); }},
            {"cudaMallocAsync", [&] { return std::make_unique<MallocAsync>(trace, streams); }},
            {"cudaMalloc", [&] { return std::make_unique<Malloc>(trace); }},
        };
        for (const auto& [name, make] : makers) {
            const Replayed result = replay(trace, streams, *make());
            rows.push_back({{"trace", trace.name},
                            {"allocator", name},
                            {"peak_live", peak_live(trace)},
                            {"peak_reserved", result.peak_reserved},
                            {"nanoseconds_per_call", result.nanoseconds_per_call}});
        }
    }
    std::puts(nlohmann::ordered_json{{"rows", rows}}.dump().c_str());
}

}  // namespace

int main(int argc, char** argv) {
    if (argc < 2) {
        fmt::print(stderr, "usage: allocators TRACE...\n");
        return 2;
    }
    try {
        run({argv + 1, argv + argc});
    } catch (const std::exception& error) {
        std::fputs(fmt::format("allocators: {}\n", error.what()).c_str(), stderr);  // fmt::print would throw
        return 1;
    }
    return 0;
}
