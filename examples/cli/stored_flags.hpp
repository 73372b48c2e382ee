#pragma once
// The flags of a training in its checkpoint: --resume FILE alone goes on with them, and those on the command line count
// more. An option `of_this_run` belongs to the run, not to the training, and is not stored.
//
//     const auto stored = StoredFlags::add(app);    // adds --resume
//     values["train_gpt.flags"] = stored->text();
//     fmt::print("resuming {}; given anew: {}", stored->file(), fmt::join(stored->anew(), ", "));
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <headroom/examples/cli/options.hpp>

namespace headroom::cli {

class StoredFlags {
  public:
    /// Adds --resume. The app outlives what this returns.
    static std::shared_ptr<const StoredFlags> add(App& app);

    /// The file to resume; empty without --resume.
    const std::string& file() const { return file_; }
    /// Those that the command line changed: "--lr 0.01 (was 0.001)", "--ignore 255 (was not given)".
    const std::vector<std::string>& anew() const { return anew_; }
    /// Whether the command line has this flag, as --recompute by "recompute".
    bool given(const std::string& name) const;
    /// What counts now, for a checkpoint: a JSON object. `found`: values by name that the program found out for itself.
    std::string text(const std::map<std::string, std::string>& found = {}) const;
    /// Its place among the values of a checkpoint of this program.
    static std::string value_name(const std::string& program) { return program + ".flags"; }

  private:
    explicit StoredFlags(const App& app) : app_(app) {}
    /// Reads them. Errors: FileError if it is no file of tensors or another program's, or they are damaged.
    App::Values read(const std::string& file);

    const App& app_;
    std::string file_;
    std::vector<std::string> anew_;
    std::set<std::string> given_;  ///< on the command line that resumes
};

/// Gives an option the value that follows from another one, such as the width from a file with a model. Errors: wrong
/// usage if the command line says otherwise. `source` says where it is from: "gpt2.safetensors".
void imply(App& app, const std::string& name, const std::string& value, const std::string& source);

}  // namespace headroom::cli
