#pragma once
// Random numbers for work outside of a training's micro-batches. They depend only on the number of the batch they are
// drawn for, not on the process or the time, and never overlap with the draws of micro-batches.
//
//     const training::NumberedDraws draws(context, training::NumberedDraws::Of::validations, 3);
//     const Tensor noise = randn(context, {8, 2});           // the same for this batch of each validation
#include <cstdint>

#include <headroom/core/context.hpp>

namespace headroom::training {

/// Sets the context's random counter for one batch; the destructor restores it.
class NumberedDraws {
  public:
    /// The purpose of the draws; its value is the first counter.
    enum class Of : std::uint64_t { batches = std::uint64_t{1} << 62, validations = std::uint64_t{1} << 63 };

    NumberedDraws(Context& context, Of of, std::int64_t number)
        : context_(context), counter_(context.random_counter()) {
        constexpr std::uint64_t each = std::uint64_t{1} << 20;
        context.set_random_counter(static_cast<std::uint64_t>(of) + each * static_cast<std::uint64_t>(number));
    }
    ~NumberedDraws() { context_.set_random_counter(counter_); }
    NumberedDraws(const NumberedDraws&) = delete;
    NumberedDraws& operator=(const NumberedDraws&) = delete;

  private:
    Context& context_;
    std::uint64_t counter_;
};

}  // namespace headroom::training
