#pragma once
// How long pieces of work take on a GPU: how the fastest of a library's algorithms is found.
//
//     const std::vector<float> times = time_each(device, 8, [&](int i) { enqueue(algorithms[i]); });
#include <functional>
#include <string>
#include <vector>

#include <headroom/kernels/device/cuda_device.hpp>

namespace headroom::kernels {

/// Milliseconds that each of `count` pieces of work takes, which the second argument gives to a GPU. Waits.
using WorkTimer = std::function<std::vector<float>(int count, const std::function<void(int)>& enqueue)>;

/// The mean of three times that each is done on the compute queue, after one that is not timed. Waits, which is
/// counted. Errors: DeviceError.
std::vector<float> time_each(CudaDevice& device, int count, const std::function<void(int)>& enqueue);

/// What tuning has taken of the host's time so far, plans that cuDNN made for it included: a stream's state.
struct TuningTime {
    /// In seconds; the plan that is being made when they end may exceed it. What is asked for later is not tuned: the
    /// library's first proposal stays.
    static constexpr double kMost = 100;
    /// For one call's shape: no more plans are made and no more algorithms are tried for it then, and the fastest of
    /// those so far is taken.
    static constexpr double kMostPerShape = 5;

    // A test has its own.
    std::function<double()> clock = seconds_of_host;
    std::function<std::vector<float>(CudaDevice&, int, const std::function<void(int)>&)> timer = time_each;
    double spent = 0;

    bool left() const { return spent < kMost; }
    /// For reports: "; tuning ended after 100 s", or nothing.
    std::string text() const;

  private:
    static double seconds_of_host();
};

/// As long as it lives, the host tunes one call.
class TuningTrial {
  public:
    explicit TuningTrial(TuningTime& time) : time_(time), begin_(time.clock()) {}
    ~TuningTrial() { time_.spent += passed(); }
    TuningTrial(const TuningTrial&) = delete;
    TuningTrial& operator=(const TuningTrial&) = delete;

    bool left() const { return passed() < TuningTime::kMostPerShape && time_.spent + passed() < TuningTime::kMost; }

  private:
    double passed() const { return time_.clock() - begin_; }

    TuningTime& time_;
    double begin_;
};

}  // namespace headroom::kernels
