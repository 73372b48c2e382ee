#pragma once
// Finds the image files in a folder and its subfolders.
//
//     const FoundPaths images = find_images("photos/train/cat");  // images.paths, images.left_out
#include <filesystem>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace headroom::data {

struct FoundPaths {
    std::vector<std::filesystem::path> paths;  // sorted by the bytes of their names
    std::vector<std::string> left_out;         // one line per skipped folder, with the reason
};

/// Finds PNG and JPEG files by extension, without hidden ones. Follows links to folders. Skips hidden folders, and
/// links to a folder that was visited already or that contains `folder`. Errors: FileError if the folder does not
/// exist, if one can't be read, or for an image of an unsupported kind.
FoundPaths find_images(const std::filesystem::path& folder);

/// The subfolders, without hidden ones and links to a folder that contains `folder`. Errors: as above.
FoundPaths find_folders(const std::filesystem::path& folder);

/// True if a file has one of these extensions, in upper or lower case.
bool has_ending(const std::filesystem::path& file, std::initializer_list<std::string_view> endings);

}  // namespace headroom::data
