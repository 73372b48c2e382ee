#pragma once
// How many exchanges between ranks a thread has begun, as another thread may read it: where all ranks of a job wait for
// each other, the watch over them (dist) tells by it which of them are in another exchange.
//
//     const std::atomic<std::uint64_t>& begun = exchanges_of_this_thread();  // to be read until the thread ends
#include <atomic>
#include <cstdint>

namespace headroom {

/// Written by its own thread alone, in Group::exchange (group.hpp).
inline std::atomic<std::uint64_t>& exchanges_of_this_thread() {
    static constinit thread_local std::atomic<std::uint64_t> begun{0};
    return begun;
}

}  // namespace headroom
