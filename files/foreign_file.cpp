#include <headroom/files/internal/foreign_file.hpp>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <utility>

#include <fmt/format.h>

namespace headroom::files {

namespace {

using namespace std::string_view_literals;

constexpr std::pair<std::string_view, std::string_view> kBeginnings[] = {
    {"version https://git-lfs"sv, "a Git LFS pointer, not the file itself; fetch the file with git lfs pull"},
    {"\x89HDF\r\n\x1a\n"sv, "an HDF5 file, as Keras writes, which is not supported; save the weights as safetensors"},
    {"GGUF"sv, "a GGUF file of llama.cpp, which is not supported; use the safetensors file that it was made from"},
    {"\x93NUMPY"sv, "a NumPy array, which has no named tensors; save the weights as safetensors"},
    {"\x1f\x8b\x08"sv, "compressed with gzip; unpack it"},
    {"\x28\xb5\x2f\xfd"sv, "compressed with zstd; unpack it"},
    {"\xfd"
     "7zXZ"sv,
     "compressed with xz; unpack it"}};

/// A ZIP archive has the name of its first member behind 30 bytes.
std::string kind_of_zip(std::string_view beginning) {
    const std::string_view members = beginning.substr(std::min<std::size_t>(beginning.size(), 30));
    if (members.find("data.pkl") != std::string_view::npos)
        return "a file written by torch.save; convert it to safetensors with scripts/convert_pth";
    if (members.find(".npy") != std::string_view::npos)
        return "an archive of NumPy arrays (.npz), which is not supported; save them as safetensors";
    return "a ZIP archive; if torch.save wrote it, convert it to safetensors with scripts/convert_pth, otherwise "
           "unpack it";
}

bool is_web_page(std::string_view beginning) {
    const std::size_t first = std::min(beginning.find('<'), beginning.size());
    const auto is_blank = [](unsigned char c) { return std::isspace(c) || c >= 0x80; };  // UTF-8's mark may stand there
    if (!std::ranges::all_of(beginning.substr(0, first), is_blank)) return false;
    std::string start(beginning.substr(first, 9));
    std::ranges::transform(start, start.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return std::ranges::any_of(std::to_array({"<!doctype"sv, "<html"sv, "<head"sv, "<?xml"sv, "<!--"sv}),
                               [&](std::string_view tag) { return start.starts_with(tag); });
}

bool is_text(std::string_view beginning) {
    return std::ranges::all_of(beginning, [](unsigned char c) {
        const bool of_utf8 = c >= 0x80 && c < 0xf8;
        return of_utf8 || (c < 0x80 && (std::isprint(c) || std::isspace(c)));
    });
}

}  // namespace

std::string foreign_kind(std::string_view beginning) {
    for (const auto& [start, kind] : kBeginnings) {
        if (beginning.starts_with(start)) return std::string(kind);
    }
    if (beginning.starts_with("PK\3\4")) return kind_of_zip(beginning);
    // A header of 640 bytes begins like it, followed by zeros.
    const bool pickle = beginning.size() > 8 && beginning[0] == '\x80' && beginning[1] >= 2 && beginning[1] <= 5;
    if (pickle && std::ranges::any_of(beginning.substr(2, 6), [](char c) { return c != 0; }))
        return "a pickle; if torch.save wrote it, convert it to safetensors with scripts/convert_pth";
    if (is_web_page(beginning)) return "a web page, not a file of weights; download the file again";
    if (!is_text(beginning)) return "";
    const std::string_view line = beginning.substr(0, std::min(beginning.find_first_of("\r\n"), std::size_t{60}));
    return fmt::format("a text file that begins with \"{}\"; if you downloaded it, download it again", line);
}

}  // namespace headroom::files
