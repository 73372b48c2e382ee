#include <headroom/training/metrics.hpp>

#include <algorithm>
#include <cstring>
#include <exception>
#include <numeric>

#include <fmt/format.h>

#include <headroom/core/ops/compare.hpp>
#include <headroom/core/ops/reduce.hpp>
#include <headroom/memory/error.hpp>

namespace headroom::training {

data::LoaderShare SharedMean::share() const {
    const Group* const group = context_.group();
    if (!group) return {};
    return {group->rank(), group->ranks(), group->ranks()};
}

void SharedMean::add(const Loss& loss) { own_.emplace_back().add(loss); }

void SharedMean::collect(const std::function<void()>& work) {
    std::exception_ptr unreadable;
    try {
        work();
    } catch (const FileError&) {
        unreadable = std::current_exception();
    }
    Group* const group = context_.dry() ? nullptr : context_.group();
    if (group && any(*group, unreadable ? 1 : 0) && !unreadable) throw FileError("another process can't read a batch");
    if (unreadable) std::rethrow_exception(unreadable);
    const std::string bytes(reinterpret_cast<const char*>(own_.data()), own_.size() * sizeof(MeanLoss));
    std::vector<std::vector<MeanLoss>> all;
    for (const std::string& one : group ? gather(*group, bytes) : std::vector{bytes}) {
        all.emplace_back(one.size() / sizeof(MeanLoss));
        if (!one.empty()) std::memcpy(static_cast<void*>(all.back().data()), one.data(), one.size());
    }
    for (std::size_t round = 0; round < all.front().size(); ++round) {
        for (const std::vector<MeanLoss>& rank : all) {
            if (round == rank.size()) break;  // the last round, which the later ranks have no part in
            mean_.total += rank[round].total;
            mean_.terms += rank[round].terms;
        }
    }
}

void Accuracy::add(const Tensor& logits, const Tensor& labels) {
    right_ += sum(eq(argmax(logits, -1), labels)).item();
    all_ += sum(ge(labels, 0)).item();
}

bool ClassesSeen::any() const { return std::ranges::find(seen_, true) != seen_.end(); }

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
