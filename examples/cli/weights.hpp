#pragma once
// Beginning with a file of weights whose head may be for other classes than the data has.
//
//     const cli::Head head{.bias = "fc.bias", .layers = {"fc."}};
//     cli::load_weights(flags, "resnet50.safetensors", parameters, head, /*classes=*/10);
//     fmt::print("10000 images{}\n", cli::head_note("resnet50.safetensors", head, 10));
#include <cstdint>
#include <string>
#include <vector>

#include <headroom/core/parameters.hpp>
#include <headroom/files/checkpoint.hpp>

namespace headroom::cli {

struct Flags;

/// The layers of a model that depend on the number of classes.
struct Head {
    std::string bias;                 ///< has an element for each class
    std::vector<std::string> layers;  ///< what the names of their tensors begin with
};

/// Fills all parameters and buffers but those of a head for another number of classes, and counts of batches that the
/// file lacks, as old files and those of frozen norms do. `unused`: what names in the file begin with that the model
/// does not have; empty: none. Does nothing where `file` is empty. Notes what `note_report` says. Errors: FileError for
/// a damaged file; Error that names the first tensor which is missing, left over or of another size, and how many there
/// are: nothing is changed then.
void load_weights(const Flags& flags, const std::string& file, Parameters& parameters, const Head& head,
                  std::int64_t classes, const std::string& unused = "");

/// Adds to the notes which prefix of all names was left out, and which tensors of a head the file lacks.
void note_report(const Flags& flags, const std::string& file, const files::LoadReport& report);

/// For people: that the head stays as initialised; empty if it does not, or `file` is empty. Errors: FileError for a
/// damaged file.
std::string head_note(const std::string& file, const Head& head, std::int64_t classes);

}  // namespace headroom::cli
