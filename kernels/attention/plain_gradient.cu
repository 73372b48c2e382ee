#include <headroom/kernels/attention/internal/masked.cuh>
#include <headroom/kernels/attention/internal/paths.hpp>
#include <headroom/kernels/attention/internal/plain.cuh>

namespace headroom::kernels {

namespace {

using namespace attention_device;

template <class T, class Extras>
struct PlainCommon {
    using Tile = Plain<T>;
    using Products = typename Tile::Products;
    static constexpr unsigned kMaxThreads = Tile::kThreads;
    static constexpr int kEach = Tile::kEach, kRows = Tile::kRows;

    Geometry sizes;
    HeadView q, k, v, dy;
    SumView<T> lse, delta;
    T scale;
    Extras from_host;

    HEADROOM_DEVICE HeadRows rows(const HeadView& x, std::int64_t batch, std::int64_t head, std::int64_t first,
                                  std::int64_t count) const {
        return {x, x.row(batch, 0, head), first, count};
    }
    /// A score becomes its probability as dropout leaves it, and the gradient of that the score's before scaling: zero
    /// where not visible, and where the query sees no other key.
    HEADROOM_DEVICE void differentiate(const Extras& extras, const ScorePlace& at, bool visible, bool alone, T sum,
                                       T mean, T& score, T& gradient) const {
        const T p = visible ? std::exp2(extras.added(scale * T(kLog2E) * score, at) - sum * T(kLog2E)) : T(0);
        const auto factor = extras.of(at);
        gradient = visible && !alone ? p * (factor.times(gradient, 0) - mean) : T(0);
        score = factor.times(p, 0);
    }
};

// Keys and values, by the queries of all heads of the group: nobody else writes these rows. All matrices are
// transposed.
template <class T, class Extras>
struct PlainKeyGradients : PlainCommon<T, Extras> {
    using Base = PlainCommon<T, Extras>;
    using Tile = typename Base::Tile;
    using Base::kEach, Base::kRows, Base::sizes, Base::q, Base::k, Base::v, Base::dy, Base::lse, Base::delta,
        Base::scale, Base::from_host;

    HeadView dk, dv;
    float beta_k, beta_v;

    HEADROOM_DEVICE void operator()(Block& block) const {
        const typename Tile::Space space(block);
        const HeadBlock at = block_of_head(block, sizes.keys, kRows, sizes.key_heads);
        Extras extras = from_host;
        const Geometry g = extras.begin(block, sizes, at.batch);
        const int width = static_cast<int>(g.width), slice = static_cast<int>(block.y()) * kRows;
        const HeadRows keys = this->rows(k, at.batch, at.head, at.first, g.keys);
        const HeadRows values = this->rows(v, at.batch, at.head, at.first, g.keys);
        typename Base::Products scores, gradients, key_sums, value_sums;
        Tile::clear(key_sums);
        Tile::clear(value_sums);
        const std::int64_t begin = g.first_seeing(at.first) / kRows * kRows;
        for (std::int64_t head = at.head * g.group(); head < (at.head + 1) * g.group(); ++head) {
            for (std::int64_t query = begin; query < g.queries; query += kRows) {
                const HeadRows queries = this->rows(q, at.batch, head, query, g.queries);
                const HeadRows dys = this->rows(dy, at.batch, head, query, g.queries);
                Tile::scores(block, space, keys, queries, width, scores);
                Tile::scores(block, space, values, dys, width, gradients);
#pragma unroll
                for (int j = 0; j < kEach; ++j) {
                    const std::int64_t i = query + Tile::other_row(block, j);
                    const bool exists = i < g.queries;
                    const T sum = exists ? extras.shift(lse.at(at.batch, head, i)) : T(0);
                    const T mean = exists ? delta.at(at.batch, head, i) : T(0);
#pragma unroll
                    for (int l = 0; l < kEach; ++l) {
                        const std::int64_t key = at.first + Tile::own_row(block, l);
                        this->differentiate(extras, {at.batch, head, i, key}, exists && g.first_seeing(key) <= i,
                                            g.visible(i) == 1, sum, mean, scores[l][j], gradients[l][j]);
                    }
                }
                Tile::put_weights(block, space, scores);
                Tile::add(block, space, dys, slice, width, value_sums);
                Tile::put_weights(block, space, gradients);
                Tile::add(block, space, queries, slice, width, key_sums);
            }
        }
        if (dk.data != nullptr)
            Tile::write(block, space, key_sums, this->rows(dk, at.batch, at.head, at.first, g.keys), slice, width,
                        scale, beta_k);
        if (dv.data != nullptr)
            Tile::write(block, space, value_sums, this->rows(dv, at.batch, at.head, at.first, g.keys), slice, width,
                        T(1), beta_v);
    }
};

// Queries, by the keys that they see.
template <class T, class Extras>
struct PlainQueryGradient : PlainCommon<T, Extras> {
    using Base = PlainCommon<T, Extras>;
    using Tile = typename Base::Tile;
    using Base::kEach, Base::kRows, Base::sizes, Base::q, Base::k, Base::v, Base::dy, Base::lse, Base::delta,
        Base::scale, Base::from_host;

