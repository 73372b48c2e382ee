#pragma once
// What a program draws after the last step, with --pictures.
//
//     cli::write_pictures(flags.pictures, {{"mask0", image}});
#include <string>
#include <vector>

#include <headroom/data/image.hpp>

namespace headroom::cli {

struct Picture {
    std::string name;  ///< of its file, without the ending
    data::Image image;
};

/// As PNG, and says so. Errors: FileError.
void write_pictures(const std::string& folder, const std::vector<Picture>& pictures);

}  // namespace headroom::cli
