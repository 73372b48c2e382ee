#pragma once
// An array and its name in files: a checkpoint consists of these. The array is a view of live storage (of a parameter,
// say), so saving copies nothing and loading writes in place.
//
//     for (const NamedArray& entry : parameters.state_dict().arrays) {
//         fmt::print("{} {}\n", entry.name, entry.array.shape().to_string());
//     }
#include <string>

#include <headroom/core/array.hpp>

namespace headroom {

struct NamedArray {
    std::string name;
    Array array;
};

}  // namespace headroom
