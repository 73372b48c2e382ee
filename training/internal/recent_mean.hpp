#pragma once
// The mean of the last values of a series, such as the losses of the last hundred steps.
//
//     RecentMean loss(100);
//     loss.add(2.5);
//     fmt::print("{}", loss.mean().value_or(0));
#include <cstddef>
#include <deque>
#include <numeric>
#include <optional>

namespace headroom::training {

class RecentMean {
  public:
    explicit RecentMean(std::size_t count) : count_(count) {}

    void add(double value) {
        values_.push_back(value);
        if (values_.size() > count_) values_.pop_front();
    }
    /// None before the first.
    std::optional<double> mean() const {
        if (values_.empty()) return std::nullopt;
        return std::accumulate(values_.begin(), values_.end(), 0.0) / static_cast<double>(values_.size());
    }

  private:
    std::size_t count_;
    std::deque<double> values_;
};

}  // namespace headroom::training
