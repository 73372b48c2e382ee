#pragma once
// The elements of an array as files have them.
#include <vector>

#include <headroom/core/context.hpp>
#include <headroom/core/named_array.hpp>

namespace headroom::files {

/// Row-major, in the host's memory. Of a piece all ranks call it, and each gets the whole.
std::vector<char> bytes_of(Context& context, const NamedArray& entry);

}  // namespace headroom::files
