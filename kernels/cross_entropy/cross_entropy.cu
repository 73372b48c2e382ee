#include <headroom/kernels/cross_entropy/cross_entropy.hpp>

#include <headroom/kernels/device/index_check.hpp>
#include <headroom/kernels/device/launch.hpp>
#include <headroom/kernels/device/row_access.hpp>
#include <headroom/kernels/device/team.hpp>
#include <headroom/kernels/softmax/internal/online.hpp>

namespace headroom::kernels {

namespace {

using namespace device;

constexpr unsigned kMostWarps = 8;   // for one row
constexpr unsigned kLossWarps = 32;  // of the block that sums the losses
constexpr int kBatch = 4;            // vectors that a thread loads before it uses them

// Class indices as kernels read them.
struct Targets {
    Strided<1> indices;
    IndexCheck check;
    std::int64_t ignore_index;

    Targets(const CudaStream& stream, const View& view, const CrossEntropyOptions& options, std::int64_t classes)
        : indices({&view}, Walk::Order::shape),
          check(index_check(stream, "cross_entropy: target", classes)),
          ignore_index(options.ignore_index) {}
    HEADROOM_DEVICE std::int64_t operator[](std::int64_t row) const {
        return indices.template load<std::int64_t>(0, indices.offsets(row));
    }
    // A wrong target counts as class 0.
    HEADROOM_DEVICE std::int64_t class_of(std::int64_t target) const {
        return target >= 0 && target < check.bound ? target : 0;
    }
};

struct Smoothing {
    double amount;
    std::int64_t classes;
};

// The classes' weights as kernels read them; without data they are 1.
class Weights {
  public:
    Weights(const ClassWeights& weights, std::int64_t classes)
        : classes_(static_cast<double>(classes)), values_(weights.values.data), total_(weights.total.data) {
        if (!weights.given()) return;
        given_ = true, dtype_ = weights.values.dtype, stride_ = weights.values.stride(0);
        total_dtype_ = weights.total.dtype;
    }
    HEADROOM_DEVICE bool given() const { return given_; }
    template <class C>
    HEADROOM_DEVICE C at(std::int64_t i) const {
        return given_ ? load_as<C>(values_, dtype_, i * stride_) : C{1};
    }
    HEADROOM_DEVICE double total() const { return given_ ? load_as<double>(total_, total_dtype_, 0) : classes_; }

  private:
    double classes_;
    const void *values_, *total_;
    bool given_ = false;
    Dtype dtype_ = Dtype::f32, total_dtype_ = Dtype::f32;
    std::int64_t stride_ = 0;
};

// One pass: a thread keeps the sum of exponentials of what it has seen, relative to the largest. The target's logit is
// read again, from the cache.
template <class Way>
struct CrossEntropy {
    static constexpr unsigned kMaxThreads = kMostWarps * kWarp;
    using C = typename Way::Compute;
    using Row = typename Way::Row;

    HEADROOM_DEVICE void operator()(Block& block, typename Way::Rows logits, Targets targets, Weights weights,
                                    Smoothing smoothing, C* lse, double* losses, std::int64_t rows,
                                    unsigned warps) const {
        Team<C> team(block, warps);
        for (std::int64_t base = team.first_row(); base < rows; base += team.row_step()) {
            const std::int64_t row = base + team.index();
            const Row in = logits.row(row, row < rows);
            C total = 0;
            const C shift = smoothing.amount == 0 ? C{0} : shift_of(in);
            const OnlineSum<C> part = read(block, in, team, weights, smoothing.amount != 0, shift, total);
            const C largest = team.largest(part.largest);
            const Pair<C> sums = team.sums(part.sum_for(largest), total);
            if (row >= rows || team.thread() != 0) continue;
            const C logarithm = std::log(sums.first);
            lse[2 * row] = largest, lse[2 * row + 1] = logarithm;
            losses[row] =
                loss(block, in, targets, weights, row, static_cast<double>(largest), static_cast<double>(logarithm),
                     smoothing, static_cast<double>(shift), static_cast<double>(sums.second));
        }
    }

    // What the sum of all logits is relative to, so that it keeps its digits where they share an offset.
    HEADROOM_DEVICE static C shift_of(const Row& in) {
        const C first = in.at(0);
        return first - first == C{0} ? first : C{0};  // 0 for what is not finite
    }

