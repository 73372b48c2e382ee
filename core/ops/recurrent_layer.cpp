#include <headroom/core/ops/internal/recurrent_layer.hpp>

#include <algorithm>

#include <fmt/format.h>

#include <headroom/core/ops/checks.hpp>
#include <headroom/core/ops/internal/recurrent_gradient.hpp>
#include <headroom/kernels/fill/fill.hpp>
#include <headroom/kernels/round_up.hpp>
#include <headroom/memory/error.hpp>

namespace headroom {

using namespace recurrent;
using ops::RecurrentAttrs, ops::RecurrentSaved;

namespace {

// Inputs, and those of a direction, which begin with kWeights.
enum : std::size_t { kX, kH0, kC0, kLast, kWeights };
constexpr std::size_t kOfInput = 0, kOfState = 1, kInputBias = 2, kStateBias = 3, kWeightCount = 4;

const char* name_of(Cell cell) { return cell == Cell::lstm ? "lstm" : "gru"; }

Sizes sizes_of(const Array& x, const Array& weight_hh, bool both) {
    return {x.size(0), x.size(1), weight_hh.size(1), both ? 2 : 1};
}

void check_weights(const char* op, std::span<const Array> inputs, std::size_t first, std::int64_t gates) {
    const Argument x("x", inputs[kX]), of_input("weight_ih", inputs[first]), of_state("weight_hh", inputs[first + 1]);
    const Array &weight_ih = inputs[first], &weight_hh = inputs[first + 1];
    check_one_dtype(op, {x,
                         {"h0", inputs[kH0], kOptional},
                         of_input,
                         of_state,
                         {"bias_ih", inputs[first + kInputBias], kOptional},
                         {"bias_hh", inputs[first + kStateBias], kOptional}});
    const bool fits = weight_hh.rank() == 2 && weight_hh.size(0) == gates * weight_hh.size(1);
    check_form(op, of_state, fits, gates == 4 ? "[4 * H, H]" : "[3 * H, H]");
    check_shape(op, of_input, {weight_hh.size(0), inputs[kX].size(2)}, of_state);
    check_shape(op, {"bias_ih", inputs[first + kInputBias]}, {weight_ih.size(0)}, of_input);
    check_shape(op, {"bias_hh", inputs[first + kStateBias]}, {weight_ih.size(0)}, of_input);
}

void check(Cell cell, const RecurrentAttrs& attrs, std::span<const Array> inputs) {
    const char* op = name_of(cell);
    if (inputs.size() != kWeights + kWeightCount && inputs.size() != kWeights + 2 * kWeightCount)
        throw Error(fmt::format("{}: takes 8 inputs, or 12 for both directions, got {}", op, inputs.size()));
    const Array &x = inputs[kX], &h0 = inputs[kH0], &c0 = inputs[kC0], &last = inputs[kLast];
    check_floating(op, {{"x", x}, {"c0", c0, kOptional}});
    check_form(op, {"x", x}, x.rank() == 3 && x.size(0) > 0, "[T, B, I], T at least 1");
    if (attrs.checkpoint < -1)
        throw Error(fmt::format("{}: checkpoint must be a number of steps, 0 or -1, got {}", op, attrs.checkpoint));
    for (std::size_t first = kWeights; first < inputs.size(); first += kWeightCount)
        check_weights(op, inputs, first, gates_of(cell));
    const Argument weights("weight_hh", inputs[kWeights + kOfState]);
    if (inputs.size() > kWeights + kWeightCount)
        check_shape(op, {"weight_hh_reverse", inputs[kWeights + kWeightCount + kOfState]}, *weights.shape, weights);
    const Sizes size = sizes_of(x, inputs[kWeights + kOfState], inputs.size() > kWeights + kWeightCount);
    const Shape states{size.directions, size.batch, size.width};
    check_shape(op, {"h0", h0}, states, {"x", x});
    check_shape(op, {"c0", c0}, states, {"x", x});
    if (!last.defined()) return;
    check_index(op, {"lengths", last});
    check_shape(op, {"lengths", last}, {size.batch}, {"x", x});
}

View view_or_none(const Array& array) { return array.defined() ? array.view() : View{}; }

/// `from` of rank 0 is zeros.
void begin_with(const Exec& exec, const View& from, const View& to) {
    if (from.rank() != 0) return copy(exec, from, to);
    exec.launch([&](auto& stream) { kernels::fill(stream, 0.0, to); });
}

Direction direction_of(Exec& exec, Cell cell, const RecurrentSaved& saved, const Sizes& size, bool reverse) {
    const auto& weights = reverse ? saved.reverse_weights : saved.weights;
    const Array& h0 = saved.h0;
    return {exec,
            cell,
            size,
            saved.x.view(),
            h0.defined() ? recurrent::at(h0.view(), reverse ? 1 : 0) : View{},
            view_or_none(saved.last),
            weights[kOfInput].view(),
            weights[kOfState].view(),
            view_or_none(weights[kInputBias]),
            view_or_none(weights[kStateBias]),
            reverse};
}

}  // namespace

RecurrentResult recurrent_forward(Exec& exec, Cell cell, const RecurrentAttrs& attrs, std::span<const Array> inputs) {
    check(cell, attrs, inputs);
    const Array &x = inputs[kX], &last = inputs[kLast];
    const bool both = inputs.size() > kWeights + kWeightCount, lstm = cell == Cell::lstm;
    const Sizes size = sizes_of(x, inputs[kWeights + kOfState], both);
    const std::int64_t chunk = size.chunk(attrs), d = size.directions;
    RecurrentResult result;
    RecurrentSaved& saved = result.saved;
    saved.x = x, saved.h0 = inputs[kH0], saved.last = last;
    for (std::size_t i = 0; i < kWeightCount; ++i) {
        saved.weights[i] = inputs[kWeights + i];
        if (both) saved.reverse_weights[i] = inputs[kWeights + kWeightCount + i];
    }
    if (last.defined()) {
        exec.launch([&](auto& stream) {
            kernels::check_last(stream, lstm ? "lstm: length" : "gru: length", last.view(), size.time);
        });
    }
    const Dtype compute = compute_dtype(x.dtype);
    result.y = exec.empty({size.time, size.batch, d * size.width}, x.dtype);
    result.h_n = exec.empty({d, size.batch, size.width}, x.dtype);
    if (lstm) result.c_n = exec.empty({d, size.batch, size.width}, compute);
    const bool keeps = exec.saved_wanted() && chunk == size.time;
    if (keeps) saved.gates = exec.empty({d, size.time, size.batch, kept_gates_of(cell) * size.width}, x.dtype);
    if (keeps && lstm) saved.cells = exec.empty({d, size.time, size.batch, size.width}, compute);
    if (exec.saved_wanted() && lstm) {
        saved.begins = exec.empty({d, kernels::quotient_up(size.time, chunk), size.batch, size.width}, compute);
    }
    const Room block(exec, {keeps ? 0 : size.block(), size.batch, kept_gates_of(cell) * size.width}, x.dtype);
    for (const bool reverse : {false, true}) {
        if (reverse && !both) break;
        const Direction direction = direction_of(exec, cell, saved, size, reverse);
        const Steps to{.gates = keeps ? direction.own(saved.gates) : block.view,
                       .cells = direction.own(saved.cells),
                       .h = direction.own(result.h_n),
                       .c = direction.own(result.c_n),
                       .y = direction.own_columns(result.y.view())};
        begin_with(exec, direction.h0, to.h);
        if (lstm) begin_with(exec, direction.own(inputs[kC0]), to.c);
        const Run run(direction, to);
        for (std::int64_t first = 0; first < size.time; first += chunk) {
            if (saved.begins.defined()) copy(exec, to.c, at(direction.own(saved.begins), first / chunk));
            run(first, std::min(chunk, size.time - first));
        }
    }
    saved.y = result.y;
    return result;
}

void recurrent_backward(Exec& exec, Cell cell, const RecurrentAttrs& attrs, RecurrentSaved& saved, std::span<Array> dy,
                        GradSink sink) {
    const bool both = saved.reverse_weights[kOfState].defined();
    const Sizes size = sizes_of(saved.x, saved.weights[kOfState], both);
    View gradients[3];
    for (std::size_t i = 0; i < dy.size(); ++i) gradients[i] = dy[i].view();
    JointTargets targets(exec, sink);
    const JointTarget &h0 = targets.ask(kH0), &c0 = targets.ask(kC0);
    const JointTarget* weights[2 * kWeightCount];
    for (std::size_t i = 0; i < (both ? 2 : 1) * kWeightCount; ++i)
        weights[i] = &targets.ask(static_cast<int>(kWeights + i));
    // Over dy, where both lie alike, and one direction alone reads it.
    const bool over = !both && saved.x.is_contiguous() && saved.x.shape() == dy[0].shape();
    const JointTarget& x = over ? targets.ask(kX, dy[0]) : targets.ask(kX);
    for (const bool reverse : {false, true}) {
        if (reverse && !both) break;
        const JointTarget* const* own = weights + (reverse ? kWeightCount : 0);
        const Direction direction = direction_of(exec, cell, saved, size, reverse);
        add_gradients(direction, attrs, saved, std::span(gradients, dy.size()),
                      {x, h0, c0, *own[0], *own[1], *own[2], *own[3]});
    }
}

Operations recurrent_operations(const RecurrentAttrs& attrs, std::span<const Shape> inputs) {
    double weights = 0;  // elements
    for (std::size_t first = kWeights; first < inputs.size(); first += kWeightCount) {
        weights += elements_of(inputs[first]) + elements_of(inputs[first + kOfState]);
    }
    const double forward = 2 * static_cast<double>(inputs[kX][0] * inputs[kX][1]) * weights;
    return {forward, (attrs.checkpoint != 0 ? 3 : 2) * forward};
}

std::vector<Sample<RecurrentAttrs>> recurrent_samples(Cell cell) {
    using I = SampleInput;
    const std::int64_t gates = gates_of(cell);
    const bool lstm = cell == Cell::lstm;
    struct Size {
        std::int64_t time, batch, in, width;
    };
    const auto inputs = [=](Size s, int directions, bool states, bool packed) {
        const Shape state{directions, s.batch, s.width};
        std::vector<I> all{I::normal({s.time, s.batch, s.in}), states ? I::normal(state) : I::none(),
                           states && lstm ? I::normal(state) : I::none(),
                           packed ? I::index({s.batch}, s.time) : I::none()};
        for (int d = 0; d < directions; ++d) {
            all.insert(all.end(), {I::normal({gates * s.width, s.in}), I::normal({gates * s.width, s.width}),
                                   I::normal({gates * s.width}), I::normal({gates * s.width})});
        }
        return all;
    };
    const auto with = [](std::vector<I> all, std::size_t i, I input) {
        all[i] = input;
        return all;
    };
    const RecurrentAttrs keeps{}, chunks{.checkpoint = 2}, root{.checkpoint = -1};
    const Size small{3, 2, 3, 2};
    const std::vector<I> plain = inputs(small, 1, false, false);
    const std::string op = name_of(cell);
    std::vector<Sample<RecurrentAttrs>> all{
        {"sequences", keeps, plain},
        {"states, packed", keeps, inputs({3, 3, 2, 2}, 1, true, true)},
        {"both directions, packed", keeps, inputs({3, 2, 2, 2}, 2, true, true)},
        {"checkpoints", root, inputs({5, 2, 2, 3}, 1, true, false)},
        {"checkpoints, both directions, packed", chunks, inputs({5, 2, 1, 2}, 2, true, true)},
        {"no biases", keeps, with(with(plain, kWeights + 2, I::none()), kWeights + 3, I::none())},
        {"one step", keeps, inputs({1, 2, 3, 2}, 1, true, false)},
        {"no sequences", chunks, inputs({3, 0, 2, 2}, 2, true, true)},
        {"no time", keeps, inputs({0, 2, 3, 2}, 1, false, false), "x [0, 2, 3] must be [T, B, I], T at least 1"},
        {"x's rank", keeps, with(plain, kX, I::normal({3, 2})), "x [3, 2] must be [T, B, I]"},
        {"x's width", keeps, with(plain, kX, I::normal({3, 2, 4})), "weight_ih ["},
        {"the state's weights", keeps, with(plain, kWeights + 1, I::normal({8, 3})), "weight_hh [8, 3] must be ["},
        {"a bias", keeps, with(plain, kWeights + 3, I::normal({5})), "bias_hh [5] must be ["},
        {"no weights", keeps, with(plain, kWeights, I::none()), "weight_ih is an undefined tensor"},
        {"h0", keeps, with(plain, kH0, I::normal({2, 2, 2})), "h0 [2, 2, 2] must be [1, 2, 2]"},
        {"lengths", keeps, with(plain, kLast, I::index({3}, 2)), "lengths [3] must be [2]"},
        {"floating lengths", keeps, with(plain, kLast, I::normal({2})), "lengths must be i32 or i64"},
        {"a checkpoint", {.checkpoint = -2}, plain, "checkpoint must be"},
        {"half a direction", keeps, {plain.begin(), plain.end() - 1}, "takes 8 inputs, or 12"},
        {"integers", keeps, with(plain, kX, I::index({3, 2, 3}, 3)), "x must be floating"},
    };
    return all;
}

}  // namespace headroom
