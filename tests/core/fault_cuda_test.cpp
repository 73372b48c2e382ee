// A kernel that breaks CUDA's rules: the error says where, its context refuses further work, other contexts go on. In
// the emulator only: on a GPU this kernel may well end, and one that does not takes the whole process's device with it.
#include <string>
#include <type_traits>

#include <gtest/gtest.h>

#include <headroom/core/apply.hpp>
#include <headroom/core/context.hpp>
#include <headroom/core/ops/binary.hpp>
#include <headroom/kernels/device/cuda_device.hpp>
#include <headroom/memory/error.hpp>

namespace headroom {

namespace test {
void diverge(CudaStream& stream);
}

namespace fault_cuda_test {

struct Faulty {
    static constexpr OpInfo info{.name = "faulty"};
    struct Attrs {};
    struct Saved {};
    static OpResult<Saved, Array> forward(Exec& exec, const Attrs&, const Array& x) {
        Array y = exec.empty(x.shape(), x.dtype);
        exec.launch([](auto& stream) {
            if constexpr (std::is_same_v<decltype(stream), CudaStream&>) test::diverge(stream);
        });
        return {{}, std::move(y)};
    }
    static std::vector<Sample<Attrs>> samples() { return {{"one", {}, {SampleInput::normal({3})}}}; }
};

class FaultCuda : public testing::Test {
  protected:
    void SetUp() override {
        if (!kernels::cuda_is_emulated()) GTEST_SKIP() << "a fault on a GPU is the whole process's";
    }
    std::string error_of(Context& context) {
        const Tensor x = context.from_host(std::vector<float>(6), {2, 3});
        try {
            RegionScope region(context, context.memory().intern("blocks.1.mlp"));
            apply<Faulty>({}, x);
        } catch (const DeviceError& error) {
            return error.what();
        }
        return "no error";
    }
};

TEST_F(FaultCuda, NamesTheOpItsShapesAndTheModule) {
    Context context = Context::cuda();
    const std::string text = error_of(context);
    EXPECT_EQ(text.find("faulty f32 [2, 3]: "), 0u) << text;
    EXPECT_TRUE(text.ends_with(", in blocks.1.mlp")) << text;
    EXPECT_NE(text.find("Divergent"), std::string::npos) << text;
    EXPECT_NE(text.find("fault_cuda_test.cu"), std::string::npos) << text;
}

TEST_F(FaultCuda, MakesTheContextRefuseWorkWhileOthersGoOn) {
    Context first = Context::cuda(), second = Context::cuda(1), host = Context::cpu();
    error_of(first);
    try {
        first.from_host(std::vector<float>{1}, {1});
        FAIL() << "the context took more work";
    } catch (const DeviceError& error) {
        EXPECT_NE(std::string(error.what()).find("can't be used any more, because earlier work failed"),
                  std::string::npos)
            << error.what();
    }
    for (Context* context : {&second, &host}) {
        const Tensor x = context->from_host(std::vector<float>{1, 2}, {2});
        EXPECT_EQ(add(x, x).to_vector<float>(), (std::vector<float>{2, 4}));
    }
}

/// As on a GPU: code of the host that follows a device's pointer is found by the tests.
TEST_F(FaultCuda, TheHostCanNotTouchAGpusMemory) {
    Context context = Context::cuda();
    const Tensor x = context.from_host(std::vector<float>{1, 2}, {2});
    const volatile float* inside = x.array().view().as<float>();
    EXPECT_DEATH(static_cast<void>(*inside), "");
    EXPECT_EQ(x.to_vector<float>(), (std::vector<float>{1, 2}));
}

}  // namespace fault_cuda_test
}  // namespace headroom
