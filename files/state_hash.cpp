#include <headroom/files/state_hash.hpp>

#include <algorithm>
#include <iterator>

#include <fmt/format.h>

#include <headroom/files/internal/array_bytes.hpp>
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
    for (const NamedArray& entry : arrays) {
        hash.add(fmt::format("{} {} {}\n", entry.name, name(entry.array.dtype), entry.shape().to_string()));
        const std::vector<char> bytes = bytes_of(context, entry);
        hash.add(bytes.data(), bytes.size());
    }
    hash.add(fmt::format("random {}\n", context.random_counter()));
    return hash.hex();
}

}  // namespace headroom::files
