#include <headroom/core/ops/internal/recurrent_gradient.hpp>

#include <algorithm>

#include <headroom/core/ops/internal/run_matmul.hpp>
#include <headroom/kernels/recurrent/gru.hpp>
#include <headroom/kernels/recurrent/lstm.hpp>

namespace headroom::recurrent {

namespace {

/// The gradients of one direction, from the last step to the first.
class Gradient {
  public:
    Gradient(const Direction& direction, const ops::RecurrentAttrs& attrs, const ops::RecurrentSaved& saved,
             std::span<const View> dy, const Targets& targets)
        : d_(direction),
          targets_(targets),
          block_(d_.size.block()),
          chunk_(d_.size.chunk(attrs)),
          kept_(saved.gates.defined()),
          y_(d_.own_columns(saved.y.view())),
          dy_(d_.own_columns(dy[0])),
          begins_(d_.own(saved.begins)),
          gates_(d_.exec, {kept_ ? 0 : chunk_, d_.size.batch, d_.kept_gates()}, d_.x.dtype),
          cells_(d_.exec, {kept_ || !lstm() ? 0 : chunk_, d_.size.batch, d_.size.width}, d_.compute()),
          states_(d_.exec, {block_, d_.size.batch, d_.size.width}, d_.x.dtype),
          n_(d_.exec, {lstm() ? 0 : block_, d_.size.batch, d_.size.width}, d_.x.dtype),
          hidden_(d_.exec, n_.view.shape, d_.x.dtype),
          dhidden_(d_.exec, {lstm() ? 0 : d_.size.batch, d_.gates()}, d_.x.dtype),
          dh_(d_.exec, {d_.size.batch, d_.size.width}, d_.compute()),
          dc_(d_.exec, {lstm() ? d_.size.batch : 0, d_.size.width}, d_.compute()),
          product_(direction, d_.weight_hh, {}, true) {
        if (kept_) gates_.view = d_.own(saved.gates), cells_.view = d_.own(saved.cells);
        copy(d_.exec, d_.own(dy[1]), dh_.view);
        if (lstm()) copy(d_.exec, d_.own(dy[2]), dc_.view);
    }

    void operator()() {
        for (std::int64_t chunk = (d_.size.time - 1) / chunk_; chunk >= 0; --chunk) {
            const std::int64_t first = chunk * chunk_, count = std::min(chunk_, d_.size.time - first);
            now_ = {d_.time_of(first, count), count, lstm() ? at(begins_, chunk) : View{}};
            if (!kept_) run_again(first, count);
            for (std::int64_t step = first + (count - 1) / block_ * block_; step >= first; step -= block_)
                block(step, std::min(block_, first + count - step));
        }
        give(targets_.h0, dh_.view);
        if (lstm()) give(targets_.c0, dc_.view);
    }

  private:
    struct Chunk {
        std::int64_t time, count;  ///< the index of its first element, its elements
        View begin;                ///< the cells that it begins with
    };

    bool lstm() const { return d_.cell == Cell::lstm; }

    /// The gates and cells of a chunk, with the bits that they had.
    void run_again(std::int64_t first, std::int64_t count) {
        const Room h(d_.exec, {1, d_.size.batch, d_.size.width}, d_.x.dtype);
        const Room c(d_.exec, {lstm() ? d_.size.batch : 0, d_.size.width}, d_.compute());
        states_before(d_.time_of(first, 1), h.view);
        if (lstm()) copy(d_.exec, now_.begin, c.view);
        const View cells = lstm() ? rows_of(cells_.view, 0, count) : View{};
        Run(d_, {rows_of(gates_.view, 0, count), cells, at(h.view, 0), c.view, {}})(first, count);
    }

    void states_before(std::int64_t time, const View& states) {
        d_.exec.launch([&](auto& stream) { kernels::states_before(stream, y_, d_.h0, d_.passage(), time, states); });
    }

