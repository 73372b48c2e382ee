#pragma once
// What is drawn outside of a training's micro-batches: by the number of what it is for, whoever computes that and
// whenever, and never what a micro-batch draws.
//
//     const training::NumberedDraws draws(context, training::NumberedDraws::Of::validations, 3);
//     const Tensor noise = randn(context, {8, 2});           // the same for this batch of each validation
#include <cstdint>

#include <headroom/core/context.hpp>

namespace headroom::training {

/// For one batch. The context's random counter is as before when it ends.
class NumberedDraws {
  public:
    /// Where their numbers begin.
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
