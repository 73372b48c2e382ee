#pragma once
// Which of a test's many cases are run: all of them, but one in eleven under ThreadSanitizer, where each emulated CUDA
// thread costs a hundred times as much. For cases that come from nested loops over a few layouts, dtypes and shapes:
// eleven is a multiple of none of these numbers, so that all kinds are met.
//
//     Sample sample;
//     for (...) for (...) if (sample.takes_next()) expect_same(...);
#include <headroom/tests/kernels/race_cases.hpp>

namespace headroom::kernels::test {

class Sample {
  public:
    bool takes_next() { return number_++ % kStep == 0; }

  private:
    static constexpr int kStep = kRaces ? 11 : 1;
    int number_ = 0;
};

}  // namespace headroom::kernels::test
