#pragma once
// An array under the name that a file knows it by: what a checkpoint is made of. The array is a view of living storage
// (an arena, say), so saving copies nothing and loading writes in place.
//
//     for (const NamedArray& entry : parameters.state_dict().arrays) fmt::print("{} {}\n", entry.name,
//     entry.array.shape().to_string());
#include <string>

#include <headroom/core/array.hpp>

namespace headroom {

struct NamedArray {
    std::string name;
    Array array;
};

}  // namespace headroom
