#pragma once
// Finds image files that can't be used before a training, and skips them while it runs, so that one bad file does not
// end a long training.
//
//     const auto photos = std::make_shared<data::ImageFolder>("photos/train");
//     const std::vector<data::BadSample> bad = data::find_bad_images(*photos, /*threads=*/2);
//     const auto usable = std::make_shared<data::SkippingImages>(photos, bad);  // to train on
//     for (const data::BadSample& one : usable->skipped()) fmt::print("{}\n", one.what);
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include <headroom/data/image_sample.hpp>

namespace headroom::data {

/// Called now and then, with the number of samples looked at so far and of all.
using Looked = std::function<void(std::int64_t done, std::int64_t all)>;

struct BadSample {
    std::int64_t index = 0;
    std::string what;  // names the file
};

/// Samples that `check` of their source refuses, in the order of their numbers: files that are missing or cut, but not
/// all files that are damaged inside. Each costs some microseconds where its file is in the system's cache
/// (bench/data/images_bench.cpp). Errors: as `check`, except BadImage; Error for less than one thread, or if the system
/// gives none.
std::vector<BadSample> find_bad_images(const ImageSource& source, int threads, const Looked& looked = {});

/// The samples of a source; in place of a sample with a bad image it gives the next good one. The choice depends on the
/// files alone, not on time or threads, so batches repeat, and a resumed training sees the same images.
class SkippingImages : public ImageSource {
  public:
    /// `known`: bad samples, as found by `find_bad_images`; others are found when they are loaded.
    explicit SkippingImages(ImageSourcePointer source, const std::vector<BadSample>& known = {});

    std::int64_t size() const override { return source_->size(); }
    /// Errors: as the source's, except BadImage; FileError if all are bad.
    ImageSample load(std::int64_t index) const override;
    std::string name(std::int64_t index) const override { return source_->name(index); }

    /// Bad samples that are known so far, in the order of their numbers. May be called while others load.
    std::vector<BadSample> skipped() const;

  private:
    bool is_known(std::int64_t index) const;

    ImageSourcePointer source_;
    mutable std::mutex mutex_;
    mutable std::map<std::int64_t, std::string> skipped_;  // guarded by mutex_
};

}  // namespace headroom::data
