#include <headroom/kernels/device/launch.hpp>

namespace headroom::test {

namespace {

/// Half of the threads wait for the other half, which has returned.
struct Divergent {
    HEADROOM_DEVICE void operator()(kernels::device::Block& block) const {
        if (block.thread() < kernels::device::kWarp) block.sync();
    }
};

}  // namespace

void diverge(kernels::CudaStream& stream) {
    kernels::device::launch(stream, {.x = 1, .threads = 2 * kernels::device::kWarp}, Divergent{});
}

}  // namespace headroom::test
