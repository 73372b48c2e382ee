#include <headroom/kernels/softmax/softmax.hpp>

#include <headroom/kernels/device/launch.hpp>
#include <headroom/kernels/device/row_access.hpp>
#include <headroom/kernels/device/team.hpp>
#include <headroom/kernels/softmax/internal/online.hpp>

namespace headroom::kernels {

namespace {

using namespace device;

// A thread keeps its first vectors in registers, where its exponentials replace the elements; what a row has beyond
// them is read twice, the sum being rescaled on the way. Softmax and its logarithm differ by one multiplication: not
// worth a second kernel.
template <class Way>
struct Softmax {
    static constexpr unsigned kMaxThreads = kRowThreads;
    using C = typename Way::Compute;

    HEADROOM_DEVICE void operator()(Block& block, typename Way::Rows x, typename Way::Target y, std::int64_t rows,
                                    bool logarithm, unsigned warps) const {
        Team<C> team(block, warps);
        for (std::int64_t base = team.first_row(); base < rows; base += team.row_step()) {
            const std::int64_t row = base + team.index();
            normalize(block, team, x.row(row, row < rows), y.row(row, row < rows), logarithm);
        }
    }

    HEADROOM_DEVICE static void normalize(Block& block, Team<C>& team, const typename Way::Row& in,
                                          const typename Way::TargetRow& out, bool logarithm) {
        constexpr C nothing = -std::numeric_limits<C>::infinity();
        const auto first = in.index(team.thread()), step = in.index(team.threads()), count = in.vectors();
        Items<C, Way::kWidth> kept[Way::kKept];
        C largest = nothing;
#pragma unroll
        for (int i = 0; i < Way::kKept; ++i) {
            if (first + i * step >= count) continue;
            kept[i] = in.load(block, first + i * step, nothing);
#pragma unroll
            for (int k = 0; k < Way::kWidth; ++k) largest = std::fmax(largest, kept[i][k]);
        }
        OnlineSum<C> rest;
        for (auto v = first + Way::kKept * step; v < count; v += step) rest.add(in.load(block, v, nothing));
        largest = team.largest(std::fmax(largest, rest.largest));
        C sum = rest.sum_for(largest);
#pragma unroll
        for (int i = 0; i < Way::kKept; ++i) {
            if (first + i * step >= count) continue;
#pragma unroll
            for (int k = 0; k < Way::kWidth; ++k) {
                const C shifted = kept[i][k] - largest, power = std::exp(shifted);
                sum += power;
                kept[i][k] = logarithm ? shifted : power;
            }
        }
        sum = team.sum(sum);
        const C factor = logarithm ? C{1} : C{1} / sum, shift = logarithm ? std::log(sum) : C{0};
#pragma unroll
        for (int i = 0; i < Way::kKept; ++i) {
            if (first + i * step >= count) continue;
#pragma unroll
            for (int k = 0; k < Way::kWidth; ++k) kept[i][k] = kept[i][k] * factor - shift;
            out.store(block, first + i * step, 0.0f, kept[i]);
        }
        for (auto v = first + Way::kKept * step; v < count; v += step) {
            auto values = in.load(block, v, nothing);
#pragma unroll
            for (int k = 0; k < Way::kWidth; ++k) {
                const C shifted = values[k] - largest;
                values[k] = (logarithm ? shifted : std::exp(shifted)) * factor - shift;
            }
            out.store(block, v, 0.0f, values);
        }
    }
};

template <class Way>
struct SoftmaxGradient {
    static constexpr unsigned kMaxThreads = kRowThreads;
    static constexpr int kKept = Way::kKeptOfTwo;
    using C = typename Way::Compute;

    HEADROOM_DEVICE void operator()(Block& block, typename Way::Rows y, typename Way::Rows dy, typename Way::Target dx,
                                    std::int64_t rows, bool logarithm, float beta, unsigned warps) const {
        Team<C> team(block, warps);
        for (std::int64_t base = team.first_row(); base < rows; base += team.row_step()) {
            const std::int64_t row = base + team.index();
            const bool exists = row < rows;
            gradient(block, team, y.row(row, exists), dy.row(row, exists), dx.row(row, exists), logarithm, beta);
        }
    }

