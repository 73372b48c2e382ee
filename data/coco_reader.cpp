#include <headroom/data/coco.hpp>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <nlohmann/json.hpp>

#include <fmt/format.h>
#include <headroom/data/file.hpp>
#include <headroom/data/mask_shapes.hpp>
#include <headroom/memory/error.hpp>

namespace headroom::data {
namespace {

using Json = nlohmann::json;

constexpr std::int64_t kLargestLabel = 65535;

/// Numbers come before texts. A text that is a number's is the same id as the number.
using Id = std::variant<std::int64_t, std::string>;

std::string text_of(const Id& id) {
    return std::visit([](const auto& value) { return fmt::format("{}", value); }, id);
}

/// None for what is no whole number; 1.0 is one, as for Python.
std::optional<std::int64_t> whole_number(const Json& value) {
    if (value.is_number_integer()) return value.get<std::int64_t>();
    constexpr double exact = 9007199254740992;  // 2^53
    const double number = value.is_number_float() ? value.get<double>() : NAN;
    if (!(std::abs(number) <= exact) || number != std::floor(number)) return std::nullopt;
    return static_cast<std::int64_t>(number);
}

std::optional<Id> id_of(const Json& value) {
    if (const auto number = whole_number(value)) return *number;
    if (!value.is_string()) return std::nullopt;
    const auto& text = value.get_ref<const std::string&>();
    std::int64_t number = 0;
    std::from_chars(text.data(), text.data() + text.size(), number);
    return text == fmt::to_string(number) ? Id(number) : Id(text);
}

}  // namespace

/// Takes an element of the file's lists as soon as the parser has it, and drops it: as a whole, JSON takes more than
/// three times its file's size.
class CocoReader {
  public:
    CocoReader(CocoImages& out, const std::filesystem::path& images) : out_(out), images_(images) {}

    void read(std::string_view text) {
        std::string list;
        const Json left = parse(text, [&](int depth, Json::parse_event_t event, Json& value) {
            if (event == Json::parse_event_t::key && depth == 1) list = value.get<std::string>();
            if (event != Json::parse_event_t::object_end || depth != 2) return true;
            take(list, value);
            return false;
        });
        if (!left.is_object()) fail("is not an object with \"images\", \"categories\" and \"annotations\"");
        for (const char* name : {"images", "categories", "annotations"})
            if (const auto rest = left.find(name); rest == left.end() || !rest->is_array())
                fail(fmt::format("has no list \"{}\"", name));
            else if (!rest->empty())
                leaving_out(name, [&] { fail(fmt::format("\"{}\" must contain only objects", name)); });
        if (out_.entries_.empty()) fail("has no images");
        number_classes();
        for (Found& found : found_) leaving_out(kAnnotations, [&] { place(found); });
        if (!out_.options_.keep_empty)
            std::erase_if(out_.entries_, [](const CocoImages::Entry& entry) { return entry.annotations.empty(); });
        if (out_.entries_.empty())
            fail("has no image with an object" + (out_.skipped_.empty() ? "" : ": " + out_.skipped_[0]));
    }

  private:
    struct Found {
        CocoImages::Annotation annotation;
        std::string where;  // "annotation 17"
        Id image, category;
        double x, y, width, height;
        std::vector<double> mask_size;  // height and width, where run lengths say it
    };

    [[noreturn]] void fail(const std::string& what) const { throw FileError(fmt::format("{}: {}", out_.path_, what)); }

    /// Where an annotation fails, it is left out.
    template <class Work>
    void leaving_out(std::string_view list, Work work) {
        try {
            work();
        } catch (const FileError& error) {
            if (list != kAnnotations) throw;
            out_.skipped_.emplace_back(error.what());
        }
    }

    template <class Callback>
    Json parse(std::string_view text, Callback callback) const {
        try {
            return Json::parse(text, callback);
        } catch (const Json::exception& error) {
            // "[json.exception.parse_error.101] parse error at line 3, column 7: ..."
            std::string_view what = error.what();
            if (const auto end = what.find("] "); end != std::string_view::npos) what.remove_prefix(end + 2);
            std::string line(what);
            std::replace(line.begin(), line.end(), '\n', ' ');
            fail(line);
        }
    }

    const Json& member(const Json& object, const char* name, const std::string& where) const {
        const auto found = object.find(name);
        if (found == object.end()) fail(fmt::format("{} has no \"{}\"", where, name));
        return *found;
    }

    std::int64_t integer(const Json& object, const char* name, const std::string& where) const {
        const auto value = whole_number(member(object, name, where));
        if (!value) fail(fmt::format("{}: \"{}\" is not a whole number", where, name));
        return *value;
    }

