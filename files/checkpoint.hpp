#pragma once
// Files of parameters, and of whole trainings: one call saves and one resumes a training, with the parts that the
// program has. The files are safetensors, so that other programs can read the tensors.
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

/// A reference to anything that is `Stateful`: parameters, optimizer, accumulator, data loader, or a type of your own.
class CheckpointPart {
  public:
    template <Stateful Part>
    CheckpointPart(Part& part)  // NOLINT(google-explicit-constructor): lists of parts read as such
        : part_(&part),
          state_dict_([](void* p) { return static_cast<Part*>(p)->state_dict(); }),
          restore_([](void* p, const StateValues& values) { static_cast<Part*>(p)->restore(values); }) {}
    /// All names begin with `name` and a dot: for a second part of one kind, such as another loader.
    template <Stateful Part>
    CheckpointPart(std::string name, Part& part) : CheckpointPart(part) {
        prefix_ = std::move(name) + '.';
    }

    StateDict state_dict() const;
    /// Restores the part; `values` are those of all parts.
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
/// which replaces an older one when it is complete. A training that is resumed from it continues bit for bit. If some
/// state is sharded, all ranks call it: tensors are whole in the file, which rank 0 writes and any number reads.
/// Errors: Error if two parts have a name in common; as the parts' `state_dict` and write_safetensors.
void save_checkpoint(const std::filesystem::path& path, Context& context, const CheckpointParts& parts,
                     const StateValues& values = {});

/// The bytes of that file, in place of what `file` held, for `replace_file_at_once`. Errors: as above, but for what
/// concerns a file; Error if some state is sharded.
void copy_checkpoint(std::vector<char>& file, Context& context, const CheckpointParts& parts);

/// Restores the parts, made like those that were saved, from the file, and returns the program's own values. Errors:
/// FileError if the file is not a checkpoint, or was written by a version whose checkpoints this version can't read;
/// Error, ShapeError or DtypeError that names the entry that is missing, left over or does not fit: nothing is changed
/// then. FileError if the file changes meanwhile.
StateValues load_checkpoint(const std::filesystem::path& path, Context& context, const CheckpointParts& parts);

/// Whether the file is a checkpoint of a training, of this version or another one, and not weights alone.
bool is_checkpoint(const SafetensorsFile& file);

struct LoadOptions {
    bool partial = false;  ///< true: missing and left-over tensors are reported, not errors
    /// True: tensors of another shape are reported, not errors, and stay as they were: a head for other classes.
    bool skip_other_shapes = false;
    /// Names in the file, without the prefix of all, that are neither wanted nor left over.
    std::function<bool(std::string_view)> ignore{};
};

struct LoadReport {
    std::string prefix;  ///< stands before all names in the file, and was left out: "module."; mostly empty
    std::vector<std::string> loaded;
    std::vector<std::string> missing;      ///< wanted, but not in the file; left as they were
    std::vector<std::string> left_over;    ///< in the file, but not wanted
    std::vector<std::string> other_shape;  ///< of another shape in the file; left as they were
};

/// Writes parameters and buffers, without the rest of a training's state. Errors: as write_safetensors.
void save_parameters(const std::filesystem::path& path, Parameters& parameters, const StateValues& metadata = {});

/// Fills arrays (views are fine) by name, converting floating dtypes; other dtypes must be equal. One number of type
/// i64 with shape [], as batch norm's count of batches, may have any dtype in the file, and the shape [1]. Where all
/// names in the file begin with one prefix, such as "module.", the wanted ones may lack it. Errors: Error if a tensor
/// is missing or left over (unless partial), ShapeError (unless skip_other_shapes) or DtypeError if one does not fit:
/// it names the first, says how many there are, and nothing is changed. FileError if the file changes meanwhile. In a
/// checkpoint, arrays that an optimizer keeps beside a tensor count as neither wanted nor left over.
LoadReport load_arrays(const SafetensorsFile& file, Context& context, const std::vector<NamedArray>& wanted,
                       const LoadOptions& options = {});

/// The same for parameters and buffers.
LoadReport load_parameters(const SafetensorsFile& file, Parameters& parameters, const LoadOptions& options = {});

}  // namespace headroom::files
