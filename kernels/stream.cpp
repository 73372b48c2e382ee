#include <headroom/kernels/stream.hpp>

#include <fmt/format.h>

#include <headroom/memory/error.hpp>

namespace headroom::kernels {

void refuse_cuda(const char* work) {
    throw Error(fmt::format("{}: has no kernel for a GPU, since it takes a CpuStream alone", work));
}

}  // namespace headroom::kernels
