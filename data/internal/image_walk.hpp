#pragma once
// Finds the image files of a folder and of the folders in it.
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
    std::vector<std::string> left_out;         // for people: each folder that was left out, and why
};

/// PNG and JPEG files by their endings, but not hidden ones. Links to folders are followed. Left out are hidden
/// folders, and links to a folder that was looked into already or has `folder` in it. Errors: FileError if there is no
/// such folder, if one can't be read, or for an image of a kind that is not read.
FoundPaths find_images(const std::filesystem::path& folder);

/// The folders in a folder, but not hidden ones, nor links to a folder that has `folder` in it. Errors: as above.
FoundPaths find_folders(const std::filesystem::path& folder);

/// True if a file has one of these endings, in upper or lower case.
bool has_ending(const std::filesystem::path& file, std::initializer_list<std::string_view> endings);

}  // namespace headroom::data
