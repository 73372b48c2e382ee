#include <headroom/memory/plan/step_recorder.hpp>

namespace headroom {

std::uint32_t StepRecorder::on_allocate(std::size_t bytes, StreamId stream) {
    requests_.push_back({bytes, stream, RecordedRequest::kOutlives});
    return first_ + static_cast<std::uint32_t>(requests_.size() - 1);
}

void StepRecorder::on_free(std::uint32_t number) noexcept {
    // Wraps around for older ones, which lands far beyond the end.
    const std::uint32_t index = number - first_;
    if (index < requests_.size()) requests_[index].end = static_cast<std::uint32_t>(requests_.size());
}

void StepRecorder::clear() noexcept {
    first_ += static_cast<std::uint32_t>(requests_.size());
    requests_.clear();
}

}  // namespace headroom
