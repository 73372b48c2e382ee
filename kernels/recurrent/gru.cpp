#include <headroom/kernels/recurrent/gru.hpp>

#include <headroom/kernels/recurrent/internal/formulas.hpp>
#include <headroom/kernels/recurrent/internal/rows_in_time.hpp>

namespace headroom::kernels {

namespace {

constexpr std::int64_t kStepCost = 32;
constexpr std::int64_t kGradientCost = 24;

}  // namespace

void gru_step(CpuStream& stream, const GruStep& step) {
    const Gates<2> gates(step.gates);
    const Gates<3> hidden(step.hidden);
    const Rows candidates(step.n), states(step.h), out(step.y);
    const Ends ends(step.last);
    const bool wants_y = step.y.rank() != 0;
    dispatch_compute(step.gates.dtype, [&]<class T>(TypeTag<T>) {
        for_runs(stream, step.h.size(0), step.h.size(1), kStepCost,
                 [&](std::int64_t row, std::int64_t begin, std::int64_t count) {
                     T gate_buffers[2][kRun], hidden_buffers[3][kRun], n_buffer[kRun], h_buffer[kRun];
                     if (ends.ended(row, step.time)) {
                         std::fill_n(h_buffer, count, T(0));
                         if (wants_y) out.write(h_buffer, row, begin, count);
                         return;
                     }
                     T* a[2];
                     const T* b[3];
                     gates.open(row, begin, count, gate_buffers, a);
                     const T* n = candidates.read(row, begin, count, n_buffer);
                     hidden.read(row, begin, count, hidden_buffers, b);
                     states.read(row, begin, count, h_buffer);
                     T* h = states.target(row, begin, count, h_buffer);
                     T *r = a[0], *z = a[1];
                     const T *hr = b[0], *hz = b[1], *hn = b[2];
#pragma omp simd
                     for (std::int64_t j = 0; j < count; ++j) {
                         const GruGates<T> now = gru_gates(r[j], z[j], n[j], hr[j], hz[j], hn[j]);
                         r[j] = now.r, z[j] = now.z;
                         h[j] = gru_state(now, h[j]);
                     }
                     gates.close(row, begin, count, a);
                     states.write(h, row, begin, count);
                     if (wants_y) out.write(h, row, begin, count);
                 });
    });
}

void gru_step_gradient(CpuStream& stream, const GruStepGradient& step) {
    const Gates<2> gates(step.gates);
    const Gates<3> dhidden(step.dhidden);
    const Rows of_x(step.n), of_state(step.hidden), before(step.before), dy(step.dy), dh(step.dh);
    const Ends ends(step.last);
    dispatch_compute(step.gates.dtype, [&]<class T>(TypeTag<T>) {
        for_runs(stream, step.dh.size(0), step.dh.size(1), kGradientCost,
                 [&](std::int64_t row, std::int64_t begin, std::int64_t count) {
                     T gate_buffers[2][kRun], parts[3][kRun], buffers[5][kRun];
                     T *a[2], *b[3] = {parts[0], parts[1], parts[2]};
                     gates.open(row, begin, count, gate_buffers, a);
                     of_x.read(row, begin, count, buffers[0]);
                     of_state.read(row, begin, count, buffers[1]);
                     T *r = a[0], *z = a[1], *n = of_x.target(row, begin, count, buffers[0]),
                       *hidden = of_state.target(row, begin, count, buffers[1]);
                     if (ends.ended(row, step.time)) {
                         for (std::int64_t j = 0; j < count; ++j) r[j] = z[j] = n[j] = hidden[j] = T(0);
                         for (T* part : b) std::fill_n(part, count, T(0));
                     } else {
                         const T* old = before.read(row, begin, count, buffers[2]);
                         const T* out = dy.read(row, begin, count, buffers[3]);
                         dh.read(row, begin, count, buffers[4]);
                         T* state = dh.target(row, begin, count, buffers[4]);
                         T *hr = b[0], *hz = b[1], *hn = b[2];
#pragma omp simd
                         for (std::int64_t j = 0; j < count; ++j) {
                             const GruGradients<T> now =
                                 gru_gradients(r[j], z[j], n[j], hidden[j], old[j], state[j] + out[j]);
                             r[j] = hr[j] = now.arguments.r, z[j] = hz[j] = now.arguments.z, n[j] = now.arguments.n;
                             hidden[j] = hn[j] = now.hidden, state[j] = now.before;
                         }
                         dh.write(state, row, begin, count);
                     }
                     gates.close(row, begin, count, a);
                     of_x.write(n, row, begin, count);
                     of_state.write(hidden, row, begin, count);
                     dhidden.close(row, begin, count, b);
                 });
    });
}

}  // namespace headroom::kernels