    Id id(const Json& object, const char* name, const std::string& where) const {
        const auto value = id_of(member(object, name, where));
        if (!value) fail(fmt::format("{}: \"{}\" is neither a whole number nor a string", where, name));
        return *value;
    }

    std::string text(const Json& object, const char* name, const std::string& where) const {
        const Json& value = member(object, name, where);
        if (!value.is_string()) fail(fmt::format("{}: \"{}\" is not a string", where, name));
        return value.get<std::string>();
    }

    std::vector<double> numbers(const Json& value, const char* name, const std::string& where) const {
        std::vector<double> all;
        for (const Json& number : value) {
            if (!number.is_number()) fail(fmt::format("{}: \"{}\" must contain only numbers", where, name));
            all.push_back(number.get<double>());
        }
        return all;
    }

    void take(const std::string& list, const Json& element) {
        if (list == "images") take_image(element);
        if (list == "categories") take_category(element);
        leaving_out(list, [&] {
            if (list == kAnnotations) take_annotation(element);
        });
    }

    void take_image(const Json& element) {
        CocoImages::Entry entry;
        const Id id = this->id(element, "id", fmt::format("image number {}", out_.entries_.size()));
        entry.id = text_of(id);
        const std::string where = fmt::format("image {}", entry.id);
        entry.file = images_ / text(element, "file_name", where);
        entry.height = integer(element, "height", where);
        entry.width = integer(element, "width", where);
        if (entry.height < 1 || entry.width < 1)
            fail(fmt::format("{}: height and width must be at least 1, got {}", where,
                             wide_and_high(entry.height, entry.width)));
        if (!index_.emplace(id, out_.entries_.size()).second) fail(fmt::format("{} appears twice", where));
        out_.entries_.push_back(std::move(entry));
    }

    void take_category(const Json& element) {
        const Id id = this->id(element, "id", fmt::format("category number {}", categories_.size()));
        const std::string where = fmt::format("category {}", text_of(id));
        if (!categories_.emplace(id, std::pair(text(element, "name", where), 0)).second)
            fail(fmt::format("{} appears twice", where));
    }

    /// As Python's `if` takes it.
    bool is_crowd(const Json& element, const std::string& where) const {
        const auto value = element.find("iscrowd");
        if (value == element.end() || value->is_null()) return false;
        if (value->is_boolean()) return value->get<bool>();
        if (!value->is_number()) fail(fmt::format("{}: \"iscrowd\" is neither a number nor true or false", where));
        return value->get<double>() != 0;
    }

    void take_annotation(const Json& element) {
        Found found;
        CocoImages::Annotation& annotation = found.annotation;
        const std::int64_t number = annotations_++;
        const Id id = this->id(element, "id", fmt::format("annotation number {}", number));
        const auto* const numbered = std::get_if<std::int64_t>(&id);
        annotation.id = numbered ? *numbered : number;
        const std::string& where = found.where = fmt::format("annotation {}", text_of(id));
        found.image = this->id(element, "image_id", where);
        found.category = this->id(element, "category_id", where);
        const std::vector<double> box = numbers(member(element, "bbox", where), "bbox", where);
        if (box.size() != 4) fail(fmt::format("{}: \"bbox\" has {} numbers instead of 4", where, box.size()));
        found.x = box[0], found.y = box[1], found.width = box[2], found.height = box[3];
        annotation.crowd = is_crowd(element, where);
        if (out_.options_.masks) take_mask(element, where, found);
        found_.push_back(std::move(found));
    }

    void take_mask(const Json& element, const std::string& where, Found& found) const {
        CocoImages::Annotation& annotation = found.annotation;
        const auto segmentation = element.find("segmentation");
        if (segmentation == element.end() || segmentation->empty())
            fail(fmt::format("{} has no mask: \"segmentation\" is {}", where,
                             segmentation == element.end() ? "missing" : "empty"));
        const Json& shape = *segmentation;
        if (shape.is_array()) {
            for (const Json& polygon : shape) annotation.polygons.push_back(numbers(polygon, "segmentation", where));
            return;
        }
        if (!shape.is_object()) fail(fmt::format("{}: \"segmentation\" is neither polygons nor run lengths", where));
        if (const auto size = shape.find("size"); size != shape.end()) found.mask_size = numbers(*size, "size", where);
        const Json& counts = member(shape, "counts", where);
        if (counts.is_string()) {
            try {
                annotation.runs = parse_runs(counts.get<std::string>());
            } catch (const Error& error) {
                fail(fmt::format("{}: {}", where, error.what()));
            }
            return;
        }
        for (const double count : numbers(counts, "counts", where)) {
            if (!(count >= 0 && count <= 0xffffffff))
                fail(fmt::format("{}: a run must have 0 to 2^32 - 1 pixels, got {}", where, count));
            annotation.runs.push_back(static_cast<std::uint32_t>(count));
        }
    }

