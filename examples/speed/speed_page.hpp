#pragma once
// The page of `write_speed_page` without its data: page/speed.html with the files that it includes, made into C++ by
// cmake/embed_page.cmake.
#include <span>
#include <string_view>

namespace headroom::speed {

/// The parts of the page in their order; one of them is "@data@", the place of the data.
std::span<const std::string_view> speed_page();

}  // namespace headroom::speed
