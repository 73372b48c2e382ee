#include <array>
#include <charconv>
#include <optional>
#include <sstream>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <zlib.h>

#include <headroom/bench/traces/trace.hpp>
#include <headroom/memory/error.hpp>

namespace headroom::traces {

namespace {

using Kind = Operation::Kind;

constexpr std::string_view kFirstLine = "headroom trace 1";

/// One line, taken apart from the left.
class Line {
  public:
    explicit Line(std::string_view text) : rest_(text) {}

    std::string_view word() {
        const std::size_t end = std::min(rest_.find(' '), rest_.size());
        const std::string_view result = rest_.substr(0, end);
        rest_.remove_prefix(std::min(end + 1, rest_.size()));
        return result;
    }
    std::string_view rest() { return std::exchange(rest_, {}); }
    bool empty() const { return rest_.empty(); }

    /// None unless the next word is a number that T can hold.
    template <class T>
    bool number(T& value) {
        const std::string_view text = word();
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
        return error == std::errc() && end == text.data() + text.size();
    }

  private:
    std::string_view rest_;
};

/// None if the line is not an operation.
std::optional<Operation> parse(std::string_view text) {
    Line line(text);
    const std::string_view letter = line.word();
    Operation operation;
    bool good = false;
    if (letter == "a") {
        operation.kind = Kind::allocate;
        unsigned category = 0;
        good = line.number(operation.id) && line.number(operation.bytes) && line.number(operation.stream) &&
               line.number(category) && line.number(operation.path) && category < memory::kCategoryCount;
        operation.category = static_cast<memory::CategoryId>(category);
    } else if (letter == "f") {
        operation.kind = Kind::free;
        good = line.number(operation.id);
    } else if (letter == "u") {
        operation.kind = Kind::record_use;
        good = line.number(operation.id) && line.number(operation.stream);
    } else if (letter == "w") {
        operation.kind = Kind::wait;
        good = line.number(operation.stream) && line.number(operation.awaited);
    } else if (letter == "s") {
        operation.kind = Kind::step;
        good = true;
    }
    if (!good || !line.empty()) return std::nullopt;
    return operation;
}

/// True if the line was one of the header's.
bool parse_header(Trace& trace, std::string_view text) {
    Line line(text);
    const std::string_view word = line.word();
    if (word == "name") {
        trace.name = line.rest();
    } else if (word == "origin") {
        trace.origin = line.rest();
    } else if (word == "p") {
        trace.paths.emplace_back(line.rest());
    } else {
        return false;
    }
    return true;
}

}  // namespace

Trace read_trace(std::istream& in, const std::string& file) {
    std::string text;
    if (!std::getline(in, text) || text != kFirstLine) {
        throw FileError(fmt::format("{}: not a trace; its first line should be '{}'", file, kFirstLine));
    }
    Trace trace;
    for (std::size_t number = 2; std::getline(in, text); ++number) {
        if (text.empty() || text.front() == '#' || parse_header(trace, text)) continue;
        const std::optional<Operation> operation = parse(text);
        if (!operation) throw FileError(fmt::format("{}:{}: '{}' is not an operation of a trace", file, number, text));
        trace.operations.push_back(*operation);
    }
    if (in.bad()) throw FileError(fmt::format("{}: reading failed", file));
    try {
        check(trace);
    } catch (const Error& error) {
        throw FileError(fmt::format("{}: {}", file, error.what()));
    }
    return trace;
}

Trace read_trace(const std::string& file) {
    const gzFile in = gzopen(file.c_str(), "rb");
    if (!in) throw FileError(fmt::format("{}: can't be opened", file));
    std::stringstream text;
    std::array<char, 1 << 16> part{};
    int count = 0;
    while ((count = gzread(in, part.data(), part.size())) > 0) text.write(part.data(), count);
    // Of a file that ends too early, only closing tells.
    if (gzclose_r(in) != Z_OK || count < 0) throw FileError(fmt::format("{}: can't be read, or damaged gzip", file));
    return read_trace(text, file);
}

void write_trace(const Trace& trace, std::ostream& out) {
    fmt::memory_buffer text;
    auto line = std::back_inserter(text);
    fmt::format_to(line, "{}\nname {}\norigin {}\n", kFirstLine, trace.name, trace.origin);
    for (std::size_t i = 1; i < trace.paths.size(); ++i) fmt::format_to(line, "p {}\n", trace.paths[i]);
    for (const Operation& o : trace.operations) {
        switch (o.kind) {
            case Kind::allocate:
                fmt::format_to(line, "a {} {} {} {} {}\n", o.id, o.bytes, o.stream, o.category, o.path);
                break;
            case Kind::free:
                fmt::format_to(line, "f {}\n", o.id);
                break;
            case Kind::record_use:
                fmt::format_to(line, "u {} {}\n", o.id, o.stream);
                break;
            case Kind::wait:
                fmt::format_to(line, "w {} {}\n", o.stream, o.awaited);
                break;
            case Kind::step:
                fmt::format_to(line, "s\n");
                break;
        }
    }
    out.write(text.data(), static_cast<std::streamsize>(text.size()));
}

void write_trace(const Trace& trace, const std::string& file) {
    check(trace);
    std::ostringstream text;
    write_trace(trace, text);
    const gzFile out = gzopen(file.c_str(), file.ends_with(".gz") ? "wb9" : "wbT");
    const bool written = out && gzwrite(out, text.view().data(), static_cast<unsigned>(text.view().size())) > 0;
    if (gzclose_w(out) != Z_OK || !written) throw FileError(fmt::format("{}: writing failed", file));
}

}  // namespace headroom::traces
