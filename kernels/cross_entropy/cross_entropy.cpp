#include <headroom/kernels/cross_entropy/cross_entropy.hpp>

#include <headroom/kernels/indices.hpp>
#include <headroom/kernels/parallel.hpp>
#include <headroom/kernels/softmax/internal/log_sum_exp.hpp>

namespace headroom::kernels {

namespace {

constexpr std::int64_t kExpCost = 4;
constexpr std::int64_t kMaxParts = 64;

/// The classes' weights as a row, which each thread reads for itself.
class Weights {
  public:
    Weights(const ClassWeights& weights, std::int64_t classes)
        : row_(weights.values), given_(weights.given()), total_(static_cast<double>(classes)), view_(weights.values) {
        if (given_ && weights.total.data) total_ = load_one<double>(weights.total.data, weights.total.dtype);
    }
    bool given() const { return given_; }
    const Rows& row() const { return row_; }
    double total() const { return total_; }
    double operator[](std::int64_t target) const {
        return given_ ? load_one<double>(row_.at(0, target), view_.dtype) : 1.0;
    }

  private:
    Rows row_;
    bool given_;
    double total_;
    View view_;
};

/// The sum of x - shift, each times its weight; without weights they are 1.
template <class T>
double sum_beyond(T shift, const T* x, const T* weights, std::int64_t count) {
    T sum = 0;
    if (weights) {
#pragma omp simd reduction(+ : sum)
        for (std::int64_t i = 0; i < count; ++i) sum += weights[i] * (x[i] - shift);
    } else {
#pragma omp simd reduction(+ : sum)
        for (std::int64_t i = 0; i < count; ++i) sum += x[i] - shift;
    }
    return static_cast<double>(sum);
}

/// The loss of one row.
template <class T>
double row_loss(RowReader<T>& row, std::int64_t classes, const Weights& weights, double own, T target_logit,
                const T* lse, double smoothing) {
    const auto largest = static_cast<double>(lse[0]), logarithm = static_cast<double>(lse[1]);
    const double loss = (1 - smoothing) * own * (largest - static_cast<double>(target_logit) + logarithm);
    if (smoothing == 0) return loss;
    double sum = 0;
    RowReader<T> factors(weights.row(), 0);
    for_each_chunk(classes, [&](std::int64_t begin, std::int64_t count) {
        const T* const w = weights.given() ? factors(begin, count) : nullptr;
        sum += sum_beyond(lse[0], row(begin, count), w, count);
    });
    return loss + smoothing * (weights.total() * logarithm - sum) / static_cast<double>(classes);
}

void add_to_scalar(double value, float beta, const View& scalar) {
    if (beta != 0) value += static_cast<double>(beta) * load_one<double>(scalar.data, scalar.dtype);
    store_one(value, scalar.data, scalar.dtype);
}

/// The numbers of a row's gradient, all times dloss: that of the probabilities, that of the target, and of every class
/// times its weight.
template <class T>
struct RowFactors {
    RowFactors(T dloss, double smoothing, double own_weight, double total, std::int64_t classes)
        : probability(dloss *
                      static_cast<T>((1 - smoothing) * own_weight + smoothing * total / static_cast<double>(classes))),
          own(dloss * static_cast<T>((1 - smoothing) * own_weight)),
          everywhere(dloss * static_cast<T>(smoothing / static_cast<double>(classes))) {}
    T probability, own, everywhere;
};

/// `weights` is null where all classes are alike.
template <class T>
void row_gradient(RowReader<T>& in, RowReader<T>* weights, std::int64_t target, const T* lse,
                  const RowFactors<T>& factors, const Rows& out, float beta, std::int64_t row) {
    T buffer[kChunk];
    const T largest = lse[0], logarithm = lse[1];
    for_each_chunk(out.length(), [&](std::int64_t begin, std::int64_t count) {
        const T* x = in(begin, count);
        T* dx = out.target(row, begin, count, buffer, beta);
        if (weights) {
            const T* w = (*weights)(begin, count);
#pragma omp simd
            for (std::int64_t i = 0; i < count; ++i)
                dx[i] = factors.probability * math::exp(x[i] - largest - logarithm) - factors.everywhere * w[i];
        } else {
#pragma omp simd
            for (std::int64_t i = 0; i < count; ++i)
                dx[i] = factors.probability * math::exp(x[i] - largest - logarithm) - factors.everywhere;
        }
        if (target >= begin && target < begin + count) dx[target - begin] -= factors.own;
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
                                   const ClassWeights& weights, const CrossEntropyOptions& options, const View& loss,
                                   const View& terms, float beta, const View& lse)
    : logits_(logits),
      targets_(targets),
      weights_(weights),
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
    const Weights weights(weights_, rows.length());
    const std::int64_t count = classes.count();
    const std::int64_t parts = std::clamp<std::int64_t>(count / 16, 1, kMaxParts);
    double sums[kMaxParts] = {};
    double counts[kMaxParts] = {};
    dispatch_compute(logits_.dtype, [&]<class T>(TypeTag<T>) {
        parallel_for(stream, parts, kExpCost * logits_.numel(), [&](std::int64_t part) {
            for (std::int64_t i = count * part / parts; i < count * (part + 1) / parts; ++i) {
                RowReader<T> row(rows, i);
                const auto [largest, sum] = sum_exp(row, rows.length());
                T* const lse = lse_.as<T>() + 2 * i;
                lse[0] = largest, lse[1] = math::log(sum);
                const std::int64_t target = classes[i];
                if (target == options_.ignore_index) continue;
                const T logit = load_one<T>(rows.at(i, target), logits_.dtype);
                const double own = weights[target];
                sums[part] += row_loss<T>(row, rows.length(), weights, own, logit, lse, options_.label_smoothing);
                counts[part] += own;
            }
        });
    });
    double total = 0, counted = 0;
    for (std::int64_t part = 0; part < parts; ++part) {
        total += sums[part];
        counted += counts[part];
    }
    add_to_scalar(total, beta_, loss_);
    add_to_scalar(counted, beta_, terms_);
}

void cross_entropy_backward(CpuStream& stream, const View& logits, const View& targets,
                            const ClassWeights& class_weights, const CrossEntropyOptions& options, const View& lse,
                            const View& dloss, const View& dlogits, float beta) {
    const Rows rows(logits), out(dlogits);
    const Weights weights(class_weights, rows.length());
    const bool reads_weights = weights.given() && options.label_smoothing != 0;
    const Indices classes(targets);
    classes.check("cross_entropy: target", rows.length(), options.ignore_index);
    dispatch_compute(logits.dtype, [&]<class T>(TypeTag<T>) {
        const T scale = load_one<T>(dloss.data, dloss.dtype);
        parallel_for(stream, classes.count(), kExpCost * logits.numel(), [&](std::int64_t i) {
            if (classes[i] == options.ignore_index) {
                zero_gradient<T>(out, beta, i);
                return;
            }
            RowReader<T> row(rows, i), factors(weights.row(), 0);
            const RowFactors<T> numbers(scale, options.label_smoothing, weights[classes[i]], weights.total(),
                                        rows.length());
            row_gradient<T>(row, reads_weights ? &factors : nullptr, classes[i], lse.as<T>() + 2 * i, numbers, out,
                            beta, i);
        });
    });
}

}  // namespace headroom::kernels
