#include <headroom/kernels/device/launch.hpp>
#include <headroom/kernels/device/row_access.hpp>
#include <headroom/kernels/device/team.hpp>
#include <headroom/kernels/layer_norm/internal/normalize.hpp>

namespace headroom::kernels {

namespace {

using namespace device;

constexpr unsigned kColumnWarps = 8;  // of a block that sums 32 columns in the general way
constexpr unsigned kSumWarps = 16;    // of a block that adds up the chunks of 32 columns

template <class C>
struct Statistics {
    const C* mean;  // null: 0
    const C* rstd;
    HEADROOM_DEVICE C mean_of(std::int64_t row) const { return mean == nullptr ? C{0} : mean[row]; }
};

/// Sums of dy * h and, `columns` further on, of dy: for each chunk of rows.
template <class C>
struct ChunkSums {
    C* data;  // null: not wanted
    std::int64_t columns, count, parts;
    HEADROOM_DEVICE C* part(std::int64_t i) const { return data + i * count * columns; }
    HEADROOM_DEVICE std::int64_t first_row(std::int64_t i, std::int64_t rows) const { return rows * i / parts; }
};

// A block goes through a chunk of rows, a team taking every teams-th one; a thread has the same columns in all of them
// and sums their parameters' gradients in registers. x and dy are read once, as they lie in memory, and stay in
// registers until their row's sums are known.
template <class T>
struct NormGradient {
    static constexpr unsigned kMaxThreads = 512;
    using Way = Wide<T>;
    static constexpr int kWidth = Way::kWidth, kKept = Way::kKeptOfTwo;
    using Vectors = Floats<kWidth>;

    HEADROOM_DEVICE void operator()(Block& block, typename Way::Rows x, typename Way::Others dy,
                                    typename Way::Target dx, float beta, bool wants_dx, typename Way::Weights weights,
                                    std::int64_t rows, std::int64_t length, Statistics<float> statistics,
                                    ChunkSums<float> sums, unsigned warps) const {
        Team<float> team(block, warps);
        const int first = static_cast<int>(team.thread()), step = static_cast<int>(team.threads());
        Vectors gamma[kKept], dgamma[kKept] = {}, dbeta[kKept] = {};
#pragma unroll
        for (int i = 0; i < kKept; ++i) gamma[i] = weights.load(block, first + i * step, 1.0f);
        const std::int64_t end = sums.first_row(block.x() + 1, rows);
        for (std::int64_t base = sums.first_row(block.x(), rows); base < end; base += team.count()) {
            const std::int64_t row = base + team.index();
            const bool exists = row < end;
            const auto in = x.row(row, exists);
            const auto upstream = dy.row(row, exists);
            const float mean = exists ? statistics.mean_of(row) : 0.0f, rstd = exists ? statistics.rstd[row] : 0.0f;
            typename Way::Packed values[kKept] = {}, gradients[kKept] = {};
#pragma unroll
            for (int i = 0; i < kKept; ++i) {
                if (first + i * step >= in.vectors()) continue;
                values[i] = in.packed(block, first + i * step);
                gradients[i] = upstream.packed(block, first + i * step);
            }
            float sum = 0, product = 0;
#pragma unroll
            for (int i = 0; i < kKept; ++i) {
                const Vectors v = Way::unpacked(values[i]), d = Way::unpacked(gradients[i]);
#pragma unroll
                for (int k = 0; k < kWidth; ++k) {
                    const float h = (v[k] - mean) * rstd, g = d[k] * gamma[i][k];
                    sum += g;
                    product += g * h;
                    dgamma[i][k] += d[k] * h;
                    dbeta[i][k] += d[k];
                }
            }
            if (!wants_dx) continue;
            const Pair<float> total = team.sums(sum, product);
            const float mean_product = total.second / static_cast<float>(length);
            const float mean_gradient = statistics.mean == nullptr ? 0.0f : total.first / static_cast<float>(length);
            const auto out = dx.row(row, exists);
#pragma unroll
            for (int i = 0; i < kKept; ++i) {
                if (first + i * step >= in.vectors()) continue;
                Vectors v = Way::unpacked(values[i]);
                const Vectors d = Way::unpacked(gradients[i]);
#pragma unroll
                for (int k = 0; k < kWidth; ++k) {
                    const float h = (v[k] - mean) * rstd;
                    v[k] = rstd * (d[k] * gamma[i][k] - mean_gradient - h * mean_product);
                }
                out.store(block, first + i * step, beta, v);
            }
        }
        if (sums.data != nullptr) write(block, team, sums, dgamma, dbeta);
    }

