#include <headroom/kernels/channel_norm/channel_norm.hpp>

#include <headroom/kernels/channel_norm/internal/column_arrays.cuh>
#include <headroom/kernels/channel_norm/internal/column_norm.cuh>
#include <headroom/kernels/channel_norm/internal/moments.hpp>

namespace headroom::kernels {

namespace {

using namespace device;

// A thread keeps the moments of its columns in registers.
template <class C, int W>
struct ColumnMoments {
    static constexpr unsigned kMaxThreads = ColumnTile::kThreads;

    HEADROOM_DEVICE void operator()(Block& block, const ColumnArrays<1>& x, const ColumnGrid& grid,
                                    Moments<C>* parts) const {
        const ColumnThread at(block, grid, W);
        const Offsets<1> base = x.columns(at.exists ? at.column : 0);
        Moments<C> own[W];
        C count = 0;
        for (std::int64_t i = at.first; i < at.end; i += at.step) {
            const Items<C, W> items = x.template load<C, W>(block, 0, x.elements(base, i));
            count += 1;
            const C share = 1 / count;
#pragma unroll
            for (int k = 0; k < W; ++k) own[k].add(items[k], share);
        }
#pragma unroll
        for (int k = 0; k < W; ++k) own[k].count = count;
        join_depths(block, at, grid, own);
        if (at.depth != 0 || !at.exists) return;
#pragma unroll
        for (int k = 0; k < W; ++k) parts[block.y() * grid.columns + at.column + k] = own[k];
    }
};

// The second step: a warp for what shares statistics, over its parts in an order that their number fixes.
template <class C>
struct JoinMoments {
    static constexpr unsigned kMaxThreads = ColumnTile::kThreads;

    HEADROOM_DEVICE void operator()(Block& block, const Moments<C>* parts, ColumnSets sets, C* mean,
                                    C* variance) const {
        const std::int64_t set = std::int64_t{block.x()} * block.warps() + block.warp();
        Moments<C> joint;
        const std::int64_t count = set < sets.sets ? sets.parts * sets.group : 0;
        for (std::int64_t i = block.lane(); i < count; i += kWarp)
            joint.join(parts[i / sets.group * sets.columns + set * sets.group + i % sets.group]);
        for (unsigned step = 1; step < kWarp; step *= 2) {
            joint.join({block.shuffle_xor(kFullWarp, joint.count, step), block.shuffle_xor(kFullWarp, joint.mean, step),
                        block.shuffle_xor(kFullWarp, joint.squares, step)});
        }
        if (block.lane() != 0 || set >= sets.sets) return;
        mean[set] = joint.mean;
        variance[set] = joint.squares / joint.count;
    }
};

// Arrays: x, y, residual.
template <class C, int W>
struct Normalize {
    static constexpr unsigned kMaxThreads = ColumnTile::kThreads;

    HEADROOM_DEVICE void operator()(Block& block, const ColumnArrays<3>& arrays, const ColumnGrid& grid,
                                    const NormArrays& norm, bool adds) const {
        const ColumnThread at(block, grid, W);
        if (!at.exists) return;
        const ColumnNorm<C, W> of(norm, at.column);
        const Offsets<3> base = arrays.columns(at.column);
        for (std::int64_t i = at.first; i < at.end; i += at.step) {
            const Offsets<3> offsets = arrays.elements(base, i);
            Items<C, W> values = of.apply(arrays.template load<C, W>(block, 0, offsets));
            if (adds) {
                const Items<C, W> other = arrays.template load<C, W>(block, 2, offsets);
#pragma unroll
                for (int k = 0; k < W; ++k) values[k] += other[k];
            }
            if (norm.relu) {
#pragma unroll
                for (int k = 0; k < W; ++k) values[k] = values[k] < C{0} ? C{0} : values[k];
            }
            arrays.template store<C, W>(block, 1, offsets, 0.0f, values);
        }
    }
};

}  // namespace

void ChannelMomentsPlan::run(CudaStream& stream, std::byte* scratch) const {
    if (x_.numel() == 0) return;
    const Columns& columns = parts_.columns;
    dispatch_compute(x_.dtype, [&]<class C>(TypeTag<C>) {
        auto* const parts = reinterpret_cast<Moments<C>*>(scratch);
        launch_columns<C, ColumnMoments, Moments<C>>(stream, parts_.tile, columns, parts_.parts,
                                                     ColumnArrays<1>(columns, {&x_}), parts);
        launch(stream, warps_for(columns.sets()), JoinMoments<C>{}, parts, ColumnSets(parts_), mean_.as<C>(),
               variance_.as<C>());
    });
}

void channel_norm(CudaStream& stream, const View& x, const ChannelNorm& norm, const View* residual, const View& y) {
    if (x.numel() == 0) return;
    const Columns columns(x, norm.mean);
    const ColumnParts parts(stream, x, columns);
    const bool adds = residual != nullptr;
    dispatch_compute(x.dtype, [&]<class C>(TypeTag<C>) {
        launch_columns<C, Normalize, void>(stream, parts.tile, columns, shares_of(parts),
                                           ColumnArrays<3>(columns, {&x, &y, adds ? residual : &x}),
                                           NormArrays(norm, columns), adds);
    });
}

}  // namespace headroom::kernels
