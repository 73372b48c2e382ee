#include <headroom/core/ops/internal/recurrent_run.hpp>

#include <algorithm>
#include <bit>
#include <variant>

#include <headroom/core/ops/internal/run_matmul.hpp>
#include <headroom/kernels/matmul/packed.hpp>
#include <headroom/kernels/recurrent/gru.hpp>
#include <headroom/kernels/recurrent/lstm.hpp>
#include <headroom/kernels/round_up.hpp>

namespace headroom::recurrent {

namespace {

std::int64_t root_of(std::int64_t time) {
    std::int64_t n = 1;
    while (n * n < time) ++n;
    return n;
}

/// Libraries add a bias of the product's dtype only; of another one it would be a pass of its own in each step.
bool casts_bias(const Direction& d) { return d.bias_hh.rank() != 0 && d.bias_hh.dtype != d.compute(); }

}  // namespace

std::int64_t Sizes::block() const {
    constexpr std::int64_t rows = 512;
    const std::int64_t sequences = std::max<std::int64_t>(batch, 1);
    const auto up = [](std::int64_t n) { return std::bit_ceil(static_cast<std::uint64_t>(n)); };
    return static_cast<std::int64_t>(std::min(up(kernels::quotient_up(rows, sequences)), up(root_of(time))));
}

std::int64_t Sizes::chunk(const ops::RecurrentAttrs& attrs) const {
    if (attrs.checkpoint == 0) return time;
    const std::int64_t steps = attrs.checkpoint == kSqrtOfTime ? root_of(time) : std::min(attrs.checkpoint, time);
    return std::min(time, kernels::round_up(steps, block()));
}

void affine_part(Exec& exec, const View& a, const View& weight, const View& bias, std::int64_t first, const View& c) {
    const std::int64_t count = c.size(c.rank() - 1);
    const View rows = kernels::transposed(rows_of(weight, first, count));
    run_matmul(exec, {.a = a, .b = rows, .c = c, .bias = bias.rank() != 0 ? rows_of(bias, first, count) : View{}});
}

StateProduct::StateProduct(const Direction& direction, const View& weight, const View& bias, bool accumulate)
    : d_(direction), weight_(weight), bias_(bias), accumulate_(accumulate) {
    constexpr std::int64_t least_steps = 4;
    if (d_.size.time < least_steps) return;
    packed_ = d_.exec.scratch(kernels::packed_bytes(d_.exec.stream(), weight, d_.size.batch));
    if (auto* cpu = std::get_if<CpuStream>(&d_.exec.stream()); cpu && packed_)
        kernels::pack_matrix(*cpu, weight, packed_.data());
}

void StateProduct::operator()(const View& a, const View& c) const {
    if (!packed_) {
        run_matmul(d_.exec, {.a = a, .b = weight_, .c = c, .bias = bias_, .beta = accumulate_ ? 1.0f : 0.0f});
    } else if (auto* cpu = std::get_if<CpuStream>(&d_.exec.stream())) {
        kernels::packed_product(*cpu, a, packed_.data(), c, bias_, accumulate_);
    }
}

Run::Run(const Direction& direction, const Steps& to)
    : d_(direction),
      to_(to),
      n_(direction.exec, {d_.cell == Cell::gru ? d_.size.block() : 0, d_.size.batch, d_.size.width}, d_.x.dtype),
      hidden_(direction.exec, {d_.size.batch, d_.gates()}, d_.compute()),
      bias_(direction.exec, {casts_bias(d_) ? d_.gates() : 0}, d_.compute()),
      product_(direction, kernels::transposed(d_.weight_hh), casts_bias(d_) ? bias_.view : d_.bias_hh, false) {
    if (casts_bias(d_)) copy(d_.exec, d_.bias_hh, bias_.view);
}

void Run::operator()(std::int64_t first, std::int64_t count) const {
    const std::int64_t length = d_.size.block(), begin = d_.time_of(first, count);
    const bool kept = to_.gates.size(0) >= count;
    View before = to_.c;
    for (std::int64_t s = first; s < first + count; s += length) {
        const std::int64_t n = std::min(length, first + count - s), time = d_.time_of(s, n);
        const View x = rows_of(d_.x, time, n), gates = rows_of(to_.gates, kept ? time - begin : 0, n);
        affine_part(d_.exec, x, d_.weight_ih, d_.bias_ih, 0, gates);
        if (d_.cell == Cell::gru)
            affine_part(d_.exec, x, d_.weight_ih, d_.bias_ih, d_.kept_gates(), rows_of(n_.view, 0, n));
        for (std::int64_t i = 0; i < n; ++i) {
            const std::int64_t j = d_.reverse ? n - 1 - i : i;
            const View c = to_.cells.rank() != 0 ? at(to_.cells, time + j - begin) : to_.c;
            step(at(gates, j), d_.cell == Cell::gru ? at(n_.view, j) : View{}, before, c, time + j);
            before = c;
        }
    }
    if (to_.cells.rank() != 0) copy(d_.exec, before, to_.c);
}

void Run::step(const View& gates, const View& n, const View& before, const View& c, std::int64_t time) const {
    const View y = to_.y.rank() != 0 ? at(to_.y, time) : View{};
    product_(to_.h, hidden_.view);
    d_.exec.launch([&](auto& stream) {
        if (d_.cell == Cell::lstm) {
            kernels::lstm_step(stream, {.gates = gates,
                                        .hidden = hidden_.view,
                                        .before = before,
                                        .c = c,
                                        .h = to_.h,
                                        .y = y,
                                        .last = d_.last,
                                        .time = time});
        } else {
            kernels::gru_step(
                stream,
                {.gates = gates, .n = n, .hidden = hidden_.view, .h = to_.h, .y = y, .last = d_.last, .time = time});
        }
    });
}

}  // namespace headroom::recurrent
