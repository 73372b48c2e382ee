#pragma once
// A clock that stands still until a test moves it. Copies are one clock.
//
//     test::HandClock clock;
//     options.clock = clock.now();
//     clock.move(1.5);  // seconds
#include <chrono>
#include <memory>

#include <headroom/training/clock.hpp>

namespace headroom::test {

class HandClock {
  public:
    void move(double seconds) {
        *time_ += std::chrono::duration_cast<training::Moment::duration>(std::chrono::duration<double>(seconds));
    }
    training::Clock now() const {
        return [time = time_] { return *time; };
    }

  private:
    std::shared_ptr<training::Moment> time_ = std::make_shared<training::Moment>();
};

}  // namespace headroom::test
