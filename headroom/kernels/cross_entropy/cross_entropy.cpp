#include <headroom/kernels/cross_entropy/cross_entropy.hpp>

#include <headroom/kernels/indices.hpp>
#include <headroom/kernels/parallel.hpp>
#include <headroom/kernels/softmax/internal/log_sum_exp.hpp>

namespace headroom::kernels {

namespace {

constexpr std::int64_t kExpCost = 4;
constexpr std::int64_t kMaxParts = 64;

/// The loss of one row.
template <class T>
double row_loss(RowReader<T>& row, std::int64_t classes, T target_logit, T lse, double smoothing) {
    const double loss = static_cast<double>(lse) - (1 - smoothing) * static_cast<double>(target_logit);
    if (smoothing == 0) return loss;
    double sum = 0;
    for_each_chunk(classes, [&](std::int64_t begin, std::int64_t count) {
        sum += static_cast<double>(combine_run<Sum>(row(begin, count), count));
    });
    return loss - smoothing * sum / static_cast<double>(classes);
}

void add_to_scalar(double value, float beta, const View& scalar) {
    if (beta != 0) value += static_cast<double>(beta) * load_one<double>(scalar.data, scalar.dtype);
    store_one(value, scalar.data, scalar.dtype);
}

template <class T>
void row_gradient(RowReader<T>& in, std::int64_t target, T lse, T scale, T smoothing, const Rows& out, float beta,
                  std::int64_t row) {
    T buffer[kChunk];
    const T everywhere = smoothing / static_cast<T>(out.length());
    for_each_chunk(out.length(), [&](std::int64_t begin, std::int64_t count) {
        const T* x = in(begin, count);
        T* dx = out.target(row, begin, count, buffer, beta);
#pragma omp simd
        for (std::int64_t i = 0; i < count; ++i) dx[i] = scale * (math::exp(x[i] - lse) - everywhere);
        if (target >= begin && target < begin + count) dx[target - begin] -= scale * (1 - smoothing);
        out.write(dx, row, begin, count, beta);
    });
}

template <class T>
void zero_gradient(const Rows& out, float beta, std::int64_t row) {
    T buffer[kChunk];
    for_each_chunk(out.length(), [&](std::int64_t begin, std::int64_t count) {
        T* dx = out.target(row, begin, count, buffer, beta);
        std::fill_n(dx, count, T{0});
        out.write(dx, row, begin, count, beta);
    });
}

}  // namespace

CrossEntropyPlan::CrossEntropyPlan(const Stream& stream, const View& logits, const View& targets,
                                   const CrossEntropyOptions& options, const View& loss, const View& terms, float beta,
                                   const View& lse)
    : logits_(logits),
      targets_(targets),
      options_(options),
      loss_(loss),
      terms_(terms),
      beta_(beta),
      lse_(lse),
      scratch_(on_cuda(stream) ? static_cast<std::size_t>(targets.numel()) * sizeof(double) : 0) {}

void CrossEntropyPlan::run(CpuStream& stream, std::byte*) const {
    const Rows rows(logits_);
    const Indices classes(targets_);
    classes.check("cross_entropy: target", rows.length(), options_.ignore_index);
    const std::int64_t count = classes.count();
    const std::int64_t parts = std::clamp<std::int64_t>(count / 16, 1, kMaxParts);
    double sums[kMaxParts] = {};
    std::int64_t counts[kMaxParts] = {};
    dispatch_compute(logits_.dtype, [&]<class T>(TypeTag<T>) {
        parallel_for(stream, parts, kExpCost * logits_.numel(), [&](std::int64_t part) {
            for (std::int64_t i = count * part / parts; i < count * (part + 1) / parts; ++i) {
                RowReader<T> row(rows, i);
                const auto [largest, sum] = sum_exp(row, rows.length());
                lse_.as<T>()[i] = largest + math::log(sum);
                const std::int64_t target = classes[i];
                if (target == options_.ignore_index) continue;
                const T logit = load_one<T>(rows.at(i, target), logits_.dtype);
                sums[part] += row_loss(row, rows.length(), logit, lse_.as<T>()[i], options_.label_smoothing);
                ++counts[part];
            }
        });
    });
    double total = 0;
    std::int64_t counted = 0;
    for (std::int64_t part = 0; part < parts; ++part) {
        total += sums[part];
        counted += counts[part];
    }
    add_to_scalar(total, beta_, loss_);
    add_to_scalar(static_cast<double>(counted), beta_, terms_);
}

void cross_entropy_backward(CpuStream& stream, const View& logits, const View& targets,
                            const CrossEntropyOptions& options, const View& lse, const View& dloss, const View& dlogits,
                            float beta) {
    const Rows rows(logits), out(dlogits);
    const Indices classes(targets);
    classes.check("cross_entropy: target", rows.length(), options.ignore_index);
    dispatch_compute(logits.dtype, [&]<class T>(TypeTag<T>) {
        const T scale = load_one<T>(dloss.data, dloss.dtype);
        parallel_for(stream, classes.count(), kExpCost * logits.numel(), [&](std::int64_t i) {
            if (classes[i] == options.ignore_index) {
                zero_gradient<T>(out, beta, i);
                return;
            }
            RowReader<T> row(rows, i);
            row_gradient(row, classes[i], lse.as<T>()[i], scale, static_cast<T>(options.label_smoothing), out, beta, i);
        });
    });
}

}  // namespace headroom::kernels
