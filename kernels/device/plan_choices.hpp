#pragma once
// The fastest known plan of a library for each call, in memory and as lines of a file that it shares with other
// choices. Plain C++: only the library interprets a plan's name.
//
//     struct Problem {
//         static constexpr std::string_view kind = "attention";     // how its lines begin
//         std::string text() const;                                  // everything that a plan depends on
//     };
//     const std::string* plan = stream.state->get<PlanChoices<Problem>>().find(problem, place);
#include <cstddef>
#include <iosfwd>
#include <map>
#include <string>
#include <string_view>

namespace headroom::kernels {

class PlanTable {
  public:
    explicit PlanTable(std::string_view kind) : kind_(kind) {}

    std::size_t size() const { return plans_.size(); }
    /// Writes one line per choice; each begins with the kind.
    void write(std::ostream& file) const;
    /// Adds the choice from such a line, unless the problem already has one. False if the line is of another kind.
    bool read(const std::string& line);
    /// Appends the lines to the file. Errors: FileError if it can't be written.
    void append(const std::string& path) const;
    /// Adds the choices of the file and ignores its other lines. Errors: FileError if it can't be read or a line is
    /// damaged.
    void load(const std::string& path);

  protected:
    std::map<std::string, std::string> plans_;  ///< by problem, as written to the file

  private:
    std::string_view kind_;
};

template <class Problem>
class PlanChoices : public PlanTable {
  public:
    PlanChoices() : PlanTable(Problem::kind) {}

    /// The name of the plan; null if none was chosen at this `place`, which names the GPU and the library's version.
    /// Valid until the next `set` or `read`.
    const std::string* find(const Problem& problem, const std::string& place) const {
        const auto found = plans_.find(place + " | " + problem.text());
        return found == plans_.end() ? nullptr : &found->second;
    }
    void set(const Problem& problem, const std::string& place, const std::string& plan) {
        plans_[place + " | " + problem.text()] = plan;
    }
};

}  // namespace headroom::kernels
