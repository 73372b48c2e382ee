#include <headroom/optim/moving_average.hpp>

#include <algorithm>

#include <fmt/format.h>

#include <headroom/core/state_counter.hpp>
#include <headroom/kernels/copy/copy.hpp>
#include <headroom/kernels/pointwise/pointwise.hpp>
#include <headroom/memory/error.hpp>

namespace headroom::optim {

namespace {

/// Elements that are exchanged at a time.
constexpr std::int64_t kPiece = std::int64_t{1} << 20;

View piece_of(const Array& whole, std::int64_t first, std::int64_t count) {
    const View view = whole.view();
    return contiguous_view(view.at(first), view.dtype, {count});
}

}  // namespace

MovingAverage::MovingAverage(Parameters& parameters, MovingAverageOptions options)
    : parameters_(parameters), decay_(options.decay) {
    if (!(decay_ >= 0 && decay_ < 1)) {
        throw Error(fmt::format("average: decay must be at least 0 and below 1, got {}", decay_));
    }
    const Array now = parameters.values();
    Exec& exec = parameters.context().exec();
    values_ = exec.empty_for_model(now.shape(), now.dtype, Category::optimizer_state);
    exec.launch([&](auto& stream) { kernels::copy(stream, now.view(), values_.view()); });
}

void MovingAverage::update() {
    parameters_.check_not_exchanged("average: an update");
    const Array now = parameters_.values();
    const kernels::Lerp towards{updates_ == 0 ? 1.0 : 1 - decay_};
    parameters_.context().exec().launch(
        [&](auto& stream) { kernels::map(stream, towards, values_.view(), now.view(), values_.view()); });
    ++updates_;
}

void MovingAverage::exchange(const Scratch& scratch) const {
    const Array weights = parameters_.values();
    const Exec& exec = parameters_.context().exec();
    for (std::int64_t first = 0; first < weights.numel(); first += kPiece) {
        const std::int64_t count = std::min(kPiece, weights.numel() - first);
        const View a = piece_of(weights, first, count), b = piece_of(values_, first, count);
        const View between = contiguous_view(scratch.data(), weights.dtype, {count});
        exec.launch([&](auto& stream) {
            kernels::copy(stream, a, between);
            kernels::copy(stream, b, a);
            kernels::copy(stream, between, b);
        });
    }
    parameters_.mark_changed();
}

MovingAverage::Exchange::Exchange(MovingAverage& average) : average_(average) {
    average.parameters_.check_not_exchanged("average: a second evaluate");
    const std::int64_t elements = std::min(kPiece, average.values_.numel());
    scratch_ = average.parameters_.context().exec().scratch(static_cast<std::size_t>(elements) *
                                                            size_of(average.values_.dtype));
    average.parameters_.mark_exchanged(true);  // and so if only a part is
    average.exchange(scratch_);
}

MovingAverage::Exchange::~Exchange() {
    try {
        average_.exchange(scratch_);
        average_.parameters_.mark_exchanged(false);
    } catch (const Error&) {  // what would write to the weights says so
    }
}

std::string MovingAverage::value_name() const {
    const std::string& model = parameters_.name();
    return fmt::format("average{}{}.updates", model.empty() ? "" : ".", model);
}

StateDict MovingAverage::state_dict() const {
    parameters_.check_not_exchanged("average: saving");
    StateDict state;
    for (const Parameter& parameter : parameters_.all()) {
        if (parameter.buffer) continue;
        Array array{values_.buffer, values_.dtype, parameter.tensor.geometry()};
        array.geometry.offset = parameter.offset;
        state.arrays.push_back({"average." + parameter.path, std::move(array)});
    }
    state.values[value_name()] = fmt::to_string(updates_);
    return state;
}

void MovingAverage::restore(const StateValues& values) {
    parameters_.check_not_exchanged("average: resuming");
    updates_ = state_counter(values, value_name());
}

}  // namespace headroom::optim
