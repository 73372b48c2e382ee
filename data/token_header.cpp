#include <headroom/data/internal/token_header.hpp>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <headroom/memory/error.hpp>

namespace headroom::data {
namespace {

using namespace std::string_view_literals;

struct FormatNames {
    std::string_view name;         // for people, and NumPy's
    std::string_view array_types;  // as .npy files have them
};

FormatNames names_of(TokenFormat format) {
    switch (format) {
        case TokenFormat::u8:
            return {"uint8", "|u1"};
        case TokenFormat::u16:
            return {"uint16", "<u2"};
        case TokenFormat::u32:
            return {"uint32", "<u4 <i4"};  // a negative number is outside of any vocabulary
        case TokenFormat::i32:
            break;
    }
    return {"int32", "<i4 <u4"};
}

class Reader {
  public:
    Reader(std::span<const std::byte> file, const std::filesystem::path& path, TokenFormat format)
        : text_(reinterpret_cast<const char*>(file.data()), file.size()), path_(path), format_(format) {}

    std::string_view numbers() const {
        if (text_.starts_with("\x93NUMPY"sv)) return numbers_of_numpy();
        constexpr std::pair<std::string_view, const char*> archives[] = {
            {"PK\3\4"sv, "a ZIP archive, as .npz and .pt files are"},
            {"\x89HDF\r\n\x1a\n"sv, "an HDF5 file"},
            {"PAR1"sv, "a Parquet file"},
            {"ARROW1"sv, "an Arrow file"}};
        for (const auto& [begin, kind] : archives)
            if (text_.starts_with(begin)) fail(fmt::format("{}; tokens are a file of numbers alone, or .npy", kind));
        return numbers_of_llmc();
    }

  private:
    [[noreturn]] void fail(const std::string& what) const {
        throw FileError(fmt::format("{}: {}", path_.native(), what));
    }

    /// A little-endian number of `bytes` at this place.
    std::uint64_t number(std::size_t place, std::size_t bytes) const {
        std::uint64_t value = 0;
        if (place + bytes > text_.size()) fail("ends within its header (truncated?)");
        std::memcpy(&value, text_.data() + place, bytes);
        return value;
    }

    /// Format: numpy.lib.format.
    std::string_view numbers_of_numpy() const {
        const bool first_version = number(6, 1) == 1;
        const std::size_t begin = first_version ? 10 : 12, length = number(8, first_version ? 2 : 4);
        if (length > text_.size() - begin) fail("a NumPy array that ends within its header (truncated?)");
        const std::string_view header = text_.substr(begin, length);
        const std::string_view type = value_of(header, "'descr'");
        const FormatNames wanted = names_of(format_);
        const bool named = type.size() == 5 && type.front() == '\'' && type.back() == '\'';
        if (!named || wanted.array_types.find(type.substr(1, 3)) == std::string_view::npos)
            fail(fmt::format("a NumPy array whose numbers are {}; these tokens are {}: save array.astype('{}')",
                             type.substr(0, 60), wanted.name, wanted.name));
        std::uint64_t numbers = 1, axis = 0;
        for (std::string_view shape = value_of(header, "'shape'"); !shape.empty();) {
            const auto [stop, error] = std::from_chars(shape.data(), shape.data() + shape.size(), axis);
            shape.remove_prefix(error == std::errc() ? static_cast<std::size_t>(stop - shape.data()) : 1);
            if (error != std::errc()) continue;
            if (axis > 0 && numbers > text_.size() / axis) fail("a NumPy array of more numbers than it has bytes");
            numbers *= axis;
        }
        if (value_of(header, "'fortran_order'") != "False")
            fail("a NumPy array that is stored by columns; save numpy.ascontiguousarray(array)");
        return rest(begin + length, numbers, "a NumPy array");
    }

    /// Of a dictionary in Python's notation: a value without the comma behind it.
    std::string_view value_of(std::string_view header, std::string_view key) const {
        const std::size_t place = header.find(key), colon = header.find(':', place);
        if (place == std::string_view::npos || colon == std::string_view::npos)
            fail(fmt::format("a NumPy array whose header lacks {}", key));
        std::string_view value = header.substr(std::min(header.find_first_not_of(' ', colon + 1), header.size()));
        const std::size_t end = value.starts_with('(') ? value.find(')') : value.find_first_of(",}");
        return value.substr(0, end);
    }

    /// 256 numbers of 32 bits: a mark, a version, the number of tokens, and zeros. Source:
    /// https://github.com/karpathy/llm.c, dev/data/data_common.py.
    std::string_view numbers_of_llmc() const {
        constexpr std::size_t header = 256 * 4;
        struct Kind {
            std::uint64_t mark, version;
            TokenFormat format;
        };
        for (const Kind& kind : {Kind{20240520, 1, TokenFormat::u16}, Kind{20240801, 7, TokenFormat::u32}}) {
            if (text_.size() < header || number(0, 4) != kind.mark || number(4, 4) != kind.version) continue;
            if (token_bytes(kind.format) != token_bytes(format_))
                fail(fmt::format("tokens with llm.c's header, which are {}", names_of(kind.format).name));
            return rest(header, number(8, 4), "tokens with llm.c's header");
        }
        return text_;
    }

    /// All from `begin` on.
    std::string_view rest(std::size_t begin, std::uint64_t numbers, const char* kind) const {
        const std::string_view rest = text_.substr(begin);
        const auto width = static_cast<std::uint64_t>(token_bytes(format_));
        if (begin % width != 0) fail(fmt::format("{} whose numbers begin at byte {}", kind, begin));
        if (rest.size() / width != numbers || rest.size() % width != 0)
            fail(
                fmt::format("{} that claims {} numbers, but {} bytes follow (truncated?)", kind, numbers, rest.size()));
        return rest;
    }

    std::string_view text_;
    const std::filesystem::path& path_;
    TokenFormat format_;
};

}  // namespace

std::span<const std::byte> token_numbers(std::span<const std::byte> file, const std::filesystem::path& path,
                                         TokenFormat format) {
    const std::string_view numbers = Reader(file, path, format).numbers();
    return std::as_bytes(std::span(numbers));
}

}  // namespace headroom::data
