#pragma once
// Finds unusable image files before a training and skips them while it runs, so that one bad file does not end a long
// training.
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

/// Called now and then with the number of samples checked so far and in total.
using Looked = std::function<void(std::int64_t done, std::int64_t all)>;

struct BadSample {
    std::int64_t index = 0;
    std::string what;  // names the file
};

/// The samples that `source.check` rejects, in index order. It finds missing and truncated files, but not all files
/// with damaged contents. Takes a few microseconds per file in the system's cache (bench/data/images_bench.cpp).
/// Errors: as `check`, except BadImage; Error for less than one thread, or if no thread can be started.
std::vector<BadSample> find_bad_images(const ImageSource& source, int threads, const Looked& looked = {});

/// The samples of a source, with the next good sample in place of each bad image. The choice depends on the files only,
/// not on time or threads, so batches repeat and a resumed training sees the same images.
class SkippingImages : public ImageSource {
  public:
    /// `known`: bad samples from `find_bad_images`; others are found when they are loaded.
    explicit SkippingImages(ImageSourcePointer source, const std::vector<BadSample>& known = {});

    std::int64_t size() const override { return source_->size(); }
    /// Errors: the source's errors, except BadImage; FileError if all images are bad.
    ImageSample load(std::int64_t index) const override;
    std::string name(std::int64_t index) const override { return source_->name(index); }

    /// The bad samples known so far, in index order. May be called while other threads load.
    std::vector<BadSample> skipped() const;

  private:
    bool is_known(std::int64_t index) const;

    ImageSourcePointer source_;
    mutable std::mutex mutex_;
    mutable std::map<std::int64_t, std::string> skipped_;  // guarded by mutex_
};

}  // namespace headroom::data
