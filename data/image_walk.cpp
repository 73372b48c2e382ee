#include <headroom/data/internal/image_walk.hpp>

#include <algorithm>
#include <cctype>
#include <set>
#include <string_view>
#include <system_error>

#include <fmt/format.h>
#include <headroom/memory/error.hpp>

namespace headroom::data {
namespace {

using std::filesystem::directory_entry;
using std::filesystem::path;

bool is_hidden(const path& file) { return file.filename().native().starts_with('.'); }

bool is_folder(const directory_entry& entry) {
    std::error_code gone;
    return entry.is_directory(gone);
}

/// True for PNG and JPEG, false for what is no image.
bool is_image(const path& file) {
    if (is_hidden(file)) return false;
    if (has_ending(file, {".gif", ".bmp", ".tif", ".tiff", ".webp", ".ppm", ".pgm"}))
        throw FileError(fmt::format("{}: only PNG and JPEG are read; convert it", file.native()));
    return has_ending(file, {".png", ".jpg", ".jpeg"});
}

/// What a folder holds, sorted by the bytes of the names.
std::vector<directory_entry> entries_of(const path& folder) {
    std::error_code error;
    if (!std::filesystem::is_directory(folder, error))
        throw FileError(fmt::format("{}: no such folder; check the path", folder.native()));
    std::vector<directory_entry> entries;
    for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error))
        entries.push_back(*entry);
    if (error) throw FileError(fmt::format("{}: can't be read: {}", folder.native(), error.message()));
    std::sort(entries.begin(), entries.end());
    return entries;
}

std::string hidden(const path& folder) { return fmt::format("{}, a hidden folder", folder.native()); }

std::string again(const path& link) {
    return fmt::format("{}, a link to a folder that is looked into already", link.native());
}

/// A folder by itself, whatever links lead to it.
path place_of(const path& folder) {
    std::error_code gone;
    return std::filesystem::canonical(folder, gone);
}

/// The folder and those that have it in them.
std::set<path> around(const path& folder) {
    std::set<path> places;
    for (path place = place_of(folder); places.insert(place).second;) place = place.parent_path();
    return places;
}

class Walk {
  public:
    explicit Walk(const path& folder) : known_(around(folder)) {
        enter(folder);
        for (std::size_t i = 0; i < links_.size(); ++i) follow(path(links_[i]));
        std::sort(found.paths.begin(), found.paths.end());
    }

    FoundPaths found;

  private:
    void enter(const path& folder) {
        known_.insert(place_of(folder));
        for (const directory_entry& entry : entries_of(folder)) {
            std::error_code gone;
            if (!is_folder(entry)) {
                if (is_image(entry.path())) found.paths.push_back(entry.path());
            } else if (is_hidden(entry.path())) {
                found.left_out.push_back(hidden(entry.path()));
            } else if (entry.is_symlink(gone)) {
                links_.push_back(entry.path());  // for later: a folder keeps the name that it has without links
            } else {
                enter(entry.path());
            }
        }
    }

    void follow(const path& link) {
        if (known_.contains(place_of(link)))
            found.left_out.push_back(again(link));
        else
            enter(link);
    }

    std::set<path> known_;
    std::vector<path> links_;
};

}  // namespace

bool has_ending(const path& file, std::initializer_list<std::string_view> endings) {
    std::string ending = file.extension().native();
    std::transform(ending.begin(), ending.end(), ending.begin(), [](unsigned char c) { return std::tolower(c); });
    return std::find(endings.begin(), endings.end(), ending) != endings.end();
}

FoundPaths find_images(const path& folder) { return Walk(folder).found; }

FoundPaths find_folders(const path& folder) {
    const std::set<path> loops = around(folder);
    FoundPaths found;
    for (const directory_entry& entry : entries_of(folder)) {
        if (!is_folder(entry)) continue;
        if (is_hidden(entry.path()))
            found.left_out.push_back(hidden(entry.path()));
        else if (loops.contains(place_of(entry.path())))
            found.left_out.push_back(again(entry.path()));
        else
            found.paths.push_back(entry.path());
    }
    return found;
}

}  // namespace headroom::data
