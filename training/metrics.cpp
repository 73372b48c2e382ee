#include <headroom/training/metrics.hpp>

#include <algorithm>
#include <cstring>
#include <numeric>

#include <fmt/format.h>

#include <headroom/core/ops/compare.hpp>
#include <headroom/core/ops/reduce.hpp>
#include <headroom/memory/error.hpp>

namespace headroom::training {

MeanLoss::Sum MeanLoss::total() const {
    Sum total;
    for (const Sum& batch : batches_) {
        total.sum += batch.sum;
        total.terms += batch.terms;
    }
    return total;
}

void MeanLoss::combine(Group& group) {
    std::vector<std::vector<Sum>> ranks;
    for (const std::string& one : all_gather(
             group, std::string(reinterpret_cast<const char*>(batches_.data()), batches_.size() * sizeof(Sum)))) {
        ranks.emplace_back(one.size() / sizeof(Sum));
        if (!one.empty()) std::memcpy(static_cast<void*>(ranks.back().data()), one.data(), one.size());
    }
    batches_.clear();
    for (std::size_t round = 0; round < ranks.front().size(); ++round) {
        for (const std::vector<Sum>& rank : ranks) {
            if (round == rank.size()) break;  // the last round, which the later ranks have no part in
            batches_.push_back(rank[round]);
        }
    }
}

void Accuracy::add(const Tensor& logits, const Tensor& labels) {
    right_ += sum(eq(argmax(logits, -1), labels)).item();
    all_ += sum(ge(labels, 0)).item();
}

void Accuracy::combine(Group& group) {
    const auto sum_of = [&](double own) {  // whole numbers, so that no order matters
        const std::vector<double> ranks = all_gather(group, own);
        return std::accumulate(ranks.begin(), ranks.end(), 0.0);
    };
    right_ = sum_of(right_);
    all_ = sum_of(all_);
}

bool ClassesSeen::any() const { return std::ranges::find(seen_, true) != seen_.end(); }

void ClassesSeen::combine(Group& group) {
    const std::string own(seen_.begin(), seen_.end());
    for (const std::string& rank : all_gather(group, own)) {
        for (std::size_t label = 0; label < rank.size(); ++label) seen_[label] = seen_[label] || rank[label] != 0;
    }
}

std::string ClassesSeen::note(const std::vector<std::string>& names) const {
    std::string only;
    for (std::size_t label = 0; label < seen_.size(); ++label) {
        if (!seen_[label]) continue;
        if (!only.empty()) return "";
        only = label < names.size() && !names[label].empty() ? names[label] : fmt::to_string(label);
    }
    return only.empty() ? "no class occurs in it" : fmt::format("only class {} occurs in it", only);
}

void ConfusionMatrix::add(std::span<const std::int64_t> predicted, std::span<const std::int32_t> truth) {
    if (predicted.size() != truth.size())
        throw ShapeError(
            fmt::format("ConfusionMatrix: {} predicted classes and {} true ones", predicted.size(), truth.size()));
    for (std::size_t i = 0; i < truth.size(); ++i) {
        if (truth[i] < 0) continue;
        if (truth[i] >= classes_ || predicted[i] < 0 || predicted[i] >= classes_)
            throw ShapeError(fmt::format("ConfusionMatrix: class {} is outside of [0, {})",
                                         truth[i] >= classes_ ? truth[i] : predicted[i], classes_));
        ++counts_[static_cast<std::size_t>(truth[i] * classes_ + predicted[i])];
    }
}

void ConfusionMatrix::combine(Group& group) {
    const std::vector<std::byte> ranks = all_gather(group, std::as_bytes(std::span(counts_)));
    std::ranges::fill(counts_, 0);
    for (std::size_t i = 0; i < ranks.size() / sizeof(std::int64_t); ++i) {
        std::int64_t count = 0;
        std::memcpy(&count, ranks.data() + i * sizeof count, sizeof count);
        counts_[i % counts_.size()] += count;
    }
}

double ConfusionMatrix::mean_iou() const {
    double sum = 0;
    int occur = 0;
    for (std::int64_t c = 0; c < classes_; ++c) {
        std::int64_t either = -count(c, c);
        for (std::int64_t other = 0; other < classes_; ++other) either += count(c, other) + count(other, c);
        if (either == 0) continue;
        sum += static_cast<double>(count(c, c)) / static_cast<double>(either);
        ++occur;
    }
    return occur == 0 ? 0 : sum / occur;
}

double ConfusionMatrix::accuracy() const {
    const std::int64_t all = std::accumulate(counts_.begin(), counts_.end(), std::int64_t{0});
    std::int64_t right = 0;
    for (std::int64_t c = 0; c < classes_; ++c) right += count(c, c);
    return all == 0 ? 0 : static_cast<double>(right) / static_cast<double>(all);
}

}  // namespace headroom::training
