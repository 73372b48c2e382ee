#include <headroom/core/op_timer.hpp>

#include <algorithm>
#include <utility>

#include <headroom/kernels/device/cuda_device.hpp>

namespace headroom {

void OpTimer::wait() {
    if (CudaDevice* const gpu = context_.gpu()) gpu->synchronize();
}

void OpTimer::op_begins() {
    wait();
    begin_ = Clock::now();
}

void OpTimer::ends(const Record& record, std::vector<double> OpTimes::*times) {
    wait();
    const double seconds = std::chrono::duration<double>(Clock::now() - begin_).count();
    ops_.resize(std::max<std::size_t>(ops_.size(), record.index + 1));
    (ops_[record.index].*times).push_back(seconds);
}

void OpTimer::recorded(const Record& record) { ends(record, &OpTimes::forward); }
void OpTimer::replayed(const Record& record) {
    ends(record, &OpTimes::replays);
    replayed_ = true;
}
void OpTimer::differentiated(const Record& record) {
    ends(record, std::exchange(replayed_, false) ? &OpTimes::backward_after_replay : &OpTimes::backward);
}

}  // namespace headroom
