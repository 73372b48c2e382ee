// What the memory of a training says of it. That the allocator alone says nothing: memory/out_of_memory_test.
#include <headroom/core/category.hpp>

#include <gmock/gmock.h>

#include <limits>
#include <string>

#include <headroom/core/context.hpp>
#include <headroom/memory/driver.hpp>

namespace headroom {
namespace category_test {

using memory::MemoryReport;
using ::testing::HasSubstr;

constexpr std::size_t kPage = std::size_t{2} << 20;

DeviceMemory training(std::size_t limit) {
    return DeviceMemory(memory::make_simulated_host_driver(), training_memory({.limit = limit}));
}

memory::Tag tag(Category category, memory::PathId path = 0) {
    return {.category = static_cast<memory::CategoryId>(category), .path = path};
}

MemoryReport report_of(DeviceMemory& memory, std::size_t bytes, Category category) {
    try {
        memory.allocate(bytes, 0, tag(category, memory.intern("blocks.3")));
    } catch (const OutOfMemory& error) {
        return error.report();
    }
    ADD_FAILURE() << "expected OutOfMemory";
    return {};
}

TEST(TrainingAdvice, SaysWhatGrowsWithTheMicroBatchAndTheRoomForIt) {
    DeviceMemory memory = training(16 * kPage);
    memory.allocate(4 * kPage, 0, tag(Category::parameters));
    for (int i = 0; i < 8; ++i) {
        memory.allocate(kPage, 0, tag(Category::activations, memory.intern("blocks." + std::to_string(i) + ".mlp")));
    }
    const MemoryReport report = report_of(memory, 6 * kPage, Category::activations);
    // 14 pages grow with the micro-batch, 12 are left beside the parameters.
    EXPECT_EQ(report.advice,
              "29.4 MB grow with the micro-batch, 4.2 MB more than fits (16.8 MB are live in \"blocks.*\"); "
              "rehearse() tells how much the whole program needs");
    EXPECT_THAT(report.to_string(), HasSubstr(report.advice));
    EXPECT_THAT(report_of(memory, 13 * kPage, Category::optimizer_state).advice,
                HasSubstr("use a smaller model or raise the limit"));
    EXPECT_THAT(report_of(memory, std::numeric_limits<std::size_t>::max(), Category::inputs).advice,
                HasSubstr("more than fits"));
    EXPECT_THAT(report_of(memory, std::numeric_limits<std::size_t>::max(), Category::parameters).advice,
                HasSubstr("use a smaller model"));
}

TEST(TrainingAdvice, SpeaksOfPiecesOnlyWhereTheRequestWouldFitInOne) {
    DeviceMemory pages = training(8 * kPage + kPage / 2);
    pages.allocate(4 * kPage, 0, tag(Category::parameters));
    EXPECT_THAT(report_of(pages, 4 * kPage + 64, Category::workspace).advice,
                HasSubstr("8.4 MB grow with the micro-batch, 64 B more than fits"))
        << "the limit has eight pages";
    DeviceMemory pieces = training(2 * kPage);
    pieces.allocate(kPage / 2, 0, tag(Category::gradients));
    EXPECT_THAT(report_of(pieces, 2 * kPage - kPage / 4, Category::gradients).advice, HasSubstr("use a smaller model"));
    MemoryReport report = report_of(pieces, 2 * kPage, Category::activations);
    report.rounded = kPage;
    EXPECT_THAT(training_advice(report),
                HasSubstr("2.1 MB grow with the micro-batch, but the remaining 3.1 MB are fragmented; "
                          "rehearse() tells"));
}

TEST(TrainingMemory, SaysWhatIsMissingInOneLine) {
    DeviceMemory limited = training(64'000'000);
    EXPECT_STREQ(OutOfMemory(report_of(limited, 100'000'000, Category::activations)).what(),
                 "out of memory in a rehearsal on simulated host: 100.0 MB for activations of blocks.3 do not fit "
                 "into the limit of 64.0 MB, in whole pages 62.9 MB (0 B live, 0 B reserved); 100.0 MB grow with the "
                 "micro-batch, 37.1 MB more than fits; rehearse() tells how much the whole program needs");
}

void expect_names(Context context) {
    const auto& categories = context.memory().options().categories;
    ASSERT_EQ(categories.size(), 6u);
    const auto name_of = [&](Category category) { return categories[static_cast<std::size_t>(category)].name; };
    EXPECT_EQ(name_of(Category::parameters), "parameters");
    EXPECT_EQ(name_of(Category::gradients), "gradients");
    EXPECT_EQ(name_of(Category::optimizer_state), "optimizer state");
    EXPECT_EQ(name_of(Category::activations), "activations");
    EXPECT_EQ(name_of(Category::workspace), "workspace");
    EXPECT_EQ(name_of(Category::inputs), "inputs");
    try {
        context.exec().empty({std::int64_t{1} << 58}, Dtype::u8);
        ADD_FAILURE() << "expected OutOfMemory";
    } catch (const OutOfMemory& error) {
        EXPECT_THAT(error.report().advice, HasSubstr("more than fits"));
        EXPECT_THAT(error.report().to_string(), HasSubstr("\n      optimizer state "));
    }
}

TEST(TrainingMemory, IsThatOfEveryContext) {
    expect_names(Context::cpu({.threads = 1}));
    expect_names(Context::dry({.threads = 1}));
    expect_names(Context::dry(Profile::gpu(1'000'000'000)));
    const Context first = Context::cpu({.threads = 1, .memory_limit = 64'000'000});
    expect_names(Context::dry(first.profile()));
    expect_names(Context::cpu({.threads = 1, .memory = first.shared_memory()}));
    const memory::MemoryOptions options = training_memory({.slack = 0.5});
    EXPECT_EQ(options.slack, 0.5);
    expect_names(
        Context::cpu({.threads = 1, .memory = std::make_shared<DeviceMemory>(memory::make_host_driver(), options)}));
}

}  // namespace category_test
}  // namespace headroom
