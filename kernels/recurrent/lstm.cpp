#include <headroom/kernels/recurrent/lstm.hpp>

#include <headroom/kernels/recurrent/internal/formulas.hpp>
#include <headroom/kernels/recurrent/internal/rows_in_time.hpp>

namespace headroom::kernels {

namespace {

constexpr std::int64_t kStepCost = 48;
constexpr std::int64_t kGradientCost = 24;

}  // namespace

void lstm_step(CpuStream& stream, const LstmStep& step) {
    const Gates<4> gates(step.gates), hidden(step.hidden);
    const Rows before(step.before), cells(step.c), states(step.h), out(step.y);
    const Ends ends(step.last);
    const bool wants_y = step.y.rank() != 0;
    dispatch_compute(step.gates.dtype, [&]<class T>(TypeTag<T>) {
        for_runs(stream, step.h.size(0), step.h.size(1), kStepCost,
                 [&](std::int64_t row, std::int64_t begin, std::int64_t count) {
                     T gate_buffers[4][kRun], hidden_buffers[4][kRun], before_buffer[kRun], c_buffer[kRun], h[kRun];
                     const T* old = before.read(row, begin, count, before_buffer);
                     T* c = cells.target(row, begin, count, c_buffer);
                     if (ends.ended(row, step.time)) {
                         for (std::int64_t j = 0; j < count; ++j) c[j] = old[j], h[j] = T(0);
                         cells.write(c, row, begin, count);
                         if (wants_y) out.write(h, row, begin, count);
                         return;
                     }
                     T* a[4];
                     const T* b[4];
                     gates.open(row, begin, count, gate_buffers, a);
                     hidden.read(row, begin, count, hidden_buffers, b);
                     T *i = a[0], *f = a[1], *g = a[2], *o = a[3];
                     const T *hi = b[0], *hf = b[1], *hg = b[2], *ho = b[3];
#pragma omp simd
                     for (std::int64_t j = 0; j < count; ++j) {
                         const LstmGates<T> now = lstm_gates(i[j] + hi[j], f[j] + hf[j], g[j] + hg[j], o[j] + ho[j]);
                         const T cell = lstm_cell(now, old[j]);
                         i[j] = now.i, f[j] = now.f, g[j] = now.g, o[j] = now.o;
                         c[j] = cell, h[j] = now.o * math::tanh(cell);
                     }
                     gates.close(row, begin, count, a);
                     cells.write(c, row, begin, count);
                     states.write(h, row, begin, count);
                     if (wants_y) out.write(h, row, begin, count);
                 });
    });
}

void lstm_step_gradient(CpuStream& stream, const LstmStepGradient& step) {
    const Gates<4> gates(step.gates);
    const Rows before(step.before), cells(step.c), dy(step.dy), dh(step.dh), dc(step.dc);
    const Ends ends(step.last);
    dispatch_compute(step.gates.dtype, [&]<class T>(TypeTag<T>) {
        for_runs(stream, step.c.size(0), step.c.size(1), kGradientCost,
                 [&](std::int64_t row, std::int64_t begin, std::int64_t count) {
                     T gate_buffers[4][kRun], buffers[5][kRun];
                     T* a[4];
                     gates.open(row, begin, count, gate_buffers, a);
                     T *i = a[0], *f = a[1], *g = a[2], *o = a[3];
                     if (ends.ended(row, step.time)) {
                         for (std::int64_t j = 0; j < count; ++j) i[j] = f[j] = g[j] = o[j] = T(0);
                         return gates.close(row, begin, count, a);
                     }
                     const T* old = before.read(row, begin, count, buffers[0]);
                     const T* c = cells.read(row, begin, count, buffers[1]);
                     const T* out = dy.read(row, begin, count, buffers[2]);
                     dh.read(row, begin, count, buffers[3]);
                     dc.read(row, begin, count, buffers[4]);
                     T* state = dh.target(row, begin, count, buffers[3]);
                     T* cell = dc.target(row, begin, count, buffers[4]);
#pragma omp simd
                     for (std::int64_t j = 0; j < count; ++j) {
                         const LstmGradients<T> now =
                             lstm_gradients(i[j], f[j], g[j], o[j], old[j], c[j], state[j] + out[j], cell[j]);
                         i[j] = now.arguments.i, f[j] = now.arguments.f, g[j] = now.arguments.g, o[j] = now.arguments.o;
                         state[j] = T(0), cell[j] = now.before;
                     }
                     gates.close(row, begin, count, a);
                     dh.write(state, row, begin, count);
                     dc.write(cell, row, begin, count);
                 });
    });
}

}  // namespace headroom::kernels