    HeadView dq;
    float beta;

    HEADROOM_DEVICE void operator()(Block& block) const {
        const typename Tile::Space space(block);
        const HeadBlock at = block_from_the_end(block, sizes.queries, kRows, sizes.heads);
        Extras extras = from_host;
        const Geometry g = extras.begin(block, sizes, at.batch);
        const int width = static_cast<int>(g.width), slice = static_cast<int>(block.y()) * kRows;
        const std::int64_t key_head = at.head / g.group();
        const HeadRows queries = this->rows(q, at.batch, at.head, at.first, g.queries);
        const HeadRows dys = this->rows(dy, at.batch, at.head, at.first, g.queries);
        typename Base::Products scores, gradients, sums;
        Tile::clear(sums);
        T sum[kEach], mean[kEach];
        std::int64_t visible[kEach];
#pragma unroll
        for (int i = 0; i < kEach; ++i) {
            const std::int64_t row = at.first + Tile::own_row(block, i);
            const bool exists = row < g.queries;
            sum[i] = exists ? extras.shift(lse.at(at.batch, at.head, row)) : T(0);
            mean[i] = exists ? delta.at(at.batch, at.head, row) : T(0);
            visible[i] = exists ? g.visible(row) : 0;
        }
        const std::int64_t end = at.first + kRows < g.queries ? at.first + kRows : g.queries;
        const std::int64_t seen = g.visible(end - 1);
        for (std::int64_t key = 0; key < seen; key += kRows) {
            const HeadRows keys = this->rows(k, at.batch, key_head, key, g.keys);
            Tile::scores(block, space, queries, keys, width, scores);
            Tile::scores(block, space, dys, this->rows(v, at.batch, key_head, key, g.keys), width, gradients);
#pragma unroll
            for (int i = 0; i < kEach; ++i)
#pragma unroll
                for (int j = 0; j < kEach; ++j) {
                    const ScorePlace place{at.batch, at.head, at.first + Tile::own_row(block, i),
                                           key + Tile::other_row(block, j)};
                    this->differentiate(extras, place, place.key < visible[i], visible[i] == 1, sum[i], mean[i],
                                        scores[i][j], gradients[i][j]);
                }
            Tile::put_weights(block, space, gradients);
            Tile::add(block, space, keys, slice, width, sums);
        }
        Tile::write(block, space, sums, this->rows(dq, at.batch, at.head, at.first, g.queries), slice, width, scale,
                    beta);
    }
};

}  // namespace

void attention_gradient_plain(CudaStream& stream, const AttentionGradient& gradient, std::byte* delta) {
    const Geometry g = geometry_of(gradient.q, gradient.k, gradient.causal);
    dispatch_plain(gradient.q.dtype, [&]<class T>() {
        using Tile = Plain<T>;
        with_extras<T>(stream, gradient, [&]<class Extras>(const Extras& extras) {
            const PlainCommon<T, Extras> common{
                g,
                HeadView(gradient.q),
                HeadView(gradient.k),
                HeadView(gradient.v),
                HeadView(gradient.dy),
                SumView<T>(gradient.lse),
                SumView<T>(reinterpret_cast<T*>(delta), g.heads * g.queries, g.queries, 1),
                static_cast<T>(gradient.scale),
                extras};
            const auto start = [&](std::int64_t rows, std::int64_t heads, const auto& kernel) {
                launch(stream,
                       {.x = head_blocks(rows, Tile::kRows, heads),
                        .y = slices<T>(g.width),
                        .threads = Tile::kThreads,
                        .shared_bytes = Tile::Space::bytes()},
                       kernel);
            };
            if (gradient.dk.data != nullptr || gradient.dv.data != nullptr)
                start(g.keys, g.batch * g.key_heads,
                      PlainKeyGradients<T, Extras>{
                          {common}, HeadView(gradient.dk), HeadView(gradient.dv), gradient.beta_k, gradient.beta_v});
            if (gradient.dq.data != nullptr)
                start(g.queries, g.batch * g.heads,
                      PlainQueryGradient<T, Extras>{{common}, HeadView(gradient.dq), gradient.beta_q});
        });
    });
}

}  // namespace headroom::kernels
