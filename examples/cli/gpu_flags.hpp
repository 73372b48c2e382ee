#pragma once
// Which GPU a program plans for: one that is present, or one of --gpu and --gpu-memory, and what of its memory is left
// to CUDA.
//
//     cli::GpuFlags gpu;
//     gpu.add(app);                                       // with --device dry
//     if (gpu.described()) profile = gpu.profile();
#include <cstddef>
#include <string>
#include <vector>

#include <headroom/core/context.hpp>
#include <headroom/examples/cli/options.hpp>

namespace headroom::cli {

struct GpuFlags {
    std::string name;                   ///< of a GPU that is known; empty: like an H100
    std::size_t memory = 0;             ///< bytes; 0: that GPU's own
    std::size_t reserve = kGpuReserve;  ///< `Profile::reserve`

    void add(App& app);
    /// Errors: WrongUsage for flags that do not fit the device: "cpu", "cuda" or "dry".
    void check(const App& app, const std::string& device) const;
    /// Whether a GPU is described, which need not be present.
    bool described() const { return !name.empty() || memory > 0; }
    /// The GPU that is described.
    Profile profile() const;
};

/// --gpu for several; the help goes on with the names.
void add_gpu_names(App& app, std::vector<std::string>& names, const std::string& what);
/// --gpu-reserve.
void add_gpu_reserve(App& app, std::size_t& reserve);

}  // namespace headroom::cli
