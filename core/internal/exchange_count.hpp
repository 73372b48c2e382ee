#pragma once
// The number of exchanges between ranks that a thread has begun, readable from other threads. When all ranks of a job
// wait for each other, the watchdog over them (dist) uses it to tell which ranks are in a different exchange.
//
//     const std::atomic<std::uint64_t>& begun = exchanges_of_this_thread();  // to be read until the thread ends
#include <atomic>
#include <cstdint>

namespace headroom {

/// Only its own thread writes it, in Group::check (group.cpp).
inline std::atomic<std::uint64_t>& exchanges_of_this_thread() {
    static constinit thread_local std::atomic<std::uint64_t> begun{0};
    return begun;
}

}  // namespace headroom
