#pragma once
// GPUs by name, with the figures that a rehearsal and a plan need if the GPU is absent. A present GPU reports most of
// them itself; its rates are taken from the most similar GPU here.
//
//     const GpuModel& card = kernels::gpu_model("RTX 2080 Ti");
//     Profile profile = Profile::gpu(card);
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace headroom::kernels {

/// A GPU's peak rates per second from its data sheet: dense products with sums in f32.
struct GpuRates {
    double f32 = 0;        ///< operations on f32, without tensor cores
    double tf32 = 0;       ///< operations on f32 rounded to TF32; `f32` where there is no TF32
    double half = 0;       ///< operations on f16 (and bf16)
    double memory = 0;     ///< bytes read or written
    double host_link = 0;  ///< bytes copied to or from the host, in one direction

    bool operator==(const GpuRates&) const = default;
};

struct GpuModel {
    std::string name = {};         ///< "RTX 2080 Ti"
    std::size_t memory_bytes = 0;  ///< total reported by CUDA: less than the nominal size
    int capability = 0;            ///< compute capability: 75 for 7.5; 0: no GPU
    int multiprocessors = 0;
    std::size_t shared_bytes = 0;  ///< largest shared memory of a block
    GpuRates rates = {};

    bool operator==(const GpuModel&) const = default;
};

/// All known GPUs.
std::span<const GpuModel> gpu_models();

/// Finds a GPU by name; case, spaces and dashes don't matter: "rtx-2080-ti". Errors: Error that lists the known names.
const GpuModel& gpu_model(std::string_view name);

/// The known GPU whose rates stand in for an unknown one's: nearest in compute capability, then in number of
/// multiprocessors, then in memory size.
const GpuModel& nearest_gpu(int capability, int multiprocessors, std::size_t memory_bytes);

/// "7.5".
std::string capability_text(int capability);

}  // namespace headroom::kernels
