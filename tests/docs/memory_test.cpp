// The code that docs/memory.md shows, in its order.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <utility>

#include <headroom/core/ops/create.hpp>
#include <headroom/core/ops/matmul.hpp>
#include <headroom/core/ops/reduce.hpp>
#include <headroom/core/ops/unary.hpp>
#include <headroom/core/recomputed.hpp>
#include <headroom/core/rehearsal.hpp>
#include <headroom/memory/history/chrome_trace.hpp>
#include <headroom/memory/history/html_report.hpp>
#include <headroom/memory/history/torch_snapshot.hpp>
#include <headroom/memory/memory_scope.hpp>
#include <headroom/nn/gpt.hpp>
#include <headroom/optim/adamw.hpp>
#include <headroom/optim/gradient_accumulator.hpp>
#include <headroom/plan/planner.hpp>

namespace headroom {
namespace memory_test {

/// Two steps of `accumulate` micro-batches with `batch` sequences each.
void train(Context& context, std::int64_t batch, int accumulate = 1) {
    Parameters parameters(context);
    nn::Gpt model(parameters, {.vocabulary = 65, .block = 32, .layers = 8, .heads = 2, .width = 64});
    optim::AdamW optimizer(parameters);
    optim::GradientAccumulator accumulator(parameters, optimizer);
    const Shape shape{batch, 32};
    const std::vector<std::int32_t> tokens(static_cast<std::size_t>(shape.numel()), 1);
    for (int step = 0; step < 2; ++step) {
        for (int i = 0; i < accumulate; ++i) {
            accumulator.accumulate([&] {
                const Tensor ids = context.from_host(tokens, shape);
                return model.loss(ids, ids);
            });
        }
        accumulator.step(1e-3);
    }
}

TEST(MemoryPage, Rehearsal) {
    Context context = Context::cpu({.threads = 2, .seed = 1});
    Context rehearsal = Context::dry(context.profile());
    train(rehearsal, 4);
    fmt::print("this will take {} bytes\n", rehearsal.memory().statistics().peak_allocated);
    train(context, 4);

    EXPECT_EQ(context.memory().statistics().peak_allocated, rehearsal.memory().statistics().peak_allocated);
    EXPECT_EQ(context.memory().statistics().peak_reserved, rehearsal.memory().statistics().peak_reserved);
}

TEST(MemoryPage, Plan) {
    Context context = Context::cpu({.threads = 1});
    const plan::Workload workload{
        .run = [](Context& dry, const plan::MicroBatching& division) { train(dry, division.batch); },
        .division = {.batch = 8}};
    plan::Planner planner(context.profile(), workload);
    fmt::print("from {} to {} bytes\n", planner.floor_bytes(), planner.keep_all_bytes());
    const plan::Plan plan = planner.fit(planner.floor_bytes());
    fmt::print("{}\n", plan.to_string());
    context.policy(plan.policy);
    train(context, plan.division.batch);

    EXPECT_EQ(context.memory().statistics().peak_reserved, plan.peak_bytes_reserved);
}

std::size_t predicted_peak(std::int64_t batch, int accumulate, bool recompute) {
    Context rehearsal = Context::dry({.threads = 2});
    if (recompute) rehearsal.policy("blocks.*", recompute_all());
    train(rehearsal, batch, accumulate);
    return rehearsal.memory().statistics().peak_allocated;
}

TEST(MemoryPage, Techniques) {
    const std::size_t plain = predicted_peak(8, 1, false);
    const std::size_t recomputed = predicted_peak(8, 1, true);
    const std::size_t accumulated = predicted_peak(2, 4, false);

    EXPECT_LT(recomputed, plain);
    EXPECT_LT(accumulated, plain);
    EXPECT_EQ(accumulated, predicted_peak(2, 2, false));
}

TEST(MemoryPage, Policies) {
    Context context = Context::dry({.threads = 1});
    context.policy("blocks.*", recompute_all());       // keep only what enters and leaves a block,
    context.policy("blocks.*.attention", keep_all());  // and what its attention makes;
    context.policy("**.mlp", recompute_cheap());       // of an MLP keep what takes a matrix product;
    context.policy("blocks.0", inherit_all());         // the first block is as if its pattern were not there
    context.policy("blocks.7", [](const Candidate& op) {
        return op.pinned_bytes == 0 && op.bytes > 10'000 ? Answer::recompute : Answer::inherit;
    });
    train(context, 4);

    EXPECT_GT(context.tape().statistics().replayed, 0u);
    EXPECT_TRUE(path_matches("blocks.*.mlp", "blocks.3.mlp"));
    EXPECT_TRUE(path_matches("**.mlp", "blocks.3.mlp"));
    EXPECT_FALSE(path_matches("blocks.*", "blocks.3.mlp"));
}

TEST(MemoryPage, RecomputedInCode) {
    Context context = Context::cpu({.threads = 1});
    const Tensor x = randn(context, {8, 8}), w = randn(context, {8, 8}).detach().requires_grad_();
    Tensor y = recomputed(context, "tail", [&] { return gelu(matmul(x, w)); });
    backward(sum(tanh(std::move(y))));

    EXPECT_EQ(context.tape().statistics().replayed, 1u) << "gelu wants the product";
}

TEST(MemoryPage, Limit) {
    Context context = Context::dry({.threads = 1, .memory_limit = 32'000'000});
    std::int64_t batch = 64;
    while (true) {
        try {
            train(context, batch);
            break;
        } catch (const OutOfMemory& error) {
            fmt::print("batch {}: {}\n{}", batch, error.what(), error.report().to_string());
            if (batch == 1) throw;
            batch /= 2;
        }
    }

    EXPECT_LT(batch, 64);
    EXPECT_LE(context.memory().statistics().peak_reserved, 32'000'000u);
}

TEST(MemoryPage, BeyondTheLimit) {
    const auto program = [](Context& dry) { train(dry, 64); };
    try {
        rehearse({.threads = 1, .memory_limit = 32'000'000}, program);
    } catch (const OutOfMemory& error) {
        const MemoryPeak& whole = *error.report().whole;
        fmt::print("{} bytes are needed at once, at {}\n", whole.allocated, whole.purpose);
        rehearse({.threads = 1, .memory_limit = error.report().whole_limit}, program);  // passes
    }

    EXPECT_THROW(rehearse({.threads = 1, .memory_limit = 32'000'000}, program), OutOfMemory);
    EXPECT_EQ(rehearse({.threads = 2}, program).peak.allocated, predicted_peak(64, 1, false));
}

TEST(MemoryPage, Reports) {
    Context context = Context::cpu({.threads = 1});
    train(context, 4);
    const MemoryStatistics statistics = context.memory().statistics();
    const auto& categories = context.memory().options().categories;
    for (std::size_t i = 0; i < categories.size(); ++i) {
        fmt::print("{}: {} bytes at the peak\n", categories[i].name, statistics.at_peak_by_category[i]);
    }
    for (const auto& [path, bytes] : context.memory().largest_paths(5)) fmt::print("{}: {} bytes now\n", path, bytes);

    std::size_t total = 0;
    for (const std::size_t bytes : statistics.at_peak_by_category) total += bytes;
    EXPECT_EQ(total, statistics.peak_allocated);
}

TEST(MemoryPage, Scopes) {
    Context context = Context::cpu({.threads = 1});
    memory::MemoryScope scope(context.memory());
    train(context, 4);
    fmt::print("it took {} bytes at most, and {} are still there\n", scope.peak(), scope.live());

    EXPECT_EQ(scope.peak(), context.memory().statistics().peak_allocated);
    EXPECT_EQ(scope.live(), 0);
}

TEST(MemoryPage, Histories) {
    const std::filesystem::path folder = std::filesystem::path(::testing::TempDir()) / "memory_page";
    std::filesystem::create_directories(folder);
    Context context = Context::cpu({.threads = 1});
    context.memory().start_history(100'000);  // events that are kept, 56 bytes each
    train(context, 4);
    const memory::MemorySnapshot snapshot = context.memory().snapshot();
    const memory::NamedSnapshot named[] = {{"two steps", &snapshot}};
    memory::write_html_report(named, folder / "memory.html");
    memory::write_torch_snapshot(snapshot, folder / "memory.pickle");
    memory::write_chrome_trace(snapshot, folder / "memory.json");

    EXPECT_EQ(snapshot.events_dropped, 0u);
    for (const char* name : {"memory.html", "memory.pickle", "memory.json"}) {
        EXPECT_GT(std::filesystem::file_size(folder / name), 10'000u) << name;
    }
    std::filesystem::remove_all(folder);
}

TEST(MemoryPage, Streams) {
    DeviceMemory memory(memory::make_simulated_host_driver());
    const Buffer buffer = Buffer::allocate(memory, 1000, 0, {});
    buffer.record_use(1);  // whoever gets the memory next waits for what stream 1 does now

    EXPECT_TRUE(buffer);
}

TEST(MemoryPage, TheAllocatorByItself) {
    memory::MemoryOptions options{.limit = 64'000'000, .categories = {{"weights"}, {"cache"}}};
    options.advise = [](const memory::MemoryReport& report) {
        return fmt::format("shorten the prompt by {}", memory::format_bytes(report.requested));
    };
    DeviceMemory memory(memory::make_host_driver(), options);
    const Buffer cache = Buffer::allocate(memory, 1 << 20, 0, {.category = 1, .path = memory.intern("layers.0")});

    EXPECT_EQ(memory.statistics().allocated_by_category[1], std::size_t{1} << 20);
    try {
        memory.allocate(100'000'000, 0, {});
        ADD_FAILURE() << "expected OutOfMemory";
    } catch (const OutOfMemory& error) {
        EXPECT_EQ(error.report().advice, "shorten the prompt by 100.0 MB");
    }
}

}  // namespace memory_test
}  // namespace headroom
