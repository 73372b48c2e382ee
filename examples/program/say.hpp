#pragma once
// Lines for people on standard output, in which a path stays on its line, whatever its name holds.
//
//     say("saved to {}", flags.save);
#include <string>
#include <utility>

#include <fmt/format.h>

#include <headroom/memory/error.hpp>

namespace headroom::program {

template <class... Args>
void say(fmt::format_string<Args...> text, Args&&... args) {
    fmt::print("{}\n", without_controls(fmt::format(text, std::forward<Args>(args)...)));
}

}  // namespace headroom::program