    void number_classes() {
        const CocoOptions& options = out_.options_;
        std::int64_t next = 1;
        out_.classes_ = {"background"};
        for (auto& [id, category] : categories_) {
            const auto* const number = std::get_if<std::int64_t>(&id);
            if (options.labels_are_ids && !number)
                fail(fmt::format("category {} (\"{}\"): its id is not a number, as a label must be", text_of(id),
                                 category.first));
            const std::int64_t label = options.labels_are_ids ? *number : next++;
            if (label < 1 || label > kLargestLabel || (options.classes > 0 && label >= options.classes))
                throw BadLabel(fmt::format("{}: category {} (\"{}\") has the label {}, which is not in 1 to {}",
                                           out_.path_, text_of(id), category.first, label,
                                           options.classes > 0 ? options.classes - 1 : kLargestLabel));
            category.second = static_cast<std::int32_t>(label);
            out_.classes_.resize(std::max(out_.classes_.size(), static_cast<std::size_t>(label) + 1));
            out_.classes_[static_cast<std::size_t>(label)] = category.first;
        }
    }

    /// Gives the annotation to its image.
    void place(Found& found) {
        CocoImages::Annotation& annotation = found.annotation;
        const auto image = index_.find(found.image);
        if (image == index_.end())
            fail(fmt::format("{} belongs to image {}, which is missing", found.where, text_of(found.image)));
        const auto category = categories_.find(found.category);
        if (category == categories_.end())
            fail(fmt::format("{} has category {}, which is missing", found.where, text_of(found.category)));
        annotation.label = category->second.second;
        CocoImages::Entry& entry = out_.entries_[image->second];
        const Box whole{static_cast<float>(found.x), static_cast<float>(found.y),
                        static_cast<float>(found.x + found.width), static_cast<float>(found.y + found.height)};
        annotation.box = clip(whole, entry.height, entry.width);
        if (!whole.has_area() || !annotation.box.has_area())
            fail(fmt::format("{}: the box at x = {}, y = {}, {} wide, {} high, {} image {}, which is {}", found.where,
                             found.x, found.y, found.width, found.height,
                             whole.has_area() ? "is outside of" : "has no area on", entry.id,
                             wide_and_high(entry.height, entry.width)));
        if (out_.options_.masks) check_mask(found, entry);
        entry.annotations.push_back(std::move(annotation));
    }

    /// Whether it can be drawn when the image is loaded; of several polygons those are kept that can.
    void check_mask(Found& found, const CocoImages::Entry& entry) {
        CocoImages::Annotation& annotation = found.annotation;
        const std::vector<double> size{static_cast<double>(entry.height), static_cast<double>(entry.width)};
        try {
            if (!found.mask_size.empty() && found.mask_size != size)
                throw Error(fmt::format("the height and width of its mask are [{}], but image {} is {}",
                                        fmt::join(found.mask_size, ", "), entry.id,
                                        wide_and_high(entry.height, entry.width)));
            if (!annotation.polygons.empty())
                trim(found, entry);
            else
                check_runs(annotation.runs, entry.height, entry.width);
        } catch (const Error& error) {
            fail(fmt::format("{}: {}", found.where, error.what()));
        }
    }

    /// Errors: Error if no polygon is left.
    void trim(Found& found, const CocoImages::Entry& entry) {
        std::optional<Error> bad;
        std::erase_if(found.annotation.polygons, [&](const std::vector<double>& polygon) {
            try {
                check_polygon(polygon, entry.height, entry.width);
                return false;
            } catch (const Error& error) {
                bad = error;
                return true;
            }
        });
        if (found.annotation.polygons.empty()) throw Error(*bad);
        if (bad) out_.trimmed_.push_back(fmt::format("{}: {}: {}", out_.path_, found.where, bad->what()));
    }

    static constexpr std::string_view kAnnotations = "annotations";

    CocoImages& out_;
    std::filesystem::path images_;
    std::unordered_map<Id, std::size_t> index_;                      // of images by their ids
    std::map<Id, std::pair<std::string, std::int32_t>> categories_;  // names and labels by ids
    std::int64_t annotations_ = 0;                                   // that were seen
    std::vector<Found> found_;
};

CocoImages::CocoImages(const std::filesystem::path& annotations, const std::filesystem::path& images,
                       CocoOptions options)
    : path_(annotations.native()), options_(options) {
    const MappedFile file(annotations);
    const std::span<const std::byte> bytes = file.bytes();
    CocoReader(*this, images).read({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

}  // namespace headroom::data
