#include <headroom/kernels/device/cudnn.hpp>

#include <headroom/kernels/device/internal/cudnn_calls.hpp>

namespace headroom::kernels {

std::string cudnn_absence(CudaStream& stream) { return one_line(stream.state->get<OpenedCudnn>().absence); }

}  // namespace headroom::kernels
