#include <headroom/kernels/channel_norm/channel_norm.hpp>
#include <headroom/kernels/channel_norm/internal/column_arrays.cuh>
#include <headroom/kernels/channel_norm/internal/column_norm.cuh>

namespace headroom::kernels {

namespace {

using namespace device;

/// Sums of g and of g * h, or their means.
template <class C>
struct GradientSums {
    C bias = 0, weight = 0;

    HEADROOM_DEVICE void join(const GradientSums& other) {
        bias += other.bias;
        weight += other.weight;
    }
};

/// What is there, and where the mask comes from. Arrays are x, dy, y and others.
struct GradientInputs {
    bool x, y, constant;
};

/// With relu dy where the result is above 0; else dy.
template <class C, int W, int K>
HEADROOM_DEVICE Items<C, W> masked(Block& block, const ColumnArrays<K>& arrays, const Offsets<K>& at,
                                   const GradientInputs& in, bool relu, const ColumnNorm<C, W>& norm,
                                   const Items<C, W>& x) {
    Items<C, W> g = arrays.template load<C, W>(block, 1, at);
    if (!relu) return g;
    const Items<C, W> y = in.y ? arrays.template load<C, W>(block, 2, at) : norm.apply(x);
#pragma unroll
    for (int k = 0; k < W; ++k) g[k] = y[k] > C{0} ? g[k] : C{0};
    return g;
}

template <class C, int W>
struct AddGradients {
    static constexpr unsigned kMaxThreads = ColumnTile::kThreads;

    HEADROOM_DEVICE void operator()(Block& block, const ColumnArrays<3>& arrays, const ColumnGrid& grid,
                                    const NormArrays& norm, const GradientInputs& in, GradientSums<C>* parts) const {
        const ColumnThread at(block, grid, W);
        const std::int64_t column = at.exists ? at.column : 0;
        const ColumnNorm<C, W> of(norm, column);
        const Offsets<3> base = arrays.columns(column);
        GradientSums<C> own[W];
        for (std::int64_t i = at.first; i < at.end; i += at.step) {
            const Offsets<3> offsets = arrays.elements(base, i);
            Items<C, W> x = of.mean;
            if (in.x) x = arrays.template load<C, W>(block, 0, offsets);
            const Items<C, W> g = masked<C, W>(block, arrays, offsets, in, norm.relu, of, x);
#pragma unroll
            for (int k = 0; k < W; ++k) own[k].join({g[k], g[k] * ((x[k] - of.mean[k]) * of.rstd[k])});
        }
        join_depths(block, at, grid, own);
        if (at.depth != 0 || !at.exists) return;
#pragma unroll
        for (int k = 0; k < W; ++k) parts[block.y() * grid.columns + at.column + k] = own[k];
    }
};

/// A vector's gradient in memory.
struct NormTarget {
    explicit NormTarget(const GradientTarget& to) : beta(to.beta) {
        if (!to) return;
        data = to.view->data;
        dtype = to.view->dtype;
        stride = to.view->stride(0);
    }
    template <class C>
    HEADROOM_DEVICE void put(std::int64_t i, C value) const {
        if (data != nullptr) accumulate_as<C>(data, dtype, i * stride, beta, value);
    }

    void* data = nullptr;
    Dtype dtype = Dtype::f32;
    std::int64_t stride = 0;
    float beta;
};

// The second step: a warp for the means of what shares statistics, then one for the parameters of each channel.
template <class C>
struct JoinGradients {
    static constexpr unsigned kMaxThreads = ColumnTile::kThreads;

