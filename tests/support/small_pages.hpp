#pragma once
// The host's memory in pages of 16 KiB, so that the limits of small models lie close together.
//
//     auto memory = std::make_shared<DeviceMemory>(test::make_small_pages(), training_memory({.limit = 1 << 20}));
//     Context context = Context::cpu({.memory = memory});
#include <memory>

#include <headroom/memory/driver.hpp>

namespace headroom::test {

std::unique_ptr<memory::Driver> make_small_pages();

}  // namespace headroom::test
