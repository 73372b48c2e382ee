#pragma once
// Keeps random numbers reproducible after a refused call: the next call draws what the refused one would have drawn.
//
//     const DrawGuard guard(context);
//     return apply<Dropout>({p, context.next_random()}, x);
#include <exception>

#include <headroom/core/context.hpp>

namespace headroom::ops {

/// Restores the context's counter if an exception leaves the scope. (No effect inside a micro-batch, where draws are
/// counted per module and start anew in the next one.)
class DrawGuard {
  public:
    explicit DrawGuard(Context& context)
        : context_(context), counter_(context.random_counter()), exceptions_(std::uncaught_exceptions()) {}
    ~DrawGuard() {
        if (std::uncaught_exceptions() > exceptions_) context_.set_random_counter(counter_);
    }
    DrawGuard(const DrawGuard&) = delete;
    DrawGuard& operator=(const DrawGuard&) = delete;

  private:
    Context& context_;
    std::uint64_t counter_;
    int exceptions_;
};

}  // namespace headroom::ops
