#pragma once
// The quality of a detector by COCO's measure (https://cocodataset.org/#detection-eval). Detections are matched to
// objects from the highest score down: each to the free object of its class that it overlaps most, if the overlap is at
// least the threshold. The precision at each of the recalls 0, 0.01, ..., 1 is the best at that recall or a higher one;
// their mean is a class's average precision, as pycocotools computes it. All detections count, not the best 100 of an
// image alone.
//
//     training::AveragePrecision ap50(training::box_overlap);
//     for (...) ap50.add(found, sample.objects);  // for each image
//     const double mean = ap50.mean();
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include <headroom/data/image_sample.hpp>

namespace headroom::training {

struct Detection {
    data::Box box;
    std::int32_t label = 0;
    float score = 0;
    data::Image mask = {};  ///< empty, or of the image's size: 1 where the object is
};

/// The area of the intersection over the area of the union or, for a crowd, over the area of the detection.
using Overlap = double (*)(const Detection&, const data::ImageObject&);
double box_overlap(const Detection& found, const data::ImageObject& object);
double mask_overlap(const Detection& found, const data::ImageObject& object);

class AveragePrecision {
  public:
    explicit AveragePrecision(Overlap overlap, double threshold = 0.5) : overlap_(overlap), threshold_(threshold) {}

    /// Adds the detections and the objects of an image. Crowds do not count as objects, and detections in them not as
    /// mistakes.
    void add(const std::vector<Detection>& found, const std::vector<data::ImageObject>& objects);

    /// The mean over the classes that have objects; 0 if there are none.
    double mean() const;

  private:
    struct Class {
        std::int64_t objects = 0;
        std::vector<std::pair<float, bool>> found;  ///< scores, and whether there is an object

        double average_precision() const;
    };

    Overlap overlap_;
    double threshold_;
    std::map<std::int32_t, Class> classes_;
};

}  // namespace headroom::training
