#pragma once
// A call that is refused takes no random number: the next one draws what it would have drawn.
//
//     const DrawGuard guard(context);
//     return apply<Dropout>({p, context.next_random()}, x);
#include <exception>

#include <headroom/core/context.hpp>

namespace headroom::ops {

/// Left by an exception, it sets the context's counter back. (In a micro-batch numbers belong to modules and begin anew
/// with the next one; there it changes nothing.)
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