    /// Steps [first, first + count).
    void block(std::int64_t first, std::int64_t count) {
        const std::int64_t time = d_.time_of(first, count);
        const View states = rows_of(states_.view, 0, count), gates = rows_of(gates_.view, time - now_.time, count);
        states_before(time, states);
        const std::int64_t kept = d_.kept_gates();
        if (!lstm()) {
            affine_part(d_.exec, rows_of(d_.x, time, count), d_.weight_ih, d_.bias_ih, kept,
                        rows_of(n_.view, 0, count));
            affine_part(d_.exec, states, d_.weight_hh, d_.bias_hh, kept, rows_of(hidden_.view, 0, count));
        }
        for (std::int64_t i = 0; i < count; ++i) {
            const std::int64_t j = d_.reverse ? i : count - 1 - i;
            step(at(gates, j), j, at(states, j), time + j);
        }
        give_part(time, 0, gates, gates, states);
        if (!lstm()) give_part(time, kept, rows_of(n_.view, 0, count), rows_of(hidden_.view, 0, count), states);
        first_ = false;
    }

    /// What the gradients of gates' arguments, x's parts and the state's, add to those of weights and x: of as many
    /// rows of the weights, from `row` on.
    void give_part(std::int64_t time, std::int64_t row, const View& of_x, const View& of_state, const View& states) {
        const std::int64_t rows = of_x.size(2), count = of_x.size(0);
        const auto next = [&](JointTarget target) {
            if (!target) return target;
            target.view = rows_of(target.view, row, rows);
            if (!first_) target.beta = 1.0f;  // blocks after the first one are added
            return target;
        };
        affine_gradients(d_.exec, of_x, rows_of(d_.x, time, count), next(targets_.weight_ih), next(targets_.bias_ih));
        affine_gradients(d_.exec, of_state, states, next(targets_.weight_hh), next(targets_.bias_hh));
        if (!targets_.x) return;
        run_matmul(d_.exec, {.a = of_x,
                             .b = rows_of(d_.weight_ih, row, rows),
                             .c = rows_of(targets_.x.view, time, count),
                             .beta = d_.reverse || row != 0 ? 1.0f : targets_.x.beta});
    }

    /// `place`: of the step in its block.
    void step(const View& gates, std::int64_t place, const View& state, std::int64_t time) {
        const View dy = at(dy_, time);
        d_.exec.launch([&](auto& stream) {
            if (!lstm()) {
                return kernels::gru_step_gradient(stream, {.gates = gates,
                                                           .n = at(n_.view, place),
                                                           .hidden = at(hidden_.view, place),
                                                           .dhidden = dhidden_.view,
                                                           .before = state,
                                                           .dy = dy,
                                                           .dh = dh_.view,
                                                           .last = d_.last,
                                                           .time = time});
            }
            const std::int64_t own = time - now_.time, before = d_.reverse ? own + 1 : own - 1;
            const bool begins = before < 0 || before >= now_.count;
            kernels::lstm_step_gradient(stream, {.gates = gates,
                                                 .before = begins ? now_.begin : at(cells_.view, before),
                                                 .c = at(cells_.view, own),
                                                 .dy = dy,
                                                 .dh = dh_.view,
                                                 .dc = dc_.view,
                                                 .last = d_.last,
                                                 .time = time});
        });
        product_(lstm() ? gates : dhidden_.view, dh_.view);
    }

    void give(const JointTarget& target, const View& gradient) const {
        if (!target) return;
        d_.exec.launch([&](auto& stream) {
            kernels::accumulate(stream, gradient, at(target.view, d_.reverse ? 1 : 0), 1.0f, target.beta);
        });
    }

    const Direction& d_;
    Targets targets_;
    std::int64_t block_, chunk_;
    bool kept_, first_ = true;
    Chunk now_{};
    View y_, dy_, begins_;
    Room gates_, cells_, states_, n_, hidden_, dhidden_, dh_, dc_;
    StateProduct product_;
};

}  // namespace

void add_gradients(const Direction& direction, const ops::RecurrentAttrs& attrs, const ops::RecurrentSaved& saved,
                   std::span<const View> dy, const Targets& targets) {
    Gradient(direction, attrs, saved, dy, targets)();
}

}  // namespace headroom::recurrent
