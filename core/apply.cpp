#include <headroom/core/apply.hpp>

#include <fmt/format.h>

#include <headroom/memory/error.hpp>

namespace headroom::detail {

void throw_input_count(const char* op, std::size_t expected, std::size_t got) {
    throw Error(fmt::format("{}: takes {} inputs, got {}", op, expected, got));
}

Tape& tape_of(const char* op, std::span<const Tensor> inputs) {
    for (const Tensor& input : inputs) {
        if (input.defined()) return *input.value()->tape;
    }
    throw Error(fmt::format("{}: no input is defined", op));
}

}  // namespace headroom::detail
