#include <headroom/kernels/channel_norm/channel_norm.hpp>
#include <headroom/kernels/channel_norm/internal/running.hpp>
#include <headroom/kernels/convert.hpp>
#include <headroom/kernels/step_control/formulas.hpp>

namespace headroom::kernels {

void update_running(CpuStream&, const View& mean, const View& variance, const Correction& correction, const View* loss,
                    const RunningStatistics& running) {
    bool finite = loss == nullptr || is_finite(load_one<double>(loss->data, loss->dtype));
    const std::int64_t channels = mean.numel();
    const auto at = [](const View& x, std::int64_t i) { return load_one<double>(x.at(i), x.dtype); };
    for (std::int64_t i = 0; i < channels && finite; ++i) finite = is_finite(at(mean, i)) && is_finite(at(variance, i));
    if (!finite) return;
    auto& batches = *running.batches.as<std::int64_t>();
    const double factor = correction.at ? *correction.at : correction.factor;
    const double share = share_of_batch(running.momentum, ++batches);
    const auto take_in = [&](const View& of, std::int64_t i, double value) {
        store_one(joined(at(of, i), value, share), of.at(i), of.dtype);
    };
    for (std::int64_t i = 0; i < channels; ++i) {
        take_in(running.mean, i, at(mean, i));
        take_in(running.variance, i, factor * at(variance, i));
    }
}

}  // namespace headroom::kernels
