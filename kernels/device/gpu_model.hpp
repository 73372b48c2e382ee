#pragma once
// GPUs by name, with the figures that a rehearsal and a plan need where the GPU is absent. A GPU that is present says
// most of them itself; its rates are those of the most similar GPU here.
//
//     const GpuModel& card = kernels::gpu_model("RTX 2080 Ti");
//     Profile profile = Profile::gpu(card);
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace headroom::kernels {

/// What a GPU does in a second at best, by its data sheet: dense products that are summed in f32.
struct GpuRates {
    double f32 = 0;        ///< operations on f32, without tensor cores
    double tf32 = 0;       ///< operations on f32 rounded to TF32; `f32` where there is no TF32
    double half = 0;       ///< operations on f16 (and bf16)
    double memory = 0;     ///< bytes read or written
    double host_link = 0;  ///< bytes copied from or to the host, in one direction

    bool operator==(const GpuRates&) const = default;
};

struct GpuModel {
    std::string name = {};         ///< "RTX 2080 Ti"
    std::size_t memory_bytes = 0;  ///< that CUDA reports as the total: less than the box says
    int capability = 0;            ///< compute capability: 75 for 7.5; 0: no GPU
    int multiprocessors = 0;
    std::size_t shared_bytes = 0;  ///< the most shared memory that a block may have
    GpuRates rates = {};

    bool operator==(const GpuModel&) const = default;
};

/// The GPUs that are known.
std::span<const GpuModel> gpu_models();

/// Capital letters, spaces and dashes do not count: "rtx-2080-ti". Errors: Error, with the names that are known.
const GpuModel& gpu_model(std::string_view name);

/// The known GPU whose rates stand for another one's: of the nearest compute capability, then with the nearest number
/// of multiprocessors, then with the nearest amount of memory.
const GpuModel& nearest_gpu(int capability, int multiprocessors, std::size_t memory_bytes);

/// "7.5".
std::string capability_text(int capability);

}  // namespace headroom::kernels
