#pragma once
// Images [N, C, H, W] as lists of pixels, each a run of channels: for kernels that treat all channels alike, and go
// through them in vectors where they are neighbours in memory.
//
//     const Rows in(pixels_of(x));                                // rows.hpp
//     in.read((n * height + h) * width + w, 0, channels, buffer); // one pixel
#include <headroom/kernels/view.hpp>

namespace headroom::kernels {

/// [N, C, H, W] as [N, H, W, C].
inline View pixels_of(const View& x) {
    return {x.data,
            x.dtype,
            {x.size(0), x.size(2), x.size(3), x.size(1)},
            {x.stride(0), x.stride(2), x.stride(3), x.stride(1)}};
}

}  // namespace headroom::kernels
