#pragma once
// The file in which the algorithms that libraries found fastest (`ComputeOptions::tune`) outlive a process: text, for
// one model of GPU and the versions of its libraries. What chooses algorithms is listed in one place, tuning.cpp.
//
//     if (exists(path)) kernels::load_tuning(stream, path);
//     kernels::save_tuning(stream, path);
#include <string>

#include <headroom/kernels/stream.hpp>

namespace headroom::kernels {

/// Writes what was chosen so far: cuBLASLt's algorithm for each product, cuDNN's plan for each attention and
/// convolution. Nothing where the stream is no GPU's. Errors: FileError if the file can't be written.
void save_tuning(Stream& stream, const std::string& path);

/// Reads such a file. What was already computed keeps its algorithm; lines for another model of GPU or another version
/// of a library have no effect. Errors: FileError if the file can't be read or is damaged.
void load_tuning(Stream& stream, const std::string& path);

}  // namespace headroom::kernels
