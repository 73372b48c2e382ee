#include <headroom/kernels/recurrent/gru.hpp>

#include <headroom/kernels/recurrent/internal/formulas.hpp>
#include <headroom/kernels/recurrent/internal/rows_in_time.hpp>

namespace headroom::kernels {

namespace {

constexpr std::int64_t kStepCost = 32;
constexpr std::int64_t kGradientCost = 16;

}  // namespace

void gru_step(CpuStream& stream, const GruStep& step) {
    const Gates<3> gates(step.gates), hidden(step.hidden);
    const Rows states(step.h), out(step.y);
    const Ends ends(step.last);
    const bool wants_y = step.y.rank() != 0;
    dispatch_compute(step.gates.dtype, [&]<class T>(TypeTag<T>) {
        for_runs(stream, step.h.size(0), step.h.size(1), kStepCost,
                 [&](std::int64_t row, std::int64_t begin, std::int64_t count) {
                     T gate_buffers[3][kRun], hidden_buffers[3][kRun], h_buffer[kRun];
                     if (ends.ended(row, step.time)) {
                         std::fill_n(h_buffer, count, T(0));
                         if (wants_y) out.write(h_buffer, row, begin, count);
                         return;
                     }
                     T* a[3];
                     const T* b[3];
                     gates.open(row, begin, count, gate_buffers, a);
                     hidden.read(row, begin, count, hidden_buffers, b);
                     states.read(row, begin, count, h_buffer);
                     T* h = states.target(row, begin, count, h_buffer);
                     T *r = a[0], *z = a[1], *n = a[2];
                     const T *hr = b[0], *hz = b[1], *hn = b[2];
#pragma omp simd
                     for (std::int64_t j = 0; j < count; ++j) {
                         const GruGates<T> now = gru_gates(r[j], z[j], n[j], hr[j], hz[j], hn[j]);
                         r[j] = now.r, z[j] = now.z, n[j] = now.n;
                         h[j] = gru_state(now, h[j]);
                     }
                     gates.close(row, begin, count, a);
                     states.write(h, row, begin, count);
                     if (wants_y) out.write(h, row, begin, count);
                 });
    });
}

void gru_step_gradient(CpuStream& stream, const GruStepGradient& step) {
    const Gates<3> gates(step.gates), hidden(step.hidden);
    const Rows kept(part_of(step.hidden, 2, 3)), before(step.before), dy(step.dy), dh(step.dh);
    const Ends ends(step.last);
    dispatch_compute(step.gates.dtype, [&]<class T>(TypeTag<T>) {
        for_runs(stream, step.dh.size(0), step.dh.size(1), kGradientCost,
                 [&](std::int64_t row, std::int64_t begin, std::int64_t count) {
                     T gate_buffers[3][kRun], parts[3][kRun], buffers[4][kRun];
                     T *a[3], *b[3] = {parts[0], parts[1], parts[2]};
                     gates.open(row, begin, count, gate_buffers, a);
                     T *r = a[0], *z = a[1], *n = a[2], *hr = b[0], *hz = b[1], *hn = b[2];
                     if (ends.ended(row, step.time)) {
                         for (std::int64_t j = 0; j < count; ++j) r[j] = z[j] = n[j] = hr[j] = hz[j] = hn[j] = T(0);
                         gates.close(row, begin, count, a);
                         return hidden.close(row, begin, count, b);
                     }
                     const T* old = before.read(row, begin, count, buffers[0]);
                     const T* out = dy.read(row, begin, count, buffers[1]);
                     const T* part = kept.read(row, begin, count, buffers[3]);
                     dh.read(row, begin, count, buffers[2]);
                     T* state = dh.target(row, begin, count, buffers[2]);
#pragma omp simd
                     for (std::int64_t j = 0; j < count; ++j) {
                         const GruGradients<T> now =
                             gru_gradients(r[j], z[j], n[j], part[j], old[j], state[j] + out[j]);
                         r[j] = hr[j] = now.arguments.r, z[j] = hz[j] = now.arguments.z, n[j] = now.arguments.n;
                         hn[j] = now.hidden, state[j] = now.before;
                     }
                     gates.close(row, begin, count, a);
                     hidden.close(row, begin, count, b);
                     dh.write(state, row, begin, count);
                 });
    });
}

}  // namespace headroom::kernels
