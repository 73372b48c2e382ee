#pragma once
// COCO's average precision of a detector (https://cocodataset.org/#detection-eval). Detections are matched to objects
// in order of decreasing score. Each takes the unmatched object of its class with the largest overlap, if the overlap
// reaches the threshold. Precision at recall r is the best precision at any recall of at least r. A class's average
// precision is the mean of these over the recalls 0, 0.01, ..., 1, as in pycocotools. All detections count; COCO keeps
// the best 100 per image.
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
    data::Image mask = {};  ///< of the image's size, 1 where the object is; may be empty
};

/// Area of the intersection divided by the area of the union; for a crowd, divided by the area of the detection.
using Overlap = double (*)(const Detection&, const data::ImageObject&);
double box_overlap(const Detection& found, const data::ImageObject& object);
double mask_overlap(const Detection& found, const data::ImageObject& object);

class AveragePrecision {
  public:
    explicit AveragePrecision(Overlap overlap, double threshold = 0.5) : overlap_(overlap), threshold_(threshold) {}

    /// Adds an image's detections and objects. Crowds are not counted as objects, and detections inside of them are not
    /// counted as errors.
    void add(const std::vector<Detection>& found, const std::vector<data::ImageObject>& objects);

    /// The mean average precision over the classes that have objects; 0 if there are none.
    double mean() const;

  private:
    struct Class {
        std::int64_t objects = 0;
        std::vector<std::pair<float, bool>> found;  ///< score, and whether it matched an object

        double average_precision() const;
    };

    Overlap overlap_;
    double threshold_;
    std::map<std::int32_t, Class> classes_;
};

}  // namespace headroom::training
