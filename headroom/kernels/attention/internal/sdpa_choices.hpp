#pragma once
// Which of cuDNN's plans was found fastest for which attention, in memory and as lines of a file. Plain C++: only cuDNN
// interprets a plan's name. Internal to kernels/attention.
//
//     SdpaChoices& choices = stream.state->get<SdpaChoices>();
//     if (const std::string* plan = choices.find(part, place)) ...
#include <cstddef>
#include <iosfwd>
#include <map>
#include <string>

#include <headroom/kernels/attention/sdpa.hpp>

namespace headroom::kernels {

class SdpaChoices {
  public:
    /// The name of the plan; null if none was chosen at this `place`, which names the GPU and the version of cuDNN.
    /// Valid until the next `set` or `read`.
    const std::string* find(const Sdpa& sdpa, const std::string& place) const;
    void set(const Sdpa& sdpa, const std::string& place, const std::string& plan);
    std::size_t size() const { return plans_.size(); }

    /// One line for each, which begins with "attention ".
    void write(std::ostream& file) const;
    /// Adds the choice of such a line; one that is present stays. False if it is none.
    bool read(const std::string& line);

  private:
    std::map<std::string, std::string> plans_;  ///< by what they are for, in the words of the file
};

}  // namespace headroom::kernels
