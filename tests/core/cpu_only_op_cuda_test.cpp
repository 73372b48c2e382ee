// An op whose work takes a CpuStream alone: it runs on the CPU, and is refused by name where there is a GPU.
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <headroom/core/apply.hpp>
#include <headroom/core/context.hpp>
#include <headroom/kernels/device/cuda_device.hpp>
#include <headroom/kernels/pointwise/pointwise.hpp>
#include <headroom/memory/error.hpp>

namespace headroom {
namespace cpu_only_op_cuda_test {

using testing::HasSubstr;

struct HostSquare {
    static constexpr OpInfo info{.name = "host_square"};
    struct Attrs {};
    struct Saved {};
    static OpResult<Saved, Array> forward(Exec& exec, const Attrs&, const Array& x) {
        Array y = exec.empty_like(x, x.dtype);
        exec.launch([&](kernels::CpuStream& stream) { kernels::map(stream, kernels::Square{}, x.view(), y.view()); });
        return {{}, y};
    }
    static std::vector<Sample<Attrs>> samples() { return {}; }
};

void square_on(Context& context) {
    const Tensor y = apply<HostSquare>({}, context.from_host(std::vector<float>{1, 2, 3}, {3}));
    if (context.dry()) return;
    EXPECT_EQ(y.to_vector<float>(), (std::vector<float>{1, 4, 9}));
}

void expect_refused(Context context) {
    try {
        square_on(context);
        ADD_FAILURE() << "nothing was refused";
    } catch (const Error& error) {
        EXPECT_THAT(error.what(), HasSubstr("host_square: has no GPU kernel"));
    }
}

TEST(CpuOnlyOp, RunsOnTheCpuAndInItsRehearsal) {
    Context cpu = Context::cpu();
    square_on(cpu);
    Context rehearsal = Context::dry(cpu.profile());
    square_on(rehearsal);
}

TEST(CpuOnlyOp, IsRefusedInARehearsalForAGpu) { expect_refused(Context::dry(Profile::gpu(1 << 30))); }

TEST(CpuOnlyOp, IsRefusedOnAGpu) {
    if (kernels::cuda_device_count() == 0) GTEST_SKIP() << "no GPU";
    expect_refused(Context::cuda());
}

TEST(CpuOnlyOp, IsRefusedByALaunchWithoutAnOp) {
    kernels::Stream stream = kernels::DryStream{.capability = 90};
    EXPECT_THROW(kernels::launch(stream, [](kernels::CpuStream&) {}), Error);
    stream = kernels::DryStream{};
    EXPECT_NO_THROW(kernels::launch(stream, [](kernels::CpuStream&) {}));
}

}  // namespace cpu_only_op_cuda_test
}  // namespace headroom
