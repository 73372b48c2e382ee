// What a program says of a training on a GPU, which works while the host does something else.
#include <headroom/examples/cli/program.hpp>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <headroom/core/ops/attention.hpp>
#include <headroom/kernels/device/cuda_device.hpp>
#include <headroom/kernels/device/internal/cudnn_calls.hpp>
#include <headroom/memory/buffer.hpp>
#include <headroom/memory/device_memory.hpp>
#include <headroom/tests/data/scratch.hpp>
#include <headroom/tests/training/one_layer_task.hpp>

namespace headroom::cli {
namespace train_cuda_test {

using testing::HasSubstr;

constexpr std::chrono::milliseconds kStep{5};

/// Takes some time, for sure.
class SlowTask final : public test::OneLayerTask {
  public:
    using test::OneLayerTask::OneLayerTask;
    Batch batch() override {
        std::this_thread::sleep_for(kStep);
        return test::OneLayerTask::batch();
    }
};

TEST(TrainCuda, NoStepIsFasterThanItWas) {
    if (kernels::cuda_device_count() == 0) GTEST_SKIP() << "there is no GPU";
    const test::ScratchFolder folder;
    for (const std::int64_t steps : {1, 2, 3, 25}) {
        Flags flags;
        flags.device = "cuda";
        flags.steps = steps;
        flags.trainer.batch = 1;
        flags.json = folder.path() / "figures.json";
        train(flags, [] {
            Program program;
            program.unit = "samples";
            program.task = [](Parameters& parameters, std::int64_t) { return std::make_unique<SlowTask>(parameters); };
            return program;
        });
        const nlohmann::json figures = nlohmann::json::parse(std::ifstream(flags.json));
        const double rate = figures["samples_per_second"];
        EXPECT_GT(rate, 0) << steps;
        EXPECT_TRUE(figures["used"].is_number_unsigned()) << figures["used"];
        EXPECT_LE(rate, 1 / std::chrono::duration<double>(kStep).count()) << steps;
    }
}

/// By three steps on a GPU.
template <class OneTask>
std::string printed_by() {
    Flags flags;
    flags.device = "cuda";
    flags.steps = 3;
    flags.trainer.batch = 1;
    testing::internal::CaptureStdout();
    train(flags, [] {
        Program program;
        program.task = [](Parameters& parameters, std::int64_t) { return std::make_unique<OneTask>(parameters); };
        return program;
    });
    return testing::internal::GetCapturedStdout();
}

/// Whose GPU has no cuDNN, as a first use finds.
class TaskWithoutCudnn final : public test::OneLayerTask {
  public:
    using test::OneLayerTask::OneLayerTask;
    Batch batch() override {
        if (auto* stream = std::get_if<CudaStream>(&context_.stream()))
            stream->state->get<kernels::OpenedCudnn>().absence = "it is not there";
        return test::OneLayerTask::batch();
    }
};

TEST(TrainCuda, SaysOnceThatOwnKernelsComputeInPlaceOfCudnn) {
    if (!kernels::cuda_is_emulated()) GTEST_SKIP() << "where cuDNN is, it is in use";
    const std::string printed = printed_by<TaskWithoutCudnn>();
    const std::string line = "own kernels compute attention and convolutions: it is not there\n";
    EXPECT_NE(printed.find(line), std::string::npos) << printed;
    EXPECT_EQ(printed.find(line), printed.rfind(line)) << printed;
}

/// With an attention of halves, which cuDNN takes on a GPU that is new enough.
class TaskWithAttention final : public test::OneLayerTask {
  public:
    using test::OneLayerTask::OneLayerTask;
    Loss loss(const Batch& batch) override {
        const Tensor heads = ones(context_, {1, 64, 1, 64}, Dtype::f16);
        attention(heads, heads, heads, true);
        return test::OneLayerTask::loss(batch);
    }
};

/// The emulator's third GPU has compute capability 7.5, its first one 8.0.
TEST(TrainCuda, SaysOnceThatOwnKernelsComputeAttentionOnAnOldGpu) {
    if (!kernels::cuda_is_emulated()) GTEST_SKIP() << "only the emulator has one for certain";
    for (const char* const gpu : {"2", "0"}) {
        setenv("CUDA_VISIBLE_DEVICES", gpu, 1);
        const std::string printed = printed_by<TaskWithAttention>(), first = "own kernels compute attention";
        unsetenv("CUDA_VISIBLE_DEVICES");
        const std::string line = first + ": cuDNN: its attention needs compute capability 8.0, and this GPU has 7.5\n";
        const bool old = std::string_view(gpu) == "2";
        EXPECT_EQ(printed.find(line) != std::string::npos, old) << printed;
        EXPECT_EQ(printed.find(first), printed.rfind(first)) << printed;
        EXPECT_EQ(printed.find(first) != std::string::npos, old) << printed;
    }
}

/// While it trains, others take 64 MiB of the GPU.
class TaskBesideOthers final : public test::OneLayerTask {
  public:
    TaskBesideOthers(Parameters& parameters, memory::DeviceMemory& others)
        : test::OneLayerTask(parameters), others_(others) {}
    Batch batch() override {
        if (!context_.dry() && !block_) block_ = memory::Buffer::allocate(others_, kBytes, 0, {});
        return test::OneLayerTask::batch();
    }

  private:
    static constexpr std::size_t kBytes = std::size_t{64} << 20;
    memory::DeviceMemory& others_;
    std::optional<memory::Buffer> block_;
};

/// What a training of one step prints on a GPU of which others use so many bytes before it begins, and 64 MiB more
/// then.
std::string printed_beside_others(std::size_t before, std::size_t gpu_reserve) {
    const Context owner = Context::cuda();
    memory::DeviceMemory others(owner.gpu()->make_driver());
    std::optional<memory::Buffer> block;
    if (before > 0) block = memory::Buffer::allocate(others, before, 0, {});
    Flags flags;
    flags.device = "cuda";
    flags.steps = 1;
    flags.trainer.batch = 1;
    flags.gpu.reserve = gpu_reserve;
    testing::internal::CaptureStdout();
    train(flags, [&] {
        Program program;
        program.task = [&](Parameters& parameters, std::int64_t) {
            return std::make_unique<TaskBesideOthers>(parameters, others);
        };
        return program;
    });
    return testing::internal::GetCapturedStdout();
}

TEST(TrainCuda, SaysWhatIsLeftToOthersAndWhetherThatSufficed) {
    if (!kernels::cuda_is_emulated()) GTEST_SKIP() << "a GPU's other programs come and go";
    const std::string enough = printed_beside_others(0, std::size_t{600} << 20);
    EXPECT_THAT(enough, HasSubstr("629.1 MB (629145600 bytes) are left to CUDA and its libraries\n"));
    EXPECT_THAT(enough, HasSubstr("beside it, the driver, its libraries and others use 67.1 MB (67108864 bytes)\n"));
    EXPECT_THAT(printed_beside_others(std::size_t{64} << 20, std::size_t{80} << 20),
                HasSubstr("109.1 MB (109051904 bytes) are left to CUDA and its libraries, since 67.1 MB (67108864 "
                          "bytes) were in use at the start, by its context and other programs\n"));
    EXPECT_THAT(printed_beside_others(0, std::size_t{10} << 20),
                HasSubstr("use 67.1 MB (67108864 bytes), more than the 10.5 MB (10485760 bytes) that were left to "
                          "them: --gpu-reserve\n"));
}

}  // namespace train_cuda_test
}  // namespace headroom::cli
