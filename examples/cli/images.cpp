#include <headroom/examples/cli/images.hpp>
#include <headroom/examples/cli/options.hpp>

#include <algorithm>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include <headroom/data/bad_images.hpp>
#include <headroom/data/counter_random.hpp>
#include <headroom/data/image_drawing.hpp>
#include <headroom/data/image_header.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/training/progress.hpp>
#include <headroom/training/say.hpp>

namespace headroom::cli {

namespace {

/// A random number that belongs to a name.
std::uint64_t random_place(std::string_view name, std::uint64_t seed) {
    std::uint64_t place = data::splitmix64_mix(seed);
    for (const char byte : name) place = data::splitmix64_mix(place ^ static_cast<unsigned char>(byte));
    return place;
}

/// Of 16-bit grey the upper 8 bits are read: values below 256 are black. Looks at some files of each part. Errors:
/// FileError if all of them are black so.
void expect_upper_bits(const std::vector<data::ImageSourcePointer*>& parts) {
    std::int64_t looked_at = 0;
    std::vector<std::string> black;
    for (const data::ImageSourcePointer* const part : parts) {
        const std::int64_t count = std::min<std::int64_t>((*part)->size(), 32);
        looked_at += count;
        for (std::int64_t i = 0; i < count; ++i) {
            const std::string file = (*part)->name(i * (*part)->size() / count);
            const auto header = data::whole_image_header(file);
            if (!header || !header->wide_grey) continue;
            try {
                if (std::ranges::count(data::read_image(file, data::Colors::grey).pixels, 0) ==
                    header->height * header->width)
                    black.push_back(file);
            } catch (const data::BadImage&) {  // for others to say
            }
        }
    }
    if (black.empty()) return;
    const std::string what = fmt::format(
        "{} of {} images that were looked at have 16 bits of grey with no value above 255, such as {}: they look "
        "black, since only the upper 8 bits are read; save them with 8 bits",
        black.size(), looked_at, black[0]);
    if (std::ssize(black) == looked_at) throw FileError(what);
    training::say("{}", what);
}

class AlikeImages final : public data::ImageSource {
  public:
    AlikeImages(std::int64_t count, data::ImageSample sample) : count_(count), sample_(std::move(sample)) {}
    std::int64_t size() const override { return count_; }
    data::ImageSample load(std::int64_t) const override { return sample_; }

  private:
    std::int64_t count_;
    data::ImageSample sample_;
};

class LoadedOnce final : public data::ImageSource {
  public:
    explicit LoadedOnce(data::ImageSourcePointer source) : source_(std::move(source)) {}
    std::int64_t size() const override { return source_->size(); }
    data::ImageSample load(std::int64_t index) const override {
        const std::scoped_lock lock(mutex_);
        const auto known = sizes_.find(index);
        if (known != sizes_.end()) return {.image = known->second.first.blank(), .mask = known->second.second.blank()};
        data::ImageSample sample = source_->load(index);
        sizes_.try_emplace(index, sample.image, sample.mask);
        return sample;
    }
    void check(std::int64_t index) const override { source_->check(index); }
    std::string name(std::int64_t index) const override { return source_->name(index); }

  private:
    struct Size {
        std::int64_t height = 0, width = 0, channels = 0;
        explicit Size(const data::Image& image) : height(image.height), width(image.width), channels(image.channels) {}
        data::Image blank() const { return channels == 0 ? data::Image() : data::Image(height, width, channels); }
    };

