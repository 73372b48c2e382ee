#pragma once
// An array's elements as bytes for files.
#include <vector>

#include <headroom/core/context.hpp>
#include <headroom/core/named_array.hpp>

namespace headroom::files {

/// Copies the elements to host memory in row-major order. For a shard all ranks must call it, and each gets the whole
/// tensor.
std::vector<char> bytes_of(Context& context, const NamedArray& entry);

}  // namespace headroom::files
