#include <headroom/examples/cli/pictures.hpp>

#include <filesystem>

#include <headroom/training/say.hpp>

namespace headroom::cli {

void write_pictures(const std::string& folder, const std::vector<Picture>& pictures) {
    std::filesystem::create_directories(folder);
    for (const Picture& picture : pictures)
        data::write_png(std::filesystem::path(folder) / (picture.name + ".png"), picture.image);
    training::say("drew {} picture{} in {}", pictures.size(), pictures.size() == 1 ? "" : "s", folder);
}

}  // namespace headroom::cli