    // The teams' sums are added up in shared memory.
    HEADROOM_DEVICE static void write(Block& block, const Team<float>& team, const ChunkSums<float>& sums,
                                      const Vectors (&dgamma)[kKept], const Vectors (&dbeta)[kKept]) {
        const int first = static_cast<int>(team.thread()), step = static_cast<int>(team.threads());
        const int span = step * kKept * kWidth, teams = static_cast<int>(team.count());
        const int columns = static_cast<int>(sums.columns), count = static_cast<int>(sums.count);
        const Shared<float> shared = block.shared<float>(static_cast<std::size_t>(count) * teams * span);
        const int base = static_cast<int>(team.index()) * count * span;
#pragma unroll
        for (int i = 0; i < kKept; ++i) {
#pragma unroll
            for (int k = 0; k < kWidth; k += 4) {
                const int at = base + (first + i * step) * kWidth + k;
                const Vectors &a = dgamma[i], &b = dbeta[i];
                block.store(shared, at, Vector<float, 4>{a[k], a[k + 1], a[k + 2], a[k + 3]});
                if (count == 2) block.store(shared, at + span, Vector<float, 4>{b[k], b[k + 1], b[k + 2], b[k + 3]});
            }
        }
        block.sync();
        float* part = sums.part(block.x());
        for (int which = 0; which < count; ++which) {
            for (int i = static_cast<int>(block.thread()); i < columns; i += static_cast<int>(block.threads())) {
                float sum = 0;
                for (int t = 0; t < teams; ++t) sum += shared[(t * count + which) * span + i];
                part[which * columns + i] = sum;
            }
        }
    }
};

// Any dtypes, strides and lengths, from memory each time: first the columns' sums, since dx may be dy's memory.
template <class C>
struct ColumnSums {
    static constexpr unsigned kMaxThreads = kWarp * kColumnWarps;
    using Way = General<C>;

    HEADROOM_DEVICE void operator()(Block& block, typename Way::Rows x, typename Way::Rows dy, std::int64_t rows,
                                    std::int64_t length, Statistics<C> statistics, ChunkSums<C> sums) const {
        const std::int64_t column = std::int64_t{block.x()} * kWarp + block.lane(),
                           end = sums.first_row(block.y() + 1, rows);
        C dgamma = 0, dbeta = 0;
        for (std::int64_t row = sums.first_row(block.y(), rows) + block.warp(); row < end; row += kColumnWarps) {
            if (column >= length) break;
            const C d = dy.row(row, true).at(column);
            dgamma += d * ((x.row(row, true).at(column) - statistics.mean_of(row)) * statistics.rstd[row]);
            dbeta += d;
        }
        const Shared<C> shared = block.shared<C>(2 * kMaxThreads);
        shared[block.thread()] = dgamma;
        shared[kMaxThreads + block.thread()] = dbeta;
        block.sync();
        if (block.warp() >= sums.count || column >= length) return;
        C sum = 0;
        for (unsigned i = 0; i < kColumnWarps; ++i)
            sum += shared[block.warp() * kMaxThreads + i * kWarp + block.lane()];
        sums.part(block.y())[block.warp() * sums.columns + column] = sum;
    }
};

template <class C>
struct GeneralGradient {
    static constexpr unsigned kMaxThreads = 512;
    using Way = General<C>;

