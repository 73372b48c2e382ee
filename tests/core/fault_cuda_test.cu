#include <headroom/kernels/device/launch.hpp>

namespace headroom::test {

namespace {

/// Half of the threads wait for the other half, which has returned.
struct Divergent {
    HEADROOM_DEVICE void operator()(device::Block& block) const {
        if (block.thread() < device::kWarp) block.sync();
    }
};

}  // namespace

void diverge(CudaStream& stream) { device::launch(stream, {.x = 1, .threads = 2 * device::kWarp}, Divergent{}); }

}  // namespace headroom::test
