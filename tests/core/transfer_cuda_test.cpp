// Copies to the host beside a GPU's other work, in the order in which a missing wait shows: copies as soon as events
// allow, kernels when somebody waits for them.
#include <headroom/core/transfer.hpp>

#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include <headroom/core/context.hpp>
#include <headroom/kernels/device/cuda_device.hpp>
#include <headroom/tests/simt/gpu/emulated_queues.hpp>

namespace headroom {
namespace transfer_cuda_test {

TEST(TransferCuda, ADownloadComesAfterItsConversionWhateverElseItWaitsFor) {
    if (!kernels::cuda_is_emulated()) GTEST_SKIP() << "a GPU has its own order";
    Context context = Context::cuda();
    dynamic_cast<kernels::EmulatedControls&>(*context.gpu()).set_order(kernels::EmulatedOrder::copies_first);
    const Exec& exec = context.exec();
    std::vector<float> values(1000), found(1000), others(1000, 7.0f);
    std::iota(values.begin(), values.end(), 0.0f);
    for (const Dtype dtype : {Dtype::f32, Dtype::f16}) {
        const Array array = exec.empty({1000}, dtype), other = exec.empty({1000}, dtype);
        upload(exec, contiguous_view(values.data(), Dtype::f32, {1000}), array);
        upload(exec, contiguous_view(others.data(), Dtype::f32, {1000}), other);  // where copies are converted
        const WorkPoint uploaded(exec);
        std::fill(found.begin(), found.end(), -1.0f);
        download(exec, array, contiguous_view(found.data(), Dtype::f32, {1000}), &uploaded);
        EXPECT_EQ(found, values);
    }
}

}  // namespace transfer_cuda_test
}  // namespace headroom