    HEADROOM_DEVICE void operator()(Block& block, typename Way::Rows x, typename Way::Rows dy, typename Way::Target dx,
                                    float beta, typename Way::Weights gamma, std::int64_t rows, std::int64_t length,
                                    Statistics<C> statistics, unsigned warps) const {
        Team<C> team(block, warps);
        for (std::int64_t base = team.first_row(); base < rows; base += team.row_step()) {
            const std::int64_t row = base + team.index();
            const bool exists = row < rows;
            const auto in = x.row(row, exists), upstream = dy.row(row, exists), out = dx.row(row, exists);
            const C mean = exists ? statistics.mean_of(row) : C{0}, rstd = exists ? statistics.rstd[row] : C{0};
            C sum = 0, product = 0;
            for (std::int64_t i = team.thread(); i < in.vectors(); i += team.threads()) {
                const C g = upstream.at(i) * gamma.load(block, i, C{1})[0];
                sum += g;
                product += g * ((in.at(i) - mean) * rstd);
            }
            const Pair<C> total = team.sums(sum, product);
            const C mean_product = total.second / static_cast<C>(length);
            const C mean_gradient = statistics.mean == nullptr ? C{0} : total.first / static_cast<C>(length);
            for (std::int64_t i = team.thread(); i < in.vectors(); i += team.threads()) {
                const C g = upstream.at(i) * gamma.load(block, i, C{1})[0], h = (in.at(i) - mean) * rstd;
                out.store(block, i, beta, {rstd * (g - mean_gradient - h * mean_product)});
            }
        }
    }
};

/// A parameter's gradient in memory.
struct Parameter {
    void* data = nullptr;
    Dtype dtype = Dtype::f32;
    std::int64_t stride = 0;
    float beta = 0;
};

// The second step: 32 columns for a block, over the chunks in an order that their number fixes.
template <class C>
struct AddChunks {
    static constexpr unsigned kMaxThreads = kWarp * kSumWarps;