    HEADROOM_DEVICE static OnlineSum<C> read(Block& block, const Row& in, const Team<C>& team, const Weights& weights,
                                             bool sums, C shift, C& total) {
        const auto first = in.index(team.thread()), step = in.index(team.threads()), count = in.vectors();
        OnlineSum<C> result;
        for (auto v = first; v < count; v += kBatch * step) {
            Items<C, Way::kWidth> batch[kBatch];
#pragma unroll
            for (int i = 0; i < kBatch; ++i) {
                if (v + i * step < count) {
                    batch[i] = in.load(block, v + i * step, OnlineSum<C>::kNothing);
                } else {
#pragma unroll
                    for (int k = 0; k < Way::kWidth; ++k) batch[i][k] = OnlineSum<C>::kNothing;
                }
            }
            result.add(batch);
            if (!sums) continue;
#pragma unroll
            for (int i = 0; i < kBatch; ++i) {
                if (v + i * step >= count) continue;
                const std::int64_t first = -in.place(v + i * step, 0);
#pragma unroll
                for (int k = 0; k < Way::kWidth; ++k)
                    if (in.holds(v + i * step, k)) total += weights.at<C>(first + k) * (batch[i][k] - shift);
            }
        }
        return result;
    }

    HEADROOM_DEVICE static double loss(Block& block, const Row& in, const Targets& targets, const Weights& weights,
                                       std::int64_t row, double largest, double logarithm, const Smoothing& smoothing,
                                       double shift, double total) {
        std::int64_t target = targets[row];
        if (target == targets.ignore_index) return 0;
        target = targets.check(block, target, row);
        const double own = (1 - smoothing.amount) * weights.at<double>(target);
        const double value = own * (largest - static_cast<double>(in.at(target)) + logarithm);
        if (smoothing.amount == 0) return value;
        const double all = weights.total() * (largest - shift + logarithm);
        return value + smoothing.amount * (all - total) / static_cast<double>(smoothing.classes);
    }
};

// One block, so that the order depends on the number of rows alone.
struct TotalLoss {
    static constexpr unsigned kMaxThreads = kLossWarps * kWarp;

    HEADROOM_DEVICE void operator()(Block& block, const double* losses, Targets targets, Weights weights,
                                    std::int64_t rows, void* loss, Dtype dtype, double* terms, float beta) const {
        double sum = 0, count = 0;
        for (std::int64_t i = block.thread(); i < rows; i += block.threads()) {
            sum += losses[i];
            const std::int64_t target = targets[i];
            if (target != targets.ignore_index) count += weights.at<double>(targets.class_of(target));
        }
        sum = block.sum(sum, block.shared<double>(block.warps()));
        count = block.sum(count, block.shared<double>(block.warps()));
        if (block.thread() != 0) return;
        accumulate_as<double>(loss, dtype, 0, beta, sum);
        accumulate_as<double>(terms, Dtype::f64, 0, beta, count);
    }
};

template <class C>
struct RowGradient {
    C largest, logarithm;            // of the sum of exponentials, relative to the largest
    C probability, everywhere, own;  // factors of the probabilities, of the weights and of the target
    std::int64_t target;             // -1: the row is ignored
};

template <class Way>
struct CrossEntropyGradient {
    static constexpr unsigned kMaxThreads = kMostWarps * kWarp;
    using C = typename Way::Compute;
    using Vectors = Items<C, Way::kWidth>;

    HEADROOM_DEVICE void operator()(Block& block, typename Way::Rows logits, typename Way::Target dlogits,
                                    Targets targets, Weights weights, Smoothing smoothing, const C* lse,
                                    const void* dloss, Dtype dloss_dtype, float beta, std::int64_t rows,
                                    unsigned warps) const {
        const unsigned teams = block.warps() / warps, index = block.warp() / warps;
        const unsigned thread = block.thread() % (warps * kWarp);
        const C scale = load_as<C>(dloss, dloss_dtype, 0), amount = static_cast<C>(smoothing.amount);
        const C everywhere = scale * amount / static_cast<C>(smoothing.classes);
        const C even = smoothing.amount == 0 ? C{0} : everywhere * static_cast<C>(weights.total());
        const std::int64_t step = std::int64_t{block.grid_x()} * teams;
        for (std::int64_t row = std::int64_t{block.x()} * teams + index; row < rows; row += step) {
            RowGradient<C> gradient{lse[2 * row], lse[2 * row + 1], 0, everywhere, 0, -1};
            const std::int64_t target = targets[row];
            if (target != targets.ignore_index) {
                gradient.target = check(block, targets, target, row, thread == 0);
                gradient.own = scale * (1 - amount) * weights.at<C>(gradient.target);
                gradient.probability = gradient.own + even;
            }
            write(block, logits.row(row, true), dlogits.row(row, true), weights, gradient, beta, thread, warps * kWarp);
        }
    }

