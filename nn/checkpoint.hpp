#pragma once
// A model's parameters and buffers in a file, whole or in part, with what else belongs to a training. A whole load is
// strict; a partial one reports what was missing and what was left over.
//
//     save_parameters("gpt.safetensors", parameters, optimizer.state(), {{"step", "100"}});
//     load_parameters(SafetensorsFile("gpt.safetensors"), parameters, {.extra = optimizer.state()});
//     LoadReport report = load_parameters(file, parameters, {.partial = true});
//     for (const std::string& name : report.missing) fmt::print("kept as initialised: {}\n", name);
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <headroom/core/named_array.hpp>
#include <headroom/core/parameters.hpp>
#include <headroom/nn/safetensors.hpp>

namespace headroom {

struct LoadOptions {
    bool partial = false;                            ///< true: missing and left-over tensors are reported, not errors
    std::vector<NamedArray> extra{};                 ///< further arrays to fill by name, such as an optimizer's state
    std::function<bool(std::string_view)> ignore{};  ///< names in the file that are neither wanted nor left over
};

struct LoadReport {
    std::vector<std::string> loaded;
    std::vector<std::string> missing;    ///< wanted, but not in the file; left as they were
    std::vector<std::string> left_over;  ///< in the file, but not wanted
};

/// Parameters and buffers as arrays under their paths: views of where they live.
std::vector<NamedArray> named_arrays(Parameters& parameters);

/// Errors: as write_safetensors.
void save_parameters(const std::filesystem::path& path, Parameters& parameters,
                     const std::vector<NamedArray>& extra = {}, const Metadata& metadata = {});

/// Fills arrays (views are fine) by name, converting floating dtypes; other dtypes must be equal. Of `options`, `extra`
/// is not looked at. Errors: Error that names the tensor if one is missing or left over (unless partial), ShapeError or
/// DtypeError if one does not fit: nothing is changed then. FileError if the file changes meanwhile.
LoadReport load_arrays(const SafetensorsFile& file, Context& context, const std::vector<NamedArray>& wanted,
                       const LoadOptions& options = {});

/// The same for parameters, buffers and `extra`.
LoadReport load_parameters(const SafetensorsFile& file, Parameters& parameters, const LoadOptions& options = {});

}  // namespace headroom