    data::ImageSourcePointer source_;
    mutable std::mutex mutex_;
    mutable std::map<std::int64_t, std::pair<Size, Size>> sizes_;  ///< of images and masks, by the sample
};

}  // namespace

std::optional<data::Orientation> ImageFileFlags::read_as() const {
    if (orientation == "auto") return std::nullopt;
    return orientation == "stored" ? data::Orientation::stored : data::Orientation::upright;
}

void add_image_files(App& app, ImageFileFlags& flags, const std::string& workers, bool annotated) {
    add_flag(app, "--skip-bad-images", flags.skip_bad_images,
             "report images that are missing, truncated or damaged and use others in their place; without it, they end "
             "the training");
    std::vector<std::string> ways{"upright", "stored"};
    if (annotated) ways.emplace_back("auto");
    add_option(app, "--orientation", flags.orientation,
               fmt::format("how to read images that EXIF data says to turn: upright or as stored{}",
                           annotated ? "; auto: whichever has the size in the annotations" : ""))
        .check(one_of(ways))
        .show_default();
    add_workers(app, flags.workers, workers);
}

std::function<std::vector<std::string>()> look_through(const ImageFileFlags& flags,
                                                       const std::vector<data::ImageSourcePointer*>& parts) {
    std::vector<std::shared_ptr<const data::SkippingImages>> skipping;
    std::string first;
    std::size_t count = 0;
    std::int64_t all = 0;
    for (data::ImageSourcePointer* const part : parts) {
        constexpr int threads = 8;  // which wait for files, not for processors
        training::WorkProgress progress("looked at", "files");
        const std::vector<data::BadSample> bad = data::find_bad_images(
            **part, threads, [&](std::int64_t done, std::int64_t count) { progress.show(done, count); });
        if (first.empty() && !bad.empty()) first = bad[0].what;
        count += bad.size();
        all += (*part)->size();
        if (std::ssize(bad) == (*part)->size())
            throw FileError(fmt::format("{}; none of {} images can be used", bad[0].what, bad.size()));
        if (!flags.skip_bad_images) continue;
        skipping.push_back(std::make_shared<const data::SkippingImages>(*part, bad));
        *part = skipping.back();
    }
    if (flags.skip_bad_images || count == 0) expect_upper_bits(parts);
    if (flags.skip_bad_images) {
        return [skipping] {
            std::vector<std::string> what;
            for (const auto& part : skipping)
                for (const data::BadSample& bad : part->skipped()) what.push_back(bad.what);
            return what;
        };
    }
    if (count > 0)
        throw FileError(fmt::format("{}; {} of {} images can't be used; --skip-bad-images uses others in their place",
                                    first, count, all));
    return {};
}

std::string left_out(const std::vector<std::string>& lines, const std::string& noun) {
    if (lines.empty()) return "";
    return fmt::format("; {} {}{} left out, such as {}", lines.size(), noun, lines.size() == 1 ? "" : "s", lines[0]);
}

std::pair<data::ImageSourcePointer, data::ImageSourcePointer> hold_out(const data::ImageSourcePointer& all,
                                                                       std::int64_t wanted, std::uint64_t seed,
                                                                       const std::string& folder) {
    const std::int64_t count = wanted > 0 ? wanted : std::max<std::int64_t>(1, all->size() / 10);
    if (count >= all->size())
        throw Error(
            fmt::format("--validation {}: {} has {} images, and none is left to train on", count, folder, all->size()));
    std::vector<std::pair<std::uint64_t, std::int64_t>> order;
    for (std::int64_t i = 0; i < all->size(); ++i) {
        const std::string name = all->name(i);
        const std::string_view below = std::string_view(name).substr(name.starts_with(folder) ? folder.size() : 0);
        order.emplace_back(random_place(below.substr(std::min(below.find_first_not_of('/'), below.size())), seed), i);
    }
    std::ranges::sort(order);
    std::vector<std::int64_t> held, rest;
    for (const auto& [place, index] : order) (std::ssize(held) < count ? held : rest).push_back(index);
    return {data::subset(all, std::move(rest)), data::subset(all, std::move(held))};
}

data::ImageSourcePointer alike(std::int64_t count, data::ImageSample sample) {
    return std::make_shared<const AlikeImages>(count, std::move(sample));
}

data::ImageSourcePointer loaded_once(data::ImageSourcePointer source) {
    return std::make_shared<const LoadedOnce>(std::move(source));
}

data::Image image_in(const data::ImageBatch& batch, std::size_t row, const std::vector<data::PixelScale>& scale) {
    const auto size = static_cast<std::size_t>(batch.height * batch.width * batch.channels);
    return data::image_of(std::span(batch.images).subspan(row * size, size), batch.height, batch.width, scale);
}

}  // namespace headroom::cli
