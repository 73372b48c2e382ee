#include <algorithm>
#include <limits>
#include <optional>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <headroom/files/internal/safetensors_header.hpp>
#include <headroom/files/safetensors_dtypes.hpp>
#include <headroom/memory/error.hpp>

namespace headroom::files {

namespace {

using Json = nlohmann::json;

/// nlohmann's parser lets the last of two equal keys win; a file that has two is damaged. Metadata may have any keys.
Json parse_json(const std::filesystem::path& path, const std::string& text) {
    std::vector<std::set<std::string>> keys;
    std::string outermost;
    const auto watch = [&](int depth, Json::parse_event_t event, Json& parsed) {
        if (event == Json::parse_event_t::object_start) keys.emplace_back();
        if (event == Json::parse_event_t::object_end) keys.pop_back();
        if (event != Json::parse_event_t::key) return true;
        const auto& key = parsed.get_ref<const std::string&>();
        if (depth == 1) outermost = key;
        if (depth > 1 && outermost == kMetadataName) return true;
        if (!is_sound_name(key))
            refuse_safetensors(path, "a name in the header is too long or contains control characters");
        if (!keys.back().insert(key).second)
            refuse_safetensors(path, fmt::format("the header contains \"{}\" twice", key));
        return true;
    };
    Json header;
    try {
        header = Json::parse(text, watch);
    } catch (const Json::parse_error& error) {
        refuse_safetensors(path, fmt::format("the header is not valid JSON (at byte {})", error.byte));
    } catch (const Json::exception&) {
        refuse_safetensors(path, "the header has a number that is too large");
    }
    if (!header.is_object()) refuse_safetensors(path, "the header is not a JSON object");
    return header;
}

std::uint64_t number(const std::filesystem::path& path, const std::string& name, const Json& value, const char* what) {
    if (!value.is_number_unsigned()) refuse_safetensors(path, fmt::format("{}: {} is not a whole number", name, what));
    return value.get<std::uint64_t>();
}

/// The sizes, whose product with an element's bytes is at most 2^63 - 1.
std::vector<std::uint64_t> read_sizes(const std::filesystem::path& path, const std::string& name, const Json& json,
                                      std::uint64_t bits) {
    if (!json.is_array()) refuse_safetensors(path, fmt::format("{}: the shape must be a list of sizes", name));
    constexpr auto most = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
    std::uint64_t bytes = (bits + 7) / 8;
    std::vector<std::uint64_t> sizes;
    for (const Json& value : json) {
        const std::uint64_t size = number(path, name, value, "a size");
        if (size > 0 && bytes > most / size)
            refuse_safetensors(path, fmt::format("{}: the shape has too many elements", name));
        if (size > 0) bytes *= size;
        sizes.push_back(size);
    }
    return sizes;
}

std::string read_dtype(const std::filesystem::path& path, const std::string& name, const Json& value) {
    if (!value.is_string()) refuse_safetensors(path, fmt::format("{}: the dtype is not a string", name));
    const auto& text = value.get_ref<const std::string&>();
    const bool plain = text.size() <= 16 && is_sound_name(text);
    if (!safetensors_bits(text))
        refuse_safetensors(path, fmt::format("{}: unknown dtype {}", name, plain ? text : "with an unreadable name"));
    return text;
}

SafetensorsEntry read_entry(const std::filesystem::path& path, const std::string& name, const Json& json) {
    if (!json.is_object() || !json.contains("dtype") || !json.contains("shape") || !json.contains("data_offsets")) {
        refuse_safetensors(path, fmt::format("{}: dtype, shape or data_offsets is missing", name));
    }
    SafetensorsEntry entry;
    entry.name = name;
    const std::string dtype = read_dtype(path, name, json["dtype"]);
    const std::uint64_t bits = *safetensors_bits(dtype);
    const std::vector<std::uint64_t> sizes = read_sizes(path, name, json["shape"], bits);
    std::uint64_t elements = 1;
    for (const std::uint64_t size : sizes) elements *= size;  // 0 where one is 0
    const std::uint64_t bytes = elements / 8 * bits + elements % 8 * bits / 8;
    const bool fits = sizes.size() <= kMaxRank;
    if (fits) entry.shape = Shape(sizes);
    if (const std::optional<Dtype> ours = safetensors_dtype(dtype); ours && fits)
        entry.dtype = *ours;
    else
        entry.unreadable = fits ? dtype : fmt::format("{} of rank {}", dtype, sizes.size());
    const Json& offsets = json["data_offsets"];
    if (!offsets.is_array() || offsets.size() != 2)
        refuse_safetensors(path, fmt::format("{}: data_offsets must be two numbers", name));
    entry.begin = number(path, name, offsets[0], "an offset");
    entry.end = number(path, name, offsets[1], "an offset");
    if (entry.end < entry.begin || entry.end - entry.begin != bytes || elements % 8 * bits % 8 != 0) {
        const std::string type = entry.unreadable.empty() ? std::string(kernels::name(entry.dtype)) : entry.unreadable;
        const std::string what = fits ? fmt::format("{} {}", type, entry.shape.to_string()) : type;
        refuse_safetensors(path, fmt::format("{}: {} takes {} bytes, but its offsets are {} to {}", name, what, bytes,
                                             entry.begin, entry.end));
    }
    return entry;
}

/// Tensors must fill the data without overlap or gap.
void check_layout(const std::filesystem::path& path, std::vector<SafetensorsEntry> entries, std::uint64_t data_bytes) {
    std::sort(entries.begin(), entries.end(), [](const SafetensorsEntry& a, const SafetensorsEntry& b) {
        return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
    });
    std::uint64_t place = 0;
    for (const SafetensorsEntry& entry : entries) {
        if (entry.end > data_bytes) {
            refuse_safetensors(
                path, fmt::format("{}: ends at byte {} of {} (truncated?)", entry.name, entry.end, data_bytes));
        }
        if (entry.begin != place) {
            refuse_safetensors(
                path, fmt::format("{}: begins at byte {}, not {} (tensors must neither overlap nor leave gaps)",
                                  entry.name, entry.begin, place));
        }
        place = entry.end;
    }
    if (place != data_bytes)
        refuse_safetensors(path, fmt::format("{} bytes follow the last tensor", data_bytes - place));
}

Metadata read_metadata(const std::filesystem::path& path, const Json& json) {
    Metadata metadata;
    if (json.is_null()) return metadata;
    if (!json.is_object()) refuse_safetensors(path, "the metadata is not an object");
    for (const auto& [key, value] : json.items()) {
        if (!value.is_string()) refuse_safetensors(path, fmt::format("the metadata \"{}\" is not a string", key));
        metadata[key] = value.get<std::string>();
    }
    return metadata;
}

}  // namespace

void refuse_safetensors(const std::filesystem::path& path, const std::string& what) {
    throw FileError(fmt::format("{}: not a valid safetensors file: {}", path.string(), what));
}

SafetensorsHeader parse_header(const std::filesystem::path& path, const std::string& text, std::uint64_t data_bytes) {
    const Json json = parse_json(path, text);
    SafetensorsHeader header;
    for (const auto& [name, value] : json.items()) {
        if (name == kMetadataName)
            header.metadata = read_metadata(path, value);
        else
            header.entries.push_back(read_entry(path, name, value));
    }
    check_layout(path, header.entries, data_bytes);
    return header;
}

std::map<std::string, std::string> parse_index(const std::filesystem::path& path, const std::string& text) {
    const auto fail = [&](const std::string& what) { throw FileError(fmt::format("{}: {}", path.string(), what)); };
    const Json index = Json::parse(text, nullptr, false);
    if (index.is_discarded()) fail("starts like JSON but is not valid JSON (truncated?)");
    if (!index.is_object() || !index.contains("weight_map"))
        fail("a JSON file that is not an index of weights: it has no \"weight_map\"");
    const Json& map = index["weight_map"];
    if (!map.is_object() || map.empty()) fail("an index whose \"weight_map\" names no tensors");
    std::map<std::string, std::string> part_of;
    for (const auto& [name, part] : map.items()) {
        if (!part.is_string()) fail(fmt::format("an index that names no file for {}", name));
        const std::filesystem::path file = part.get<std::string>();
        if (file.empty() || file != file.filename() || file == "..")
            fail(fmt::format("an index that names {} for {}; it must name a file in its own folder", file.string(),
                             name));
        part_of[name] = file.string();
    }
    return part_of;
}

}  // namespace headroom::files
