#include <headroom/kernels/layer_norm/internal/normalize.hpp>

#include <headroom/kernels/device/launch.hpp>
#include <headroom/kernels/device/row_access.hpp>
#include <headroom/kernels/device/team.hpp>
#include <headroom/kernels/internal/mean_rounding.hpp>
#include <headroom/kernels/internal/rstd.hpp>

namespace headroom::kernels {

namespace {

using namespace device;

template <class Way>
struct Parameters {
    typename Way::Weights gamma, beta;
    typename Way::Compute epsilon;
    std::int64_t length;
};

template <class C>
struct Statistics {
    C* mean;  // null: 0
    C* rstd;
};

// A thread keeps its first vectors in registers; what a row has beyond them is read three times.
template <class Way>
struct Normalize {
    static constexpr unsigned kMaxThreads = kRowThreads;
    using C = typename Way::Compute;
    using Row = typename Way::Row;
    using Vectors = Items<C, Way::kWidth>;

    HEADROOM_DEVICE void operator()(Block& block, typename Way::Rows x, typename Way::Target y,
                                    Parameters<Way> parameters, Statistics<C> statistics, std::int64_t rows,
                                    unsigned warps) const {
        Team<C> team(block, warps);
        for (std::int64_t base = team.first_row(); base < rows; base += team.row_step()) {
            const std::int64_t row = base + team.index();
            const bool exists = row < rows, centred = statistics.mean != nullptr;
            const Pair<C> moments = normalize(block, team, x.row(row, exists), y.row(row, exists), parameters, centred);
            if (!exists || team.thread() != 0) continue;
            if (centred) statistics.mean[row] = moments.first;
            statistics.rstd[row] = moments.second;
        }
    }

    HEADROOM_DEVICE static Pair<C> normalize(Block& block, Team<C>& team, const Row& in,
                                             const typename Way::TargetRow& out, const Parameters<Way>& parameters,
                                             bool centred) {
        const auto first = in.index(team.thread()), step = in.index(team.threads()), count = in.vectors();
        Vectors kept[Way::kKept];
        C sum = 0;
#pragma unroll
        for (int i = 0; i < Way::kKept; ++i) {
            if (first + i * step >= count) continue;
            kept[i] = in.load(block, first + i * step, C{0});
            sum += total(kept[i]);
        }
        const auto rest = first + Way::kKept * step;
        const C length = static_cast<C>(parameters.length);
        C mean = 0;
        if (centred) {
            for (auto v = rest; v < count; v += step) sum += total(in.load(block, v, C{0}));
            mean = team.sum(sum) / length;
        }
        const auto over_row = [&](auto&& term) {
            C all = 0;
#pragma unroll
            for (int i = 0; i < Way::kKept; ++i)
                if (first + i * step < count) all += terms(in, first + i * step, kept[i], term);
            for (auto v = rest; v < count; v += step) all += terms(in, v, in.load(block, v, C{0}), term);
            return team.sum(all);
        };
        [[maybe_unused]] const auto deviation = [&](C x) { return x - mean; };
        const auto square = [&](C x) { return (x - mean) * (x - mean); };
        C squares = over_row(square);
        if constexpr (Way::kWidth <= 4) {  // not eights of halves: up to 8,192 equal ones are summed without rounding
            if (centred && is_rounding(squares, length, mean)) {
                mean += over_row(deviation) / length;
                squares = over_row(square);
            }
        }
        const C rstd = rstd_of(squares / length + parameters.epsilon);
#pragma unroll
        for (int i = 0; i < Way::kKept; ++i)
            if (first + i * step < count) finish(block, out, first + i * step, kept[i], mean, rstd, parameters);
        for (auto v = rest; v < count; v += step)
            finish(block, out, v, in.load(block, v, C{0}), mean, rstd, parameters);
        return {mean, rstd};
    }

    HEADROOM_DEVICE static C total(const Vectors& x) {
        C sum = 0;
#pragma unroll
        for (int k = 0; k < Way::kWidth; ++k) sum += x[k];
        return sum;
    }
    template <class Term>
    HEADROOM_DEVICE static C terms(const Row& in, typename Way::Index v, const Vectors& x, Term&& term) {
        C sum = 0;
        if (in.whole(v)) {
#pragma unroll
            for (int k = 0; k < Way::kWidth; ++k) sum += term(x[k]);
        } else {
#pragma unroll
            for (int k = 0; k < Way::kWidth; ++k) sum += in.holds(v, k) ? term(x[k]) : C{0};
        }
        return sum;
    }
    HEADROOM_DEVICE static void finish(Block& block, const typename Way::TargetRow& out, typename Way::Index v,
                                       Vectors x, C mean, C rstd, const Parameters<Way>& parameters) {
        const Vectors gamma = parameters.gamma.load(block, v, C{1}), beta = parameters.beta.load(block, v, C{0});
#pragma unroll
        for (int k = 0; k < Way::kWidth; ++k) x[k] = (x[k] - mean) * rstd * gamma[k] + beta[k];
        out.store(block, v, 0.0f, x);
    }
};

}  // namespace

void normalize(CudaStream& stream, const View& x, const View* gamma, const View* beta, double epsilon, const View& y,
               const View* mean, const View& rstd) {
    if (x.numel() == 0) return;
    const std::int64_t length = x.rank() == 0 ? 1 : x.size(x.rank() - 1), rows = x.numel() / length;
    const bool wide =
        has_aligned_rows(x) && is_wide_target(x, y) && is_wide_weight(x, gamma) && is_wide_weight(x, beta);
    dispatch_way(x.dtype, wide, [&]<class Way>(Way) {
        using C = typename Way::Compute;
        const unsigned warps = team_warps(vectors_of<Way>(length), Way::kKept, kRowWarps);
        const Parameters<Way> parameters{{gamma, length}, {beta, length}, static_cast<C>(epsilon), length};
        launch(stream, team_launch<C>(rows, warps), Normalize<Way>{}, typename Way::Rows(x), typename Way::Target(y),
               parameters, Statistics<C>{mean ? mean->as<C>() : nullptr, rstd.as<C>()}, rows, warps);
    });
}

}  // namespace headroom::kernels
