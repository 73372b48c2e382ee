#pragma once
// Which values of masks stand for which classes. Masks of two values have 0 and 255 more often than 0 and 1.
//
//     parse_mask_values("0,255");                       // {0, 255}
//     const std::string found = find_mask_values(flags);  // "0,255", or "" where values are classes
#include <cstdint>
#include <string>
#include <vector>

#include <headroom/examples/segmentation/flags.hpp>

namespace headroom::segmentation {

/// Of text that has no problem.
std::vector<std::uint8_t> parse_mask_values(const std::string& text);

/// What is wrong with a value of --mask-values; empty if nothing is.
std::string mask_values_problem(const std::string& text);

/// Looks at the largest files of the masks that `flags` name, in which most is to be seen. Empty if their values are
/// classes; "0,255" if they are these two, but for --ignore. Errors: FileError for others, which says what to do; as
/// `data::MaskedImages`. Masks that can't be read say nothing.
std::string find_mask_values(const SegmentationFlags& flags);

}  // namespace headroom::segmentation
