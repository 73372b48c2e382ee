#pragma once
// Saves the library algorithms found fastest (`ComputeOptions::tune`) in a text file, for one GPU model and its library
// versions. tuning.cpp lists everything that chooses algorithms.
//
//     if (exists(path)) kernels::load_tuning(stream, path);
//     kernels::save_tuning(stream, path);
#include <string>

#include <headroom/kernels/stream.hpp>

namespace headroom::kernels {

/// Writes the choices so far: cuBLASLt's algorithm for each product, cuDNN's plan for each attention and convolution.
/// Does nothing unless the stream is a GPU's. Errors: FileError if the file can't be written.
void save_tuning(Stream& stream, const std::string& path);

/// Reads such a file. Problems already computed keep their algorithm; lines for another GPU model or library version
/// are ignored. Errors: FileError if the file can't be read or is damaged.
void load_tuning(Stream& stream, const std::string& path);

}  // namespace headroom::kernels
