#pragma once
// Which classes occur in what a model is validated on. Where it is one alone, a model that always guesses it gets full
// marks, which people should know.
//
//     ClassesSeen classes(10);
//     classes.add(batch.labels);                 // of every batch
//     validation.note = classes.note(names);     // "only class cat occurs in it"
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>

namespace headroom::program {

class ClassesSeen {
  public:
    explicit ClassesSeen(std::int64_t classes) : seen_(static_cast<std::size_t>(classes)) {}

    /// Those below 0 do not count.
    void add(std::span<const std::int32_t> labels) {
        for (const std::int32_t label : labels)
            if (label >= 0) seen_[static_cast<std::size_t>(label)] = true;
    }

    bool any() const { return std::ranges::find(seen_, true) != seen_.end(); }

    /// Empty where several occur. `names` may lack some, or be empty.
    std::string note(const std::vector<std::string>& names = {}) const {
        std::string only;
        for (std::size_t label = 0; label < seen_.size(); ++label) {
            if (!seen_[label]) continue;
            if (!only.empty()) return "";
            only = label < names.size() && !names[label].empty() ? names[label] : fmt::to_string(label);
        }
        return only.empty() ? "no class occurs in it" : fmt::format("only class {} occurs in it", only);
    }

  private:
    std::vector<bool> seen_;
};

}  // namespace headroom::program
