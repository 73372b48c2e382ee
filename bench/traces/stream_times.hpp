#pragma once
// When the work of several streams would be done, if each piece took as long as it is told to and streams ran side by
// side: how much parallelism is lost to waits. Time has no unit.
//
//     StreamTimes times;
//     times.work(0, 5);
//     times.wait(1, times.now(0));
//     times.work(1, 2);
//     fmt::print("{}\n", times.end());   // 7
#include <algorithm>
#include <vector>

#include <headroom/memory/stream_id.hpp>

namespace headroom::traces {

class StreamTimes {
  public:
    /// Queues work that takes `duration`.
    void work(memory::StreamId stream, double duration) { of(stream) = std::max(of(stream), host_) + duration; }
    /// When all that is queued on the stream will be done.
    double now(memory::StreamId stream) { return of(stream); }
    /// What is queued on the stream from now on begins at that time at the earliest.
    void wait(memory::StreamId stream, double time) { of(stream) = std::max(of(stream), time); }
    /// The host queues nothing before that time.
    void wait_on_host(double time) { host_ = std::max(host_, time); }
    /// When all is done.
    double end() const {
        return times_.empty() ? host_ : std::max(host_, *std::max_element(times_.begin(), times_.end()));
    }

  private:
    double& of(memory::StreamId stream) {
        if (stream >= times_.size()) times_.resize(stream + 1);
        return times_[stream];
    }

    std::vector<double> times_;
    double host_ = 0;
};

}  // namespace headroom::traces