    HEADROOM_DEVICE void operator()(Block& block, ChunkSums<C> sums, std::int64_t length, Parameter first,
                                    Parameter second) const {
        const Parameter to = block.y() == 0 ? first : second;
        if (to.data == nullptr) return;
        const std::int64_t column = std::int64_t{block.x()} * kWarp + block.lane();
        C sum = 0;
        for (std::int64_t i = block.warp(); i < sums.parts && column < length; i += kSumWarps)
            sum += sums.part(i)[block.y() * sums.columns + column];
        const Shared<C> shared = block.shared<C>(kMaxThreads);
        shared[block.thread()] = sum;
        block.sync();
        if (block.warp() != 0 || column >= length) return;
        for (unsigned i = 1; i < kSumWarps; ++i) sum += shared[i * kWarp + block.lane()];
        accumulate_as<C>(to.data, to.dtype, column * to.stride, to.beta, sum);
    }
};

Parameter parameter(const GradientTarget& target) {
    if (!target) return {};
    return {target.view->data, target.view->dtype, target.view->stride(0), target.beta};
}

/// Shared memory of a block of `NormGradient`, which keeps the sums of its columns there. The longest rows that fit
/// registers take somewhat more than compute capability 7.5 has.
std::size_t wide_shared_bytes(const NormChunks& chunks, int sums) {
    const unsigned warps = chunks.warps * chunks.teams;
    return shared_size<float>(team_scratch(warps)) +
           shared_size<float>(static_cast<std::size_t>(sums) * warps * kWarp * 16);
}

template <class T>
void start_wide(CudaStream& stream, const View& x, const View& dy, const View* gamma, std::int64_t rows,
                std::int64_t length, GradientTarget dx, const NormChunks& chunks, const Statistics<float>& statistics,
                const ChunkSums<float>& sums) {
    using Way = Wide<T>;
    const LaunchShape shape{
        .x = static_cast<std::uint32_t>(chunks.parts),
        .threads = kWarp * chunks.warps * chunks.teams,
        .shared_bytes = wide_shared_bytes(chunks, sums.data == nullptr ? 0 : static_cast<int>(sums.count))};
    launch(stream, shape, NormGradient<T>{}, typename Way::Rows(x), typename Way::Others(dy),
           typename Way::Target(dx.view ? *dx.view : x), dx.beta, dx.view != nullptr,
           typename Way::Weights(gamma, length), rows, length, statistics, sums, chunks.warps);
}

template <class C>
void start_general(CudaStream& stream, const View& x, const View& dy, const View* gamma, std::int64_t rows,
                   std::int64_t length, GradientTarget dx, const Statistics<C>& statistics, const ChunkSums<C>& sums) {
    using Way = General<C>;
    if (sums.data != nullptr) {
        const LaunchShape shape{.x = blocks_for(length, kWarp),
                                .y = static_cast<std::uint32_t>(sums.parts),
                                .threads = ColumnSums<C>::kMaxThreads,
                                .shared_bytes = shared_size<C>(2 * ColumnSums<C>::kMaxThreads)};
        launch(stream, shape, ColumnSums<C>{}, typename Way::Rows(x), typename Way::Rows(dy), rows, length, statistics,
               sums);
    }
    if (!dx) return;
    const unsigned warps = team_warps(length, 8, 16);
    launch(stream, team_launch<C>(rows, warps), GeneralGradient<C>{}, typename Way::Rows(x), typename Way::Rows(dy),
           typename Way::Target(*dx.view), dx.beta, typename Way::Weights(gamma, length), rows, length, statistics,
           warps);
}

}  // namespace

void normalize_backward(CudaStream& stream, const NormChunks& chunks, const View& x, const View& dy, const View* gamma,
                        const View* mean, const View& rstd, GradientTarget dx, GradientTarget dgamma,
                        GradientTarget dbeta, std::byte* scratch) {
    const std::int64_t length = x.rank() == 0 ? 1 : x.size(x.rank() - 1);
    if (length == 0) return;
    const std::int64_t rows = x.numel() / length;
    const bool wants_sums = dgamma || dbeta;
    const int sums_of_columns = wants_sums ? (mean ? 2 : 1) : 0;
    const bool wide = chunks.fits &&
                      wide_shared_bytes(chunks, sums_of_columns) <= stream.device->properties().shared_bytes &&
                      has_aligned_rows(x) && is_wide_source(x, dy) && is_wide_weight(x, gamma) &&
                      (!dx || is_wide_target(x, *dx.view));
    dispatch_way(x.dtype, wide, [&]<class Way>(Way) {
        using C = typename Way::Compute;
        const Statistics<C> statistics{mean ? mean->as<C>() : nullptr, rstd.as<C>()};
        const ChunkSums<C> sums{wants_sums ? reinterpret_cast<C*>(scratch) : nullptr, chunks.columns, mean ? 2 : 1,
                                chunks.parts};
        if constexpr (Way::kWidth > 1) {
            using T = std::remove_cvref_t<decltype(typename Way::Packed{}[0])>;
            start_wide<T>(stream, x, dy, gamma, rows, length, dx, chunks, statistics, sums);
        } else {
            start_general<C>(stream, x, dy, gamma, rows, length, dx, statistics, sums);
        }
        if (!wants_sums) return;
        const LaunchShape shape{.x = blocks_for(length, kWarp),
                                .y = static_cast<std::uint32_t>(sums.count),
                                .threads = AddChunks<C>::kMaxThreads,
                                .shared_bytes = shared_size<C>(AddChunks<C>::kMaxThreads)};
        launch(stream, shape, AddChunks<C>{}, sums, length, parameter(dgamma), parameter(dbeta));
    });
}

}  // namespace headroom::kernels
