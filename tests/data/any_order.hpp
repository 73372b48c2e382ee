#pragma once
// For tests of what runs on several queues of a GPU: on a GPU once, in the emulator also under the extremes of the
// orders that a GPU may choose.
//
//     using FeedCuda = test::AnyOrder;
//     INSTANTIATE_TEST_SUITE_P(Orders, FeedCuda, test::any_order(), test::order_name);
//     TEST_P(FeedCuda, ...) { set_order(context); ... }
#include <string>

#include <gtest/gtest.h>

#include <headroom/core/context.hpp>
#include <headroom/tests/simt/gpu/emulated_queues.hpp>

namespace headroom::test {

/// AddressSanitizer is told of a block when the host frees it; kernels that were queued before may use it still.
#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool kFreedWhileQueued = false;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
inline constexpr bool kFreedWhileQueued = false;
#else
inline constexpr bool kFreedWhileQueued = true;
#endif
#else
inline constexpr bool kFreedWhileQueued = true;
#endif

class AnyOrder : public testing::TestWithParam<kernels::EmulatedOrder> {
  protected:
    void SetUp() override {
        if (kernels::cuda_device_count() == 0) GTEST_SKIP() << "there is no GPU";
        if (GetParam() == kernels::EmulatedOrder::at_once) return;
        if (!kernels::cuda_is_emulated()) GTEST_SKIP() << "a GPU has its own order";
        if (!kFreedWhileQueued) GTEST_SKIP() << "AddressSanitizer does not know of queues";
    }
    /// Null on a GPU.
    static kernels::EmulatedControls* emulated(Context& context) {
        return dynamic_cast<kernels::EmulatedControls*>(context.gpu());
    }
    void set_order(Context& context) const {
        if (kernels::EmulatedControls* controls = emulated(context)) controls->set_order(GetParam());
    }
};

inline auto any_order() {
    return testing::Values(kernels::EmulatedOrder::at_once, kernels::EmulatedOrder::copies_first,
                           kernels::EmulatedOrder::kernels_first);
}

inline std::string order_name(const testing::TestParamInfo<kernels::EmulatedOrder>& info) {
    if (info.param == kernels::EmulatedOrder::at_once) return "AtOnce";
    return info.param == kernels::EmulatedOrder::copies_first ? "CopiesFirst" : "KernelsFirst";
}

}  // namespace headroom::test
