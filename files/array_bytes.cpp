#include <headroom/files/internal/array_bytes.hpp>

#include <cstddef>
#include <span>

#include <headroom/core/transfer.hpp>
#include <headroom/kernels/copy/copy.hpp>

namespace headroom::files {

namespace {

std::vector<char> own_bytes(Context& context, const Array& array) {
    std::vector<char> bytes(array.size_bytes());
    download(context.exec(), array, contiguous_view(bytes.data(), array.dtype, array.shape()));
    return bytes;
}

}  // namespace

std::vector<char> bytes_of(Context& context, const NamedArray& entry) {
    std::vector<char> bytes = own_bytes(context, entry.array);
    if (!entry.piece) return bytes;
    std::vector<std::byte> whole = all_gather(*context.group(), std::as_bytes(std::span(bytes)));
    const Geometry& geometry = entry.piece->whole;
    const View in_memory{whole.data(), entry.array.dtype, geometry.shape, geometry.strides};
    bytes.resize(whole.size());
    kernels::CpuStream here;
    kernels::copy(here, in_memory, contiguous_view(bytes.data(), entry.array.dtype, geometry.shape));
    return bytes;
}

}  // namespace headroom::files