    // One thread reports a wrong target, and all take class 0.
    HEADROOM_DEVICE static std::int64_t check(Block& block, const Targets& targets, std::int64_t target,
                                              std::int64_t row, bool reports) {
        return reports ? targets.check(block, target, row) : targets.class_of(target);
    }

    HEADROOM_DEVICE static void write(Block& block, const typename Way::Row& in, const typename Way::TargetRow& out,
                                      const Weights& weights, const RowGradient<C>& gradient, float beta,
                                      unsigned thread, unsigned threads) {
        const auto first = in.index(thread), step = in.index(threads), count = in.vectors();
        for (auto v = first; v < count; v += kBatch * step) {
            Vectors batch[kBatch] = {};
#pragma unroll
            for (int i = 0; i < kBatch; ++i)
                if (v + i * step < count && gradient.target >= 0) batch[i] = in.load(block, v + i * step, C{0});
#pragma unroll
            for (int i = 0; i < kBatch; ++i)
                if (v + i * step < count)
                    out.store(block, v + i * step, beta, change(in, v + i * step, batch[i], weights, gradient));
        }
    }

    HEADROOM_DEVICE static Vectors change(const typename Way::Row& in, typename Way::Index v, Vectors x,
                                          const Weights& weights, const RowGradient<C>& gradient) {
        const bool ignored = gradient.target < 0, weighted = weights.given() && gradient.everywhere != 0;
        const std::int64_t own = in.place(v, gradient.target), first = -in.place(v, 0);
#pragma unroll
        for (int k = 0; k < Way::kWidth; ++k) {
            const C weight = weighted && in.holds(v, k) ? weights.at<C>(first + k) : C{1};
            const C power = std::exp(x[k] - gradient.largest - gradient.logarithm);
            x[k] = ignored ? C{0} : gradient.probability * power - gradient.everywhere * weight;
        }
        if (ignored || own < 0 || own >= Way::kWidth) return x;
#pragma unroll
        for (int k = 0; k < Way::kWidth; ++k) x[k] -= k == own ? gradient.own : C{0};
        return x;
    }
};

}  // namespace

void CrossEntropyPlan::run(CudaStream& stream, std::byte* scratch) const {
    const std::int64_t rows = targets_.numel(), classes = logits_.rank() == 0 ? 1 : logits_.size(logits_.rank() - 1);
    double* losses = reinterpret_cast<double*>(scratch);
    const bool empty = logits_.numel() == 0;
    if (!empty) {
        dispatch_way(logits_.dtype, has_wide_rows(logits_), [&]<class Way>(Way) {
            using C = typename Way::Compute;
            const unsigned warps = team_warps(vectors_of<Way>(classes), kBatch, kMostWarps);
            launch(stream, team_launch<C>(rows, warps), CrossEntropy<Way>{}, typename Way::Rows(logits_),
                   Targets(stream, targets_, options_, classes), Weights(weights_, classes),
                   Smoothing{options_.label_smoothing, classes}, lse_.as<C>(), losses, rows, warps);
        });
    }
    const LaunchShape shape{.threads = TotalLoss::kMaxThreads, .shared_bytes = 2 * shared_size<double>(kLossWarps)};
    launch(stream, shape, TotalLoss{}, static_cast<const double*>(losses), Targets(stream, targets_, options_, classes),
           Weights(weights_, classes), empty ? 0 : rows, loss_.data, loss_.dtype, terms_.as<double>(), beta_);
}

void cross_entropy_backward(CudaStream& stream, const View& logits, const View& targets, const ClassWeights& weights,
                            const CrossEntropyOptions& options, const View& lse, const View& dloss, const View& dlogits,
                            float beta) {
    if (logits.numel() == 0) return;
    const std::int64_t rows = targets.numel(), classes = logits.rank() == 0 ? 1 : logits.size(logits.rank() - 1);
    dispatch_way(logits.dtype, is_wide_target(logits, dlogits), [&]<class Way>(Way) {
        using C = typename Way::Compute;
        const unsigned warps = team_warps(vectors_of<Way>(classes), kBatch, kMostWarps);
        launch(stream, team_launch<C>(rows, warps), CrossEntropyGradient<Way>{}, typename Way::Rows(logits),
               typename Way::Target(dlogits), Targets(stream, targets, options, classes), Weights(weights, classes),
               Smoothing{options.label_smoothing, classes}, static_cast<const C*>(lse.as<C>()),
               static_cast<const void*>(dloss.data), dloss.dtype, beta, rows, warps);
    });
}

}  // namespace headroom::kernels
