#pragma once
// Times pieces of work on a GPU, to find the fastest of a library's algorithms.
//
//     const std::vector<float> times = time_each(device, 8, [&](int i) { enqueue(algorithms[i]); });
#include <functional>
#include <string>
#include <vector>

#include <headroom/kernels/device/cuda_device.hpp>

namespace headroom::kernels {

/// Returns the milliseconds that each of `count` pieces of work takes; the second argument queues a piece on the GPU.
/// Waits.
using WorkTimer = std::function<std::vector<float>(int count, const std::function<void(int)>& enqueue)>;

/// The mean of three timed runs of each piece on the compute queue, after one untimed run. The wait is counted.
/// Errors: DeviceError.
std::vector<float> time_each(CudaDevice& device, int count, const std::function<void(int)>& enqueue);

/// Host time that tuning has taken so far, including cuDNN's planning for it; part of a stream's state.
struct TuningTime {
    /// In seconds; a plan that is being made at that time may exceed it. Later calls are not tuned: they use the
    /// library's first proposal.
    static constexpr double kMost = 100;
    /// For one call's shape: after this, no more plans are made or algorithms tried for it, and the fastest so far is
    /// used.
    static constexpr double kMostPerShape = 5;

    // Replaced in tests.
    std::function<double()> clock = seconds_of_host;
    std::function<std::vector<float>(CudaDevice&, int, const std::function<void(int)>&)> timer = time_each;
    double spent = 0;

    bool left() const { return spent < kMost; }
    /// For reports: "; tuning ended after 100 s", or empty.
    std::string text() const;

  private:
    static double seconds_of_host();
};

/// The host tunes one call during its lifetime.
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
