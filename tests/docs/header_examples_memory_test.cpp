// The examples of memory headers: each is compiled as the header shows it.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <headroom/core/context.hpp>
#include <headroom/core/ops/create.hpp>
#include <headroom/core/ops/matmul.hpp>
#include <headroom/core/tape/policy.hpp>
#include <headroom/memory/buffer.hpp>
#include <headroom/memory/cuda_driver.hpp>
#include <headroom/memory/device_memory.hpp>
#include <headroom/memory/driver.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/memory/history.hpp>
#include <headroom/memory/history/chrome_trace.hpp>
#include <headroom/memory/history/html_report.hpp>
#include <headroom/memory/history/torch_snapshot.hpp>
#include <headroom/memory/memory_scope.hpp>
#include <headroom/memory/out_of_memory.hpp>
#include <headroom/memory/pinned_pool.hpp>
#include <headroom/memory/progress.hpp>
#include <headroom/memory/shared_library.hpp>
#include <headroom/memory/statistics.hpp>
#include <headroom/memory/storage.hpp>
#include <headroom/memory/stream_id.hpp>
#include <headroom/memory/tag.hpp>

struct CUstream_st;
using CUstream = CUstream_st*;
extern "C" int ncclGetVersion(int*);

namespace header_examples {
namespace header_examples_memory_test {

using namespace headroom;

void train(Context&) {}
void train(const Tensor&) {}
memory::MemorySnapshot train(const Policy&) { return {}; }
void train_one_step() {}

void buffer_example(DeviceMemory& memory) {
    Buffer buffer = Buffer::allocate(memory, 1024, 0, {});
    auto* values = reinterpret_cast<float*>(buffer.data());
    Buffer also = buffer;
}

void cuda_driver_example(CUstream compute, CUstream copies) {
    std::unique_ptr<memory::Driver> driver = memory::make_cuda_driver({.device = 0, .streams = {compute, copies}});
    DeviceMemory memory(std::move(driver));
    memory::Allocation block = memory.allocate(4096, 1, {});
}

void device_memory_example() {
    const memory::MemoryOptions options{.limit = 2'000'000'000};
    auto memory = std::make_shared<DeviceMemory>(memory::make_host_driver(), options);
    memory::Allocation block = memory->allocate(4096, 0, {.path = memory->intern("cache")});
    memory->deallocate(block.handle);
    fmt::print("{}\n", memory->statistics().peak_allocated);
}

void driver_example() {
    std::unique_ptr<memory::Driver> driver = memory::make_host_driver();
    std::byte* address = driver->reserve(1 << 30);
    const memory::PageHandle pages[] = {driver->create(), driver->create()};
    driver->map(address, pages);
}

void error_example(Tensor a, Tensor b) {
    try {
        auto y = matmul(a, b);
    } catch (const headroom::ShapeError& error) {
        fmt::print(stderr, "{}\n", error.what());
    }
}

void history_example(Context& context, DeviceMemory& memory) {
    memory.start_history(1'000'000);
    train(context);
    const memory::MemorySnapshot snapshot = memory.snapshot();
    fmt::print("{} events, {} blocks\n", snapshot.events.size(), snapshot.blocks.size());
}

void chrome_trace_example(DeviceMemory& memory) { memory::write_chrome_trace(memory.snapshot(), "memory.json"); }

void html_report_example(Policy keep_all, Policy checkpointed) {
    const memory::MemorySnapshot all = train(keep_all), less = train(checkpointed);
    const memory::NamedSnapshot both[] = {{"keep all", &all}, {"--recompute blocks", &less}};
    memory::write_html_report(both, "memory.html");
}

void torch_snapshot_example(DeviceMemory& memory) {
    memory::write_torch_snapshot(memory.snapshot(), "snapshot.pickle");
}

void memory_scope_example(Context& context) {
    memory::MemoryScope scope(context.memory());
    train_one_step();
    fmt::print("the step took {} bytes\n", scope.peak());
}

void out_of_memory_example(Tensor batch) {
    try {
        train(batch);
    } catch (const OutOfMemory& error) {
        fmt::print("{}", error.report().to_string());
    }
}

void pinned_pool_example(CUstream compute, CUstream copies, const void* batch, std::size_t batch_bytes,
                         std::uint64_t device_address,
                         int (*cuMemcpyHtoDAsync)(std::uint64_t, const void*, std::size_t, CUstream)) {
    memory::PinnedPool pool(memory::make_cuda_driver({.streams = {compute, copies}}), {.limit = 1'000'000'000});
    memory::PinnedBlock block = pool.allocate(batch_bytes);
    std::memcpy(block.data(), batch, batch_bytes);
    cuMemcpyHtoDAsync(device_address, block.data(), batch_bytes, copies);
    block.record_use(1);
}

void progress_example() {
    memory::step_forward();
    const memory::WaitScope waits;
    const memory::Progress& main = memory::progress_of_this_thread();
}

void shared_library_example(const char* built) {
    const auto files = memory::library_files("HEADROOM_NCCL", {"libnccl.so.2", built});
    const memory::SharedLibrary library("NCCL", files, "install it, or name its file in HEADROOM_NCCL");
    decltype(&::ncclGetVersion) get_version = nullptr;
    library.find(get_version, "ncclGetVersion");
}

void statistics_example(DeviceMemory& memory) {
    const MemoryStatistics statistics = memory.statistics();
    fmt::print("{} of {} bytes reserved are live\n", statistics.allocated, statistics.reserved);
}

bool storage_example(memory::Storage* given) {
    memory::Storage* storage = given;
    if (storage->owners == 1) return true;
    return false;
}

void stream_id_example(DeviceMemory& memory) { memory::Allocation block = memory.allocate(4096, /*stream=*/0, {}); }

void tag_example(DeviceMemory& memory) {
    memory::Tag tag{.category = 1, .path = memory.intern("cache")};
    Buffer buffer = Buffer::allocate(memory, 4096, 0, tag);
}

TEST(HeaderExamples, OfMemoryRun) {
    Context context = Context::cpu({.threads = 1, .seed = 1});
    const auto x = [&](const Shape& shape) { return randn(context, shape); };
    DeviceMemory memory(memory::make_host_driver());
    buffer_example(memory);
    device_memory_example();
    driver_example();
    error_example(x({2, 3}), x({2, 3}));
    history_example(context, memory);
    memory_scope_example(context);
    out_of_memory_example(x({2}));
    progress_example();
    statistics_example(memory);
    memory::Storage storage{.owners = 1};
    EXPECT_TRUE(storage_example(&storage));
    tag_example(memory);
}

}  // namespace header_examples_memory_test
}  // namespace header_examples