    HEADROOM_DEVICE static void gradient(Block& block, Team<C>& team, const typename Way::Row& in,
                                         const typename Way::Row& upstream, const typename Way::TargetRow& out,
                                         bool logarithm, float beta) {
        const auto first = in.index(team.thread()), step = in.index(team.threads()), count = in.vectors();
        typename Way::Packed y[kKept], dy[kKept];
#pragma unroll
        for (int i = 0; i < kKept; ++i) {
            if (first + i * step >= count) continue;
            y[i] = in.packed(block, first + i * step);
            dy[i] = upstream.packed(block, first + i * step);
        }
        C sum = 0;
#pragma unroll
        for (int i = 0; i < kKept; ++i)
            if (first + i * step < count) sum += dot(y[i], dy[i], logarithm);
        for (auto v = first + kKept * step; v < count; v += step)
            sum += dot(in.packed(block, v), upstream.packed(block, v), logarithm);
        sum = team.sum(sum);
#pragma unroll
        for (int i = 0; i < kKept; ++i)
            if (first + i * step < count) out.store(block, first + i * step, beta, change(y[i], dy[i], sum, logarithm));
        for (auto v = first + kKept * step; v < count; v += step)
            out.store(block, v, beta, change(in.packed(block, v), upstream.packed(block, v), sum, logarithm));
    }

    HEADROOM_DEVICE static C dot(const typename Way::Packed& y, const typename Way::Packed& dy, bool logarithm) {
        const auto value = Way::unpacked(y), gradient = Way::unpacked(dy);
        C sum = 0;
#pragma unroll
        for (int k = 0; k < Way::kWidth; ++k) sum += logarithm ? gradient[k] : value[k] * gradient[k];
        return sum;
    }
    HEADROOM_DEVICE static Items<C, Way::kWidth> change(const typename Way::Packed& y, const typename Way::Packed& dy,
                                                        C sum, bool logarithm) {
        auto value = Way::unpacked(y);
        const auto gradient = Way::unpacked(dy);
#pragma unroll
        for (int k = 0; k < Way::kWidth; ++k) {
            value[k] = logarithm ? gradient[k] - std::exp(value[k]) * sum : value[k] * (gradient[k] - sum);
        }
        return value;
    }
};

void start(CudaStream& stream, const View& x, const View& y, bool logarithm) {
    if (x.numel() == 0) return;
    const std::int64_t length = x.rank() == 0 ? 1 : x.size(x.rank() - 1), rows = x.numel() / length;
    dispatch_way(x.dtype, is_wide_target(x, y) && has_wide_rows(x), [&]<class Way>(Way) {
        const unsigned warps = team_warps(vectors_of<Way>(length), Way::kKept, kRowWarps);
        launch(stream, team_launch<typename Way::Compute>(rows, warps), Softmax<Way>{}, typename Way::Rows(x),
               typename Way::Target(y), rows, logarithm, warps);
    });
}

void start_gradient(CudaStream& stream, const View& y, const View& dy, const View& dx, bool logarithm, float beta) {
    if (dx.numel() == 0) return;
    const std::int64_t length = y.rank() == 0 ? 1 : y.size(y.rank() - 1), rows = y.numel() / length;
    dispatch_way(y.dtype, same_cuts(y, dy) && is_wide_target(y, dx), [&]<class Way>(Way) {
        const unsigned warps = team_warps(vectors_of<Way>(length), Way::kKeptOfTwo, kRowWarps);
        launch(stream, team_launch<typename Way::Compute>(rows, warps), SoftmaxGradient<Way>{}, typename Way::Rows(y),
               typename Way::Rows(dy), typename Way::Target(dx), rows, logarithm, beta, warps);
    });
}

}  // namespace

void softmax(CudaStream& stream, const View& x, const View& y) { start(stream, x, y, false); }

void softmax_backward(CudaStream& stream, const View& y, const View& dy, const View& dx, float beta) {
    start_gradient(stream, y, dy, dx, false, beta);
}

void log_softmax(CudaStream& stream, const View& x, const View& y) { start(stream, x, y, true); }

void log_softmax_backward(CudaStream& stream, const View& y, const View& dy, const View& dx, float beta) {
    start_gradient(stream, y, dy, dx, true, beta);
}

}  // namespace headroom::kernels
