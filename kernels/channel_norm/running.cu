// One block does all: a few thousand numbers.
#include <headroom/kernels/channel_norm/channel_norm.hpp>
#include <headroom/kernels/channel_norm/internal/running.hpp>
#include <headroom/kernels/device/elements.hpp>
#include <headroom/kernels/device/launch.hpp>
#include <headroom/kernels/step_control/formulas.hpp>

namespace headroom::kernels {

namespace {

using namespace device;

struct Numbers {
    explicit Numbers(const View& view) : data(view.data), dtype(view.dtype) {}
    HEADROOM_DEVICE double at(std::int64_t i) const { return load_as<double>(data, dtype, i); }
    void* data;
    Dtype dtype;
};

struct UpdateRunning {
    static constexpr unsigned kMaxThreads = 256;

    HEADROOM_DEVICE void operator()(Block& block, const Numbers& mean, const Numbers& variance,
                                    const Correction& correction, const Numbers& loss, const Numbers& running_mean,
                                    const Numbers& running_variance, std::int64_t* batches, double momentum,
                                    std::int64_t channels) const {
        float finite = loss.data == nullptr || is_finite(loss.at(0)) ? 1.0f : 0.0f;
        for (std::int64_t i = block.thread(); i < channels; i += block.threads())
            if (!is_finite(mean.at(i)) || !is_finite(variance.at(i))) finite = 0.0f;
        // Behind this all threads have read the count.
        const std::int64_t count = *batches + 1;
        finite = -block.max(-finite, block.shared<float>(block.warps()));
        if (finite == 0.0f) return;
        const double factor = correction.at ? *correction.at : correction.factor;
        const double share = share_of_batch(momentum, count);
        for (std::int64_t i = block.thread(); i < channels; i += block.threads()) {
            take_in(running_mean, i, mean.at(i), share);
            take_in(running_variance, i, factor * variance.at(i), share);
        }
        if (block.thread() == 0) *batches = count;
    }

    HEADROOM_DEVICE static void take_in(const Numbers& running, std::int64_t i, double value, double share) {
        store_as<double>(running.data, running.dtype, i, joined(running.at(i), value, share));
    }
};

}  // namespace

void update_running(CudaStream& stream, const View& mean, const View& variance, const Correction& correction,
                    const View* loss, const RunningStatistics& running) {
    const LaunchShape shape{.x = 1,
                            .threads = UpdateRunning::kMaxThreads,
                            .shared_bytes = shared_size<float>(UpdateRunning::kMaxThreads / kWarp)};
    device::launch(stream, shape, UpdateRunning{}, Numbers(mean), Numbers(variance), correction,
                   Numbers(loss ? *loss : View{}), Numbers(running.mean), Numbers(running.variance),
                   running.batches.as<std::int64_t>(), running.momentum, mean.numel());
}

}  // namespace headroom::kernels
