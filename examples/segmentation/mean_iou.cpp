#include <headroom/examples/segmentation/mean_iou.hpp>

namespace headroom::segmentation {

void MeanIou::add(std::span<const std::int64_t> predicted, std::span<const std::int32_t> truth) {
    for (std::size_t i = 0; i < truth.size(); ++i) {
        if (truth[i] < 0) continue;
        const auto seen = static_cast<std::size_t>(predicted[i]), real = static_cast<std::size_t>(truth[i]);
        ++either_[real];
        if (seen == real) {
            ++both_[real];
        } else {
            ++either_[seen];
        }
    }
}

double MeanIou::mean() const {
    double sum = 0;
    int occur = 0;
    for (std::size_t i = 0; i < either_.size(); ++i) {
        if (either_[i] == 0) continue;
        sum += static_cast<double>(both_[i]) / static_cast<double>(either_[i]);
        ++occur;
    }
    return occur == 0 ? 0 : sum / occur;
}

}  // namespace headroom::segmentation
