#include <headroom/files/state_hash.hpp>

#include <algorithm>
#include <iterator>

#include <fmt/format.h>

#include <headroom/core/transfer.hpp>
#include <headroom/files/internal/sha256.hpp>

namespace headroom::files {

std::string state_sha256(Context& context, const CheckpointParts& parts) {
    std::vector<NamedArray> arrays;
    for (const CheckpointPart& part : parts) {
        StateDict state = part.state_dict();
        std::move(state.arrays.begin(), state.arrays.end(), std::back_inserter(arrays));
    }
    std::sort(arrays.begin(), arrays.end(), [](const NamedArray& a, const NamedArray& b) { return a.name < b.name; });
    Sha256 hash;
    for (const auto& [label, array] : arrays) {
        hash.add(fmt::format("{} {} {}\n", label, name(array.dtype), array.shape().to_string()));
        std::vector<char> bytes(static_cast<std::size_t>(array.numel()) * size_of(array.dtype));
        const View out = contiguous_view(bytes.data(), array.dtype, array.shape());
        download(context.exec(), array, out);
        hash.add(bytes.data(), bytes.size());
    }
    hash.add(fmt::format("random {}\n", context.random_counter()));
    return hash.hex();
}

}  // namespace headroom::files