    HEADROOM_DEVICE void operator()(Block& block, const GradientSums<C>* parts, const ColumnSets& of,
                                    const NormVector& weight, C elements, GradientSums<C>* means,
                                    const NormTarget& to_weight, const NormTarget& to_bias) const {
        const std::int64_t job = std::int64_t{block.x()} * block.warps() + block.warp();
        const std::int64_t channel = job - of.sets, images = of.columns / of.channels;
        GradientSums<C> sums;
        if (channel < 0) {
            for (std::int64_t i = block.lane(); i < of.parts * of.group; i += kWarp) {
                const std::int64_t column = job * of.group + i % of.group;
                const GradientSums<C> part = parts[i / of.group * of.columns + column];
                const C factor = weight.at<C>(column % of.channels);
                sums.join({factor * part.bias, factor * part.weight});
            }
        } else if (channel < of.channels) {
            for (std::int64_t i = block.lane(); i < of.parts * images; i += kWarp)
                sums.join(parts[i / images * of.columns + i % images * of.channels + channel]);
        }
        sums = {block.warp_reduce(sums.bias, Sum{}), block.warp_reduce(sums.weight, Sum{})};
        if (block.lane() != 0 || channel >= of.channels) return;
        if (channel < 0) {
            means[job] = {sums.bias / elements, sums.weight / elements};
        } else {
            to_weight.put(channel, sums.weight);
            to_bias.put(channel, sums.bias);
        }
    }
};

struct InputTargets {
    bool x, residual;
    float x_beta, residual_beta;
};

// Arrays: x, dy, y, dx, dresidual.
template <class C, int W>
struct InputGradients {
    static constexpr unsigned kMaxThreads = ColumnTile::kThreads;

    HEADROOM_DEVICE void operator()(Block& block, const ColumnArrays<5>& arrays, const ColumnGrid& grid,
                                    const NormArrays& norm, const GradientInputs& in, const GradientSums<C>* means,
                                    const InputTargets& to) const {
        const ColumnThread at(block, grid, W);
        if (!at.exists) return;
        const ColumnNorm<C, W> of(norm, at.column);
        const Offsets<5> base = arrays.columns(at.column);
        Items<C, W> shift{}, slope{};
        if (!in.constant) {
#pragma unroll
            for (int k = 0; k < W; ++k) {
                const GradientSums<C> mean = means[(at.column + k) / norm.group];
                shift[k] = mean.bias * of.rstd[k];
                slope[k] = mean.weight * of.rstd[k] * of.rstd[k];
            }
        }
        for (std::int64_t i = at.first; i < at.end; i += at.step) {
            const Offsets<5> offsets = arrays.elements(base, i);
            Items<C, W> x = of.mean;
            if (in.x) x = arrays.template load<C, W>(block, 0, offsets);
            Items<C, W> g = masked<C, W>(block, arrays, offsets, in, norm.relu, of, x);
            if (to.residual) arrays.template store<C, W>(block, 4, offsets, to.residual_beta, g);
            if (!to.x) continue;
#pragma unroll
            for (int k = 0; k < W; ++k) g[k] = g[k] * of.scale[k] - shift[k] - (x[k] - of.mean[k]) * slope[k];
            arrays.template store<C, W>(block, 3, offsets, to.x_beta, g);
        }
    }
};

}  // namespace

void ChannelNormGradientPlan::run(CudaStream& stream, std::byte* scratch) const {
    const Columns& columns = parts_.columns;
    const View& x = in_.x ? *in_.x : in_.dy;
    const View& y = in_.y ? *in_.y : in_.dy;
    const GradientInputs in{in_.x != nullptr, in_.y != nullptr, in_.constant};
    const NormArrays norm(norm_, columns);
    dispatch_compute(x.dtype, [&]<class C>(TypeTag<C>) {
        auto* const sums = reinterpret_cast<GradientSums<C>*>(scratch);
        auto* const means = reinterpret_cast<GradientSums<C>*>(scratch + parts_.scratch(2));
        if (wants_sums()) {
            launch_columns<C, AddGradients, GradientSums<C>>(stream, parts_.tile, columns, parts_.parts,
                                                             ColumnArrays<3>(columns, {&x, &in_.dy, &y}), norm, in,
                                                             sums);
            const C elements = static_cast<C>(columns.elements * columns.group);
            launch(stream, warps_for(columns.sets() + columns.channels), JoinGradients<C>{}, sums, ColumnSets(parts_),
                   norm.weight, elements, means, NormTarget(to_.weight), NormTarget(to_.bias));
        }
        if (in_.dy.numel() == 0 || (!to_.x && !to_.residual)) return;
        const View& first = *(to_.x ? to_.x : to_.residual).view;
        const View& second = to_.residual ? *to_.residual.view : first;
        launch_columns<C, InputGradients, void>(
            stream, parts_.tile, columns, shares_of(parts_),
            ColumnArrays<5>(columns, {&x, &in_.dy, &y, &first, &second}), norm, in, means,
            InputTargets{to_.x.view != nullptr, to_.residual.view != nullptr, to_.x.beta, to_.residual.beta});
    });
}

}  // namespace headroom::kernels
