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
};

struct Smoothing {
    double amount;
    std::int64_t classes;
};

// One pass: a thread keeps the sum of exponentials of what it has seen, relative to the largest. The target's logit is
// read again, from the cache.
template <class Way>
struct CrossEntropy {
    static constexpr unsigned kMaxThreads = kMostWarps * kWarp;
    using C = typename Way::Compute;
    using Row = typename Way::Row;

    HEADROOM_DEVICE void operator()(Block& block, typename Way::Rows logits, Targets targets, Smoothing smoothing,
                                    C* lse, double* losses, std::int64_t rows, unsigned warps) const {
        Team<C> team(block, warps);
        for (std::int64_t base = team.first_row(); base < rows; base += team.row_step()) {
            const std::int64_t row = base + team.index();
            const Row in = logits.row(row, row < rows);
            C total = 0;
            const OnlineSum<C> part = read(block, in, team, smoothing.amount != 0, total);
            const C largest = team.largest(part.largest);
            const Pair<C> sums = team.sums(part.sum_for(largest), total);
            if (row >= rows || team.thread() != 0) continue;
            lse[row] = largest + std::log(sums.first);
            losses[row] = loss(block, in, targets, row, static_cast<double>(lse[row]), smoothing,
                               static_cast<double>(sums.second));
        }
    }

    HEADROOM_DEVICE static OnlineSum<C> read(Block& block, const Row& in, const Team<C>& team, bool sums, C& total) {
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
#pragma unroll
                for (int k = 0; k < Way::kWidth; ++k) total += in.holds(v + i * step, k) ? batch[i][k] : C{0};
            }
        }
        return result;
    }

    HEADROOM_DEVICE static double loss(Block& block, const Row& in, const Targets& targets, std::int64_t row,
                                       double lse, const Smoothing& smoothing, double total) {
        std::int64_t target = targets[row];
        if (target == targets.ignore_index) return 0;
        target = targets.check(block, target, row);
        const double value = lse - (1 - smoothing.amount) * static_cast<double>(in.at(target));
        if (smoothing.amount == 0) return value;
        return value - smoothing.amount * total / static_cast<double>(smoothing.classes);
    }
};

// One block, so that the order depends on the number of rows alone.
struct TotalLoss {
    static constexpr unsigned kMaxThreads = kLossWarps * kWarp;

    HEADROOM_DEVICE void operator()(Block& block, const double* losses, Targets targets, std::int64_t rows, void* loss,
                                    Dtype dtype, double* terms, float beta) const {
        double sum = 0, count = 0;
        for (std::int64_t i = block.thread(); i < rows; i += block.threads()) {
            sum += losses[i];
            count += targets[i] == targets.ignore_index ? 0 : 1;
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
    C lse, scale, everywhere, own;  // everywhere: e / C; own: dloss (1 - e)
    std::int64_t target;            // -1: the row is ignored
};

template <class Way>
struct CrossEntropyGradient {
    static constexpr unsigned kMaxThreads = kMostWarps * kWarp;
    using C = typename Way::Compute;
    using Vectors = Items<C, Way::kWidth>;

    HEADROOM_DEVICE void operator()(Block& block, typename Way::Rows logits, typename Way::Target dlogits,
                                    Targets targets, Smoothing smoothing, const C* lse, const void* dloss,
                                    Dtype dloss_dtype, float beta, std::int64_t rows, unsigned warps) const {
        const unsigned teams = block.warps() / warps, index = block.warp() / warps;
        const unsigned thread = block.thread() % (warps * kWarp);
        const C scale = load_as<C>(dloss, dloss_dtype, 0), amount = static_cast<C>(smoothing.amount);
        const C everywhere = amount / static_cast<C>(smoothing.classes);
        const std::int64_t step = std::int64_t{block.grid_x()} * teams;
        for (std::int64_t row = std::int64_t{block.x()} * teams + index; row < rows; row += step) {
            RowGradient<C> gradient{lse[row], scale, everywhere, scale * (1 - amount), -1};
            const std::int64_t target = targets[row];
            if (target != targets.ignore_index) gradient.target = check(block, targets, target, row, thread == 0);
            write(block, logits.row(row, true), dlogits.row(row, true), gradient, beta, thread, warps * kWarp);
        }
    }

    // One thread reports a wrong target, and all take class 0.
    HEADROOM_DEVICE static std::int64_t check(Block& block, const Targets& targets, std::int64_t target,
                                              std::int64_t row, bool reports) {
        if (target >= 0 && target < targets.check.bound) return target;
        return reports ? targets.check(block, target, row) : 0;
    }

    HEADROOM_DEVICE static void write(Block& block, const typename Way::Row& in, const typename Way::TargetRow& out,
                                      const RowGradient<C>& gradient, float beta, unsigned thread, unsigned threads) {
        const auto first = in.index(thread), step = in.index(threads), count = in.vectors();
        for (auto v = first; v < count; v += kBatch * step) {
            Vectors batch[kBatch] = {};
#pragma unroll
            for (int i = 0; i < kBatch; ++i)
                if (v + i * step < count && gradient.target >= 0) batch[i] = in.load(block, v + i * step, C{0});
#pragma unroll
            for (int i = 0; i < kBatch; ++i)
                if (v + i * step < count)
                    out.store(block, v + i * step, beta, change(in, v + i * step, batch[i], gradient));
        }
    }

    HEADROOM_DEVICE static Vectors change(const typename Way::Row& in, typename Way::Index v, Vectors x,
                                          const RowGradient<C>& gradient) {
        const bool ignored = gradient.target < 0;
        const std::int64_t own = in.place(v, gradient.target);
#pragma unroll
        for (int k = 0; k < Way::kWidth; ++k)
            x[k] = ignored ? C{0} : gradient.scale * (std::exp(x[k] - gradient.lse) - gradient.everywhere);
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
                   Targets(stream, targets_, options_, classes), Smoothing{options_.label_smoothing, classes},
                   lse_.as<C>(), losses, rows, warps);
        });
    }
    const LaunchShape shape{.threads = TotalLoss::kMaxThreads, .shared_bytes = 2 * shared_size<double>(kLossWarps)};
    launch(stream, shape, TotalLoss{}, static_cast<const double*>(losses), Targets(stream, targets_, options_, classes),
           empty ? 0 : rows, loss_.data, loss_.dtype, terms_.as<double>(), beta_);
}

void cross_entropy_backward(CudaStream& stream, const View& logits, const View& targets,
                            const CrossEntropyOptions& options, const View& lse, const View& dloss, const View& dlogits,
                            float beta) {
    if (logits.numel() == 0) return;
    const std::int64_t rows = targets.numel(), classes = logits.rank() == 0 ? 1 : logits.size(logits.rank() - 1);
    dispatch_way(logits.dtype, is_wide_target(logits, dlogits), [&]<class Way>(Way) {
        using C = typename Way::Compute;
        const unsigned warps = team_warps(vectors_of<Way>(classes), kBatch, kMostWarps);
        launch(stream, team_launch<C>(rows, warps), CrossEntropyGradient<Way>{}, typename Way::Rows(logits),
               typename Way::Target(dlogits), Targets(stream, targets, options, classes),
               Smoothing{options.label_smoothing, classes}, static_cast<const C*>(lse.as<C>()),
               static_cast<const void*>(dloss.data), dloss.dtype, beta, rows, warps);
    });
}

}  // namespace headroom::kernels
