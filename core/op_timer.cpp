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

double OpTimer::end() {
    wait();
    return std::chrono::duration<double>(Clock::now() - begin_).count();
}

OpTimes& OpTimer::of(const Record& record) {
    ops_.resize(std::max<std::size_t>(ops_.size(), record.index + 1));
    return ops_[record.index];
}

void OpTimer::recorded(const Record& record) {
    forward_.resize(record.index);
    forward_.push_back(end());
}

void OpTimer::backward_begins(std::span<Record* const> records) {
    for (const Record* record : records) of(*record).forward.push_back(forward_[record->index]);
}

void OpTimer::replayed(const Record& record) {
    of(record).replays.push_back(end());
    replayed_ = true;
}

void OpTimer::differentiated(const Record& record) {
    OpTimes& times = of(record);
    (std::exchange(replayed_, false) ? times.backward_after_replay : times.backward).push_back(end());
}

}  // namespace headroom
