#pragma once
// Saves and loads parameters or whole trainings. One call saves the parts of a training, and one call restores them.
// Files are safetensors, so other programs can read the tensors.
//
//     const files::CheckpointParts parts{parameters, optimizer, accumulator, loader};
//     files::save_checkpoint("run.safetensors", context, parts, {{"best", "1.75"}});
//     const StateValues mine = files::load_checkpoint("run.safetensors", context, parts);
//
//     files::save_parameters("gpt.safetensors", parameters);
//     files::load_parameters(files::SafetensorsFile("gpt.safetensors"), parameters);
//     const files::LoadReport report = files::load_parameters(file, parameters, {.partial = true});
//     for (const std::string& name : report.missing) fmt::print("kept as initialised: {}\n", name);
//     files::load_parameters(files::SafetensorsFile("resnet50.safetensors"), parameters, {.skip_other_shapes = true});
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <headroom/core/parameters.hpp>
#include <headroom/core/state_dict.hpp>
#include <headroom/files/safetensors.hpp>

namespace headroom::files {

/// A reference to anything that is `Stateful`: parameters, optimizer, accumulator, data loader, or your own type.
class CheckpointPart {
  public:
    template <Stateful Part>
    CheckpointPart(Part& part)  // NOLINT(google-explicit-constructor): lists of parts read as such
        : part_(&part),
          state_dict_([](void* p) { return static_cast<Part*>(p)->state_dict(); }),
          restore_([](void* p, const StateValues& values) { static_cast<Part*>(p)->restore(values); }) {}
    /// Prefixes all names with `name` and a dot, for a second part of the same kind, such as another loader.
    template <Stateful Part>
    CheckpointPart(std::string name, Part& part) : CheckpointPart(part) {
        prefix_ = std::move(name) + '.';
    }

    StateDict state_dict() const;
    /// Restores the part; `values` holds the values of all parts.
    void restore(const StateValues& values) const;

  private:
    void* part_;
    StateDict (*state_dict_)(void*);
    void (*restore_)(void*, const StateValues&);
    std::string prefix_;
};

/// The parts of a training: `{parameters, optimizer, accumulator, loader}`.
using CheckpointParts = std::vector<CheckpointPart>;

/// Writes the state of all parts, the context's random state and the program's own `values` to a safetensors file,
/// which replaces an older one once it is complete. A training resumed from it continues bit for bit. If state is
/// sharded, all ranks must call it; rank 0 writes one file with whole tensors, which any number of ranks can read.
/// Errors: Error if two parts share a name; errors of the parts' `state_dict` and of write_safetensors.
void save_checkpoint(const std::filesystem::path& path, Context& context, const CheckpointParts& parts,
                     const StateValues& values = {});

/// Replaces the contents of `file` by the bytes that `save_checkpoint` would write; `replace_file_at_once` then writes
/// them. Errors: as `save_checkpoint`, except those of writing the file; Error if state is sharded.
void copy_checkpoint(std::vector<char>& file, Context& context, const CheckpointParts& parts);

/// Restores the parts, which must be constructed like the saved ones, and returns the program's own values. Errors:
/// FileError if the file is not a checkpoint, or is from a version whose checkpoints this version can't read; Error,
/// ShapeError or DtypeError, naming the entry, if one is missing, left over or does not fit; nothing is changed then.
/// FileError if the file changes during the call.
StateValues load_checkpoint(const std::filesystem::path& path, Context& context, const CheckpointParts& parts);

/// Whether the file is a checkpoint of a training, by any version, rather than weights only.
bool is_checkpoint(const SafetensorsFile& file);

struct LoadOptions {
    bool partial = false;  ///< reports missing and left-over tensors instead of throwing
    /// Reports tensors of a different shape instead of throwing and leaves them unchanged, such as a head for other
    /// classes.
    bool skip_other_shapes = false;
    /// Returns true for names in the file (without their common prefix) to ignore: they count neither as wanted nor as
    /// left over.
    std::function<bool(std::string_view)> ignore{};
};

struct LoadReport {
    std::string prefix;  ///< common prefix of all names in the file that was removed, such as "module."; usually empty
    std::vector<std::string> loaded;
    std::vector<std::string> missing;      ///< wanted, but not in the file; unchanged
    std::vector<std::string> left_over;    ///< in the file, but not wanted
    std::vector<std::string> other_shape;  ///< of a different shape in the file; unchanged
};

/// Writes parameters and buffers, without the rest of a training's state. Errors: as write_safetensors.
void save_parameters(const std::filesystem::path& path, Parameters& parameters, const StateValues& metadata = {});

/// Fills arrays (or views) by name. Converts floating dtypes; other dtypes must be equal. An i64 scalar, such as batch
/// norm's count of batches, may have any dtype in the file and the shape [1]. If all names in the file share a prefix,
/// such as "module.", wanted names may omit it. In a checkpoint, an optimizer's arrays for a tensor count as neither
/// wanted nor left over. Errors: Error if a tensor is missing or left over (unless partial), ShapeError (unless
/// skip_other_shapes) or DtypeError if one does not fit; the message names the first and gives their number, and
/// nothing is changed. FileError if the file changes during the call.
LoadReport load_arrays(const SafetensorsFile& file, Context& context, const std::vector<NamedArray>& wanted,
                       const LoadOptions& options = {});

/// As `load_arrays` for parameters and buffers.
LoadReport load_parameters(const SafetensorsFile& file, Parameters& parameters, const LoadOptions& options = {});

}  // namespace headroom::files
