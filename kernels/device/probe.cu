#include <headroom/kernels/device/probe.hpp>

#include <headroom/kernels/device/launch.hpp>

namespace headroom::kernels {

namespace {

struct Nothing {
    HEADROOM_DEVICE void operator()(device::Block&) const {}
};

}  // namespace

void probe(CudaStream& stream) { device::launch(stream, {.x = 1, .threads = device::kWarp}, Nothing{}); }

}  // namespace headroom::kernels
