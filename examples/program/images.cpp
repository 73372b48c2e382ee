#include <headroom/examples/program/images.hpp>

#include <algorithm>
#include <span>

#include <fmt/format.h>

#include <headroom/data/image_drawing.hpp>
#include <headroom/memory/error.hpp>

namespace headroom::program {

std::pair<data::ImageSourcePointer, data::ImageSourcePointer> hold_out(const data::ImageSourcePointer& all,
                                                                       std::int64_t wanted, std::uint64_t seed,
                                                                       const std::string& folder) {
    const std::int64_t count = wanted > 0 ? wanted : std::max<std::int64_t>(1, all->size() / 10);
    if (count >= all->size())
        throw Error(
            fmt::format("--validation {}: {} has {} images, and none is left to train on", count, folder, all->size()));
    return data::random_split(all, count, seed);
}

data::Image image_in(const data::ImageBatch& batch, std::size_t row, const std::vector<data::PixelScale>& scale) {
    const auto size = static_cast<std::size_t>(batch.height * batch.width * batch.channels);
    return data::image_of(std::span(batch.images).subspan(row * size, size), batch.height, batch.width, scale);
}

}  // namespace headroom::program
