#pragma once
// Properties of this machine's memory, shared by the host driver and its simulation.
//
//     memory::DriverProperties properties = memory::host_properties();
#include <headroom/memory/driver.hpp>

namespace headroom::memory {

DriverProperties host_properties();

}  // namespace headroom::memory
