#pragma once
// How a test steers the stand-in for CUDA's runtime that it is linked to, and adds work of its own. Its streams do
// their work whenever they like, as events allow: before a call returns, later, or only when somebody waits; which
// follows from the seed. Copies read their source when they are done, not when they are given. Device memory is the
// host's. One thread.
//
//     fake_runtime::reset(seed);
//     const auto device = open_cuda_device(0);                    // the real cuda_device.cpp
//     fake_runtime::enqueue(device->native(), [&] { ... });       // a kernel
//     EXPECT_EQ(fake_runtime::problem(), "");
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

namespace headroom::kernels::fake_runtime {

/// A driver that is newer than any.
inline constexpr int kNewestDriver = 99000;

/// No stream has work, no error is set. Even seeds do work as late as they can. `capability`: of GPUs that are opened
/// from now on, 90 for 9.0. `driver`: the latest CUDA that it supports, 13000 for 13.0; 0: there is none.
void reset(std::uint64_t seed, int capability = 90, int driver = kNewestDriver, int gpus = 1);
/// Work on a stream (cudaStream_t), in its order.
void enqueue(void* stream, std::function<void()> work);
/// Within work: it takes so long, as events see it. Other work takes no time.
void take_time(float milliseconds);
/// The first use that CUDA forbids, or that this project never makes: the default stream, memory freed while a copy
/// reads it, a stream destroyed while it has work.
std::string problem();
/// True if no stream has work left.
bool idle();
/// The number of graphs that can be launched.
int graphs();
/// The call of this function of CUDA's that comes after so many others of it returns the error (a cudaError_t) and does
/// nothing; all later ones as well if it is `for_good`.
void fail(const std::string& function, int after, int error, bool for_good = false);
/// What CUDA answers to a launch of a kernel with so much dynamic shared memory: a cudaError_t. Each kernel has 1 KiB
/// of static shared memory, and no more than 48 KiB of the other before its attribute says so.
int launch(const void* kernel, std::size_t shared_bytes);
/// How often a function was called since `reset`.
int calls(const std::string& function);

}  // namespace headroom::kernels::fake_runtime
