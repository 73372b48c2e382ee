#pragma once
// PyTorch's trainings of the same models, on the same machine, as bench/peers/train.py has them: a process for each.
//
//     const techniques::Peers peers(question, "cpu", /*threads=*/2);
//     for (techniques::Row& row : peers.rows()) peers.train(row);
#include <string>
#include <vector>

#include <headroom/examples/models/techniques.hpp>

namespace headroom::techniques {

class Peers {
  public:
    /// Looks for train.py beside the programs, where `cmake --install` puts it, and in the sources. Errors: Error if
    /// there is none.
    Peers(const Question& question, const std::string& device, int threads);

    /// Those of the question's techniques that PyTorch has for the model. Errors: Error, with what Python says, if
    /// python3 can't import PyTorch.
    std::vector<Row> rows() const;
    /// Adds a round to a row of `rows`; the first one measures the peak as well. What Python refuses, for one that
    /// memory is short, becomes the row's `refused`.
    void train(Row& row) const;

  private:
    std::vector<std::string> command_, list_;
};

}  // namespace headroom::techniques
