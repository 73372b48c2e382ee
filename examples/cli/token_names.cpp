#include <headroom/examples/cli/token_names.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <headroom/data/file.hpp>
#include <headroom/data/utf8.hpp>
#include <headroom/memory/error.hpp>

namespace headroom::cli {

namespace {

constexpr std::uint32_t kFirstStandIn = 256;
constexpr std::size_t kMostTokens = 1 << 24;

bool stands_for_itself(std::uint32_t byte) {
    return (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) || (byte >= 0xae && byte <= 0xff);
}

/// Bytes that can't be seen are written as the code points from 256 on, in order.
std::vector<std::uint8_t> stand_ins() {
    std::vector<std::uint8_t> bytes;
    for (std::uint32_t byte = 0; byte < 256; ++byte) {
        if (!stands_for_itself(byte)) bytes.push_back(static_cast<std::uint8_t>(byte));
    }
    return bytes;
}

/// A name that is not made of such code points stands for itself: "<|endoftext|>" does in either case.
std::string token_bytes(const std::string& name) {
    static const std::vector<std::uint8_t> hidden = stand_ins();
    std::string bytes;
    bool made_of_bytes = true;
    data::for_each_code_point(name, [&](std::uint32_t point, std::size_t) {
        if (point < kFirstStandIn && stands_for_itself(point)) {
            bytes += static_cast<char>(point);
        } else if (point >= kFirstStandIn && point - kFirstStandIn < hidden.size()) {
            bytes += static_cast<char>(hidden[point - kFirstStandIn]);
        } else {
            made_of_bytes = false;
        }
    });
    return made_of_bytes ? bytes : name;
}

}  // namespace

TokenNames::TokenNames(const std::filesystem::path& path) {
    const auto refuse = [&] {
        throw FileError(
            fmt::format("{}: is not an object of tokens and their numbers; name a vocab.json", path.string()));
    };
    const nlohmann::json names = nlohmann::json::parse(data::read_file(path), nullptr, false);
    if (!names.is_object()) refuse();
    for (const auto& [name, number] : names.items()) {
        if (!number.is_number_unsigned() || number.get<std::size_t>() >= kMostTokens) refuse();
        const auto token = number.get<std::size_t>();
        if (token >= bytes_.size()) bytes_.resize(token + 1, "\xef\xbf\xbd");
        bytes_[token] = token_bytes(name);
    }
}

std::string TokenNames::decode(std::span<const std::int32_t> tokens) const {
    std::string text;
    for (const std::int32_t token : tokens) {
        const auto index = static_cast<std::size_t>(token);
        text += index < bytes_.size() ? bytes_[index] : "\xef\xbf\xbd";
    }
    return text;
}

}  // namespace headroom::cli
