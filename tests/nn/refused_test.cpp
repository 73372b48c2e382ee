// What is said of a training that does not fit: each statement is compared with the figures, and each advice is taken.
#include <headroom/core/rehearsal.hpp>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include <headroom/core/category.hpp>
#include <headroom/core/ops/cross_entropy.hpp>
#include <headroom/nn/gpt.hpp>
#include <headroom/nn/unet.hpp>
#include <headroom/optim/adamw.hpp>
#include <headroom/optim/gradient_accumulator.hpp>
#include <headroom/tests/nn/drawn_models.hpp>
#include <headroom/tests/support/parameters.hpp>
#include <headroom/tests/support/small_pages.hpp>

namespace headroom::nn {
namespace refused_test {

using memory::format_bytes;
using memory::MemoryReport;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;

constexpr std::int64_t kRows = 4;

struct Case {
    const char* name;
    void (*train)(Context&, std::int64_t rows, std::vector<double>* values);  ///< two steps; values of the parameters
};

void PrintTo(const Case& each, std::ostream* out) { *out << each.name; }

void two_steps(Parameters& parameters, const std::function<Loss()>& loss, std::vector<double>* values) {
    optim::AdamW optimizer(parameters);
    optim::GradientAccumulator accumulator(parameters, optimizer, {.clip = 1.0});
    for (int step = 0; step < 2; ++step) {
        accumulator.accumulate(loss);
        accumulator.step(1e-3);
    }
    if (values) *values = headroom::test::values_of(parameters);
}

void train_unet(Context& context, std::int64_t rows, std::vector<double>* values) {
    Parameters parameters(context);
    const UNet model(Path(parameters), UNetOptions{.classes = 3, .width = 4});
    two_steps(
        parameters,
        [&] {
            const Tensor x = test::pattern(parameters, {rows, 3, 32, 48}, 0).contiguous(MemoryFormat::channels_last);
            return cross_entropy(model(x).permute({0, 2, 3, 1}), test::indices(context, {rows, 32, 48}, 0, 0, 3));
        },
        values);
}

void train_gpt(Context& context, std::int64_t rows, std::vector<double>* values) {
    Parameters parameters(context);
    const Gpt model(Path(parameters), {.vocabulary = 60, .block = 32, .layers = 4, .heads = 2, .width = 32});
    two_steps(
        parameters,
        [&] {
            return model.loss(test::indices(context, {rows, 32}, 0, 0, 60),
                              test::indices(context, {rows, 32}, 1, 0, 60));
        },
        values);
}

/// With small pages, so that limits lie close together.
std::shared_ptr<DeviceMemory> pages(std::size_t limit) {
    return std::make_shared<DeviceMemory>(headroom::test::make_small_pages(), training_memory({.limit = limit}));
}

Context real(std::size_t limit) { return Context::cpu({.threads = 2, .seed = 3, .memory = pages(limit)}); }

Profile profile_of(std::size_t limit) { return real(limit).profile(); }

class Refused : public ::testing::TestWithParam<Case> {
  protected:
    MemoryPeak rehearsed(std::size_t limit) const {
        return rehearse(profile_of(limit), [](Context& dry) { GetParam().train(dry, kRows, nullptr); }).peak;
    }
    /// Of the rehearsal that is refused.
    MemoryReport report(std::size_t limit) const {
        try {
            rehearsed(limit);
        } catch (const OutOfMemory& error) {
            return error.report();
        }
        ADD_FAILURE() << "a limit of " << limit << " suffices";
        return {};
    }
    /// From far below what is needed to a page below what suffices.
    std::vector<std::size_t> limits() const {
        const MemoryPeak peak = rehearsed(0);
        const std::size_t page = profile_of(0).memory.granularity;
        std::vector<std::size_t> all;
        for (const std::size_t percent : {10, 25, 40, 50, 60, 70, 80, 90, 95, 99})
            all.push_back(peak.allocated * percent / 100);
        for (std::size_t limit = peak.reserved - page; limit > peak.allocated - page; limit -= page) {
            try {
                rehearsed(limit);
            } catch (const OutOfMemory&) {
                all.push_back(limit);
            }
        }
        return all;
    }
};

INSTANTIATE_TEST_SUITE_P(Trainings, Refused, ::testing::Values(Case{"unet", train_unet}, Case{"gpt", train_gpt}),
                         [](const auto& info) { return info.param.name; });

TEST_P(Refused, ARehearsalSaysWhatAllOfItNeedsAndALimitThatSuffices) {
    Context free = real(0);
    free.memory().start_history(1);
    std::vector<double> values;
    GetParam().train(free, kRows, &values);
    const MemoryPeak needed = free.memory().peak();
    EXPECT_THAT(needed.purpose, MatchesRegex("(activations|workspace)( of [a-z0-9_.]+)? .[a-z0-9_]+.")) << "and its op";
    int in_pieces = 0;
    for (const std::size_t limit : limits()) {
        SCOPED_TRACE(limit);
        const MemoryReport report = this->report(limit);
        ASSERT_TRUE(report.whole);
        EXPECT_EQ(*report.whole, needed);
        const std::string line = OutOfMemory(report).what();
        EXPECT_THAT(line, HasSubstr("; the whole program needs " + format_bytes(needed.allocated) + " at once, at " +
                                    needed.purpose));
        const bool pieces = needed.allocated <= report.usable();
        in_pieces += pieces ? 1 : 0;
        EXPECT_EQ(line.find("would fit if free memory were not fragmented") != line.npos, pieces) << line;
        EXPECT_THAT(line, HasSubstr(fmt::format("a limit of {} bytes suffices", report.whole_limit)));
        EXPECT_GT(report.whole_limit, limit);
        EXPECT_LE(report.whole_limit, needed.reserved);
        Context enough = real(report.whole_limit);
        std::vector<double> same;
        GetParam().train(enough, kRows, &same);
        EXPECT_EQ(same, values);
    }
    EXPECT_GT(in_pieces, 0) << "no limit was near enough";
}

TEST_P(Refused, ARunClaimsNothingOfWhatWouldHaveComeLater) {
    int small_models = 0, batches = 0;
    for (const std::size_t limit : limits()) {
        Context context = real(limit);
        try {
            GetParam().train(context, kRows, nullptr);
            ADD_FAILURE() << "a limit of " << limit << " suffices";
        } catch (const OutOfMemory& error) {
            const MemoryReport& report = error.report();
            SCOPED_TRACE(report.advice);
            EXPECT_THAT(report.advice, Not(AnyOf(HasSubstr("%"), HasSubstr("recompute"), HasSubstr("would fit"))));
            if (report.advice.find("use a smaller model") != std::string::npos) {
                ++small_models;
                const auto smallest = [&](Context& dry) {
                    dry.policy("**", recompute_all());
                    GetParam().train(dry, 1, nullptr);
                };
                EXPECT_THROW(rehearse(profile_of(limit), smallest), OutOfMemory) << "some micro-batch fits";
                continue;
            }
            ++batches;
            const auto& live = report.statistics.allocated_by_category;
            const std::size_t fixed = live[0] + live[1] + live[2];
            const std::size_t grows = report.statistics.allocated + report.rounded - fixed;
            const std::size_t left = report.usable() - fixed;
            EXPECT_THAT(report.advice, HasSubstr(format_bytes(grows) + " grow with the micro-batch"));
            EXPECT_EQ(report.advice.find("fragmented") != std::string::npos, grows <= left);
            EXPECT_THAT(report.advice, HasSubstr(grows > left ? format_bytes(grows - left) + " more than fits"
                                                              : "remaining " + format_bytes(left) + " are fragmented"));
            EXPECT_EQ(report.advice.find("live in") == std::string::npos, report.repeated.empty());
            if (!report.repeated.empty()) {
                EXPECT_THAT(report.advice, HasSubstr(fmt::format("live in \"{}\"", report.repeated.front().pattern)));
            }
            EXPECT_THAT(report.advice, HasSubstr("rehearse() tells"));
        }
    }
    EXPECT_GT(small_models, 0);
    EXPECT_GT(batches, 3);
}

TEST_P(Refused, EveryRequestIsGrantedWithTheLimitThatItsReportNames) {
    for (const std::size_t limit : limits()) {
        Context context = real(limit);
        std::size_t last = limit;
        context.memory().on_out_of_memory([&](const MemoryReport& report) {
            EXPECT_GT(report.request_limit(), last);
            last = report.request_limit();
            context.memory().set_limit(last);
            return true;
        });
        GetParam().train(context, kRows, nullptr);
        EXPECT_GT(last, limit);
        EXPECT_EQ(context.memory().statistics().refusals, 0u);
    }
}

TEST(RefusedForGood, IsWhatNoDeviceHas) {
    const Profile profile = profile_of(1 << 20);
    const auto absurd = [](Context& dry) { dry.exec().empty({std::int64_t{1} << 58}, Dtype::u8); };
    try {
        rehearse(profile, absurd);
        FAIL();
    } catch (const OutOfMemory& error) {
        EXPECT_FALSE(error.report().whole);
        EXPECT_EQ(error.report().limit, std::size_t{1} << 20);
    }
}

TEST(RefusedByADevice, IsToldHowMuchADeviceMustHave) {
    const auto train = [](Context& dry) { train_gpt(dry, 64, nullptr); };
    Profile profile = Profile::gpu(std::size_t{604} << 20);
    try {
        rehearse(profile, train);
        FAIL();
    } catch (const OutOfMemory& error) {
        const MemoryReport& report = error.report();
        ASSERT_TRUE(report.whole);
        EXPECT_THAT(error.what(),
                    HasSubstr(fmt::format("a device of {} bytes suffices", report.whole_limit + kGpuReserve)));
        profile = Profile::gpu(report.whole_limit + kGpuReserve);
        EXPECT_EQ(rehearse(profile, train).peak.allocated, report.whole->allocated);
    }
}

}  // namespace refused_test
}  // namespace headroom::nn
