// What of a GPU's memory a training gets, and what a GPU without bf16 refuses: in a dry run of it, which needs no GPU.
#include <headroom/core/context.hpp>

#include <cstdint>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <headroom/core/ops/cast.hpp>
#include <headroom/core/ops/create.hpp>
#include <headroom/core/ops/matmul.hpp>
#include <headroom/core/transfer.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/memory/out_of_memory.hpp>

namespace headroom {
namespace gpu_memory_test {

using testing::AllOf;
using testing::HasSubstr;

constexpr std::size_t kMiB = std::size_t{1} << 20, kPage = 2 * kMiB;

std::string error_of(const auto& work) {
    try {
        work();
    } catch (const Error& error) {
        return error.what();
    }
    return "no error";
}

TEST(GpuMemory, LeavesAReserveToCuda) {
    const Profile card = Profile::gpu(gpu_model("RTX 2080 Ti"));
    EXPECT_EQ(card.reserved_bytes(), 600 * kMiB);
    EXPECT_EQ(card.usable_bytes(), (card.memory.total_bytes - 600 * kMiB) / kPage * kPage);
    EXPECT_EQ(Profile::gpu(1000 * kMiB + 5).usable_bytes(), 400 * kMiB);
    Profile several = card;
    several.ranks = 2;
    EXPECT_EQ(several.reserved_bytes(), 1000 * kMiB) << "with NCCL's buffers";
    EXPECT_EQ(Profile{}.reserved_bytes(), 0u) << "of a processor";
    EXPECT_EQ(card.endless().reserved_bytes(), 0u);
    EXPECT_EQ(several.limited(kPage).usable_bytes(), card.memory.total_bytes / kPage * kPage) << "no reserve";
}

/// Half of the reserve is CUDA's own context, which is in use when a context begins; what exceeds it is others'.
TEST(GpuMemory, LeavesWhatOthersUseToThem) {
    Profile card = Profile::gpu(8000 * kMiB);
    for (const std::size_t in_use : {std::size_t{0}, 299 * kMiB, 300 * kMiB}) {
        card.in_use = in_use;
        EXPECT_EQ(card.reserved_bytes(), 600 * kMiB);
    }
    card.in_use = 301 * kMiB;
    EXPECT_EQ(card.reserved_bytes(), 601 * kMiB);
    card.in_use = 7900 * kMiB;
    EXPECT_EQ(card.usable_bytes(), 0u);
    EXPECT_EQ(card.limited(500 * kMiB).reserved_bytes(), 0u) << "a device that is the training's alone";
    card.reserve = 0;
    EXPECT_EQ(card.usable_bytes(), 100 * kMiB);
}

TEST(GpuMemory, IsTakenToTheLastPageThatIsUsableAndNoFurther) {
    const Profile card = Profile::gpu(700 * kMiB);
    Context context = Context::dry(card);
    const auto page = [&] { return context.exec().empty({static_cast<std::int64_t>(kPage)}, Dtype::u8); };
    std::vector<Array> pages;
    for (std::size_t taken = 0; taken < card.usable_bytes(); taken += kPage) pages.push_back(page());
    ASSERT_EQ(pages.size(), 50u);
    EXPECT_THAT(error_of(page), AllOf(HasSubstr("the device's 734.0 MB less the reserve of 629.1 MB"),
                                      HasSubstr("in a rehearsal on simulated GPU")));
}

TEST(GpuMemory, OfARehearsalIsThatOfItsContext) {
    Profile card = Profile::gpu(gpu_model("T4"));
    card.in_use = 500 * kMiB;
    card.memory_limit = 5000 * kMiB;
    const Profile again = Context::dry(card).profile();
    EXPECT_EQ(again.model, card.model);
    EXPECT_EQ(again.reserve, card.reserve);
    EXPECT_EQ(again.in_use, card.in_use);
    EXPECT_EQ(again.memory_limit, card.memory_limit);
    EXPECT_EQ(again.usable_bytes(), card.usable_bytes());
    EXPECT_EQ(Context::dry(again).memory().options().reserve, 800 * kMiB);
    EXPECT_FALSE(Context::cpu().profile().cuda());
}

TEST(GpuMemory, ThatIsReservedWholeIsRefused) {
    EXPECT_THAT(error_of([] { Context::dry(Profile::gpu(601 * kMiB)); }),
                AllOf(HasSubstr("memory reserve: 629145600 of the simulated GPU's 630194176 bytes"),
                      HasSubstr("which leaves less than a page")));
}

/// One line each, before anything is allocated.
TEST(OldGpu, RefusesBf16) {
    Context context = Context::dry(Profile::gpu(gpu_model("T4")));
    const char* const why = "bf16 needs a GPU of compute capability 8.0, but this one has 7.5: use f16 (--dtype f16)";
    EXPECT_EQ(error_of([&] { Autocast autocast(context, Dtype::bf16); }), "autocast: " + std::string(why));
    EXPECT_EQ(error_of([&] { context.scalar(1, Dtype::bf16); }), why);
    EXPECT_EQ(error_of([&] { randn(context, {4}, Dtype::bf16); }), "randn: " + std::string(why));
    EXPECT_EQ(context.memory().statistics().allocated, 0u);
    const Tensor x = context.from_host(std::vector<float>{1, 2, 3, 4}, {2, 2});
    EXPECT_EQ(error_of([&] { cast(x, Dtype::bf16); }), "cast: " + std::string(why));
    const Autocast autocast(context, Dtype::f16);
    EXPECT_EQ(matmul(x, x).dtype(), Dtype::f16);
    Context later = Context::dry(Profile::gpu(gpu_model("A100 40GB")));
    EXPECT_EQ(later.scalar(1, Dtype::bf16).dtype(), Dtype::bf16);
}

/// Those of a checkpoint, which lie there until they are converted.
TEST(OldGpu, TakesValuesOfBf16ForAnotherDtype) {
    std::vector<std::uint16_t> ones(8, 0x3f80);
    const View in_file = kernels::contiguous_view(ones.data(), Dtype::bf16, {8});
    Context context = Context::dry(Profile::gpu(gpu_model("T4")));
    for (const Dtype dtype : {Dtype::f16, Dtype::f32}) {
        const Array array = context.exec().empty({8}, dtype);
        const std::uint64_t before = context.memory().statistics().allocations;
        EXPECT_EQ(error_of([&] { upload(context.exec(), in_file, array); }), "no error") << kernels::name(dtype);
        EXPECT_GT(context.memory().statistics().allocations, before);
    }
}

TEST(OldGpu, HasNoTf32) {
    for (const auto& [name, has] : {std::pair{"T4", false}, {"RTX 3060", true}}) {
        Profile card = Profile::gpu(gpu_model(name));
        card.compute.tf32 = true;
        EXPECT_EQ(Context::dry(card).profile().compute.tf32, has) << name;
    }
}

}  // namespace gpu_memory_test
}  // namespace headroom
