#pragma once

/// The whole of Headroom in one include. Programs that care for compile time include what they use instead,
/// for example <headroom/nn/linear.hpp>.

#include <headroom/config.hpp>
#include <headroom/version.hpp>
