#pragma once
// Images [N, C, H, W] for tests of kernels, which lie channels-last or row-major in a TestArray.
//
//     const ImageLayout layout{true};
//     const TestArray& x = trial.input(v, layout.memory({2, 8, 5, 7}), normal(random));   // [2, 5, 7, 8]
//     x.get(layout.element({2, 8, 5, 7}, n, c, h, w));
//     resample(stream, layout.seen(in[0]), ...);                                         // a View [2, 8, 5, 7]
#include <cstdint>
#include <string>

#include <headroom/kernels/view.hpp>

namespace headroom::kernels::test {

struct ImageLayout {
    bool last = true;  ///< channels-last; false: row-major

    Shape memory(const Shape& image) const { return last ? Shape{image[0], image[2], image[3], image[1]} : image; }
    /// The number of an element in the array's order.
    std::int64_t element(const Shape& image, std::int64_t n, std::int64_t c, std::int64_t h, std::int64_t w) const {
        return last ? ((n * image[2] + h) * image[3] + w) * image[1] + c
                    : ((n * image[1] + c) * image[2] + h) * image[3] + w;
    }
    View seen(View x) const {
        if (!last) return x;
        x.shape = {x.shape[0], x.shape[3], x.shape[1], x.shape[2]};
        x.strides = {x.strides[0], x.strides[3], x.strides[1], x.strides[2]};
        return x;
    }
    /// Calls `work(n, c, h, w)` for the elements in the array's order.
    template <class Work>
    void for_each(const Shape& image, Work&& work) const {
        const Shape shape = memory(image);
        for (std::int64_t n = 0; n < shape[0]; ++n) {
            for (std::int64_t i = 0; i < shape[1]; ++i) {
                for (std::int64_t j = 0; j < shape[2]; ++j) {
                    for (std::int64_t k = 0; k < shape[3]; ++k) last ? work(n, k, i, j) : work(n, i, j, k);
                }
            }
        }
    }
    std::string name() const { return last ? "last" : "rows"; }
};

}  // namespace headroom::kernels::test
