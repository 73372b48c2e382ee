#include <headroom/kernels/attention/internal/masked.cuh>
#include <headroom/kernels/attention/internal/paths.hpp>
#include <headroom/kernels/attention/internal/plain.cuh>

namespace headroom::kernels {

namespace {

using namespace attention_device;

// The 16 threads that share a row are half a warp: what a row reduces to goes around by shuffles.
template <class T, class Extras>
struct PlainForward {
    using Tile = Plain<T>;
    using Products = typename Tile::Products;
    static constexpr unsigned kMaxThreads = Tile::kThreads;
    static constexpr int kEach = Tile::kEach, kRows = Tile::kRows;

    Geometry sizes;
    HeadView q, k, v, o;
    SumView<T> lse;
    T scale;  // times log2(e)
    Extras from_host;

    HEADROOM_DEVICE void operator()(Block& block) const {
        const typename Tile::Space space(block);
        const HeadBlock at = block_from_the_end(block, sizes.queries, kRows, sizes.heads);
        Extras extras = from_host;
        const Geometry g = extras.begin(block, sizes, at.batch);
        const int width = static_cast<int>(g.width), slice = static_cast<int>(block.y()) * kRows;
        const std::int64_t key_head = at.head / g.group();
        const HeadRows queries{q, q.row(at.batch, 0, at.head), at.first, g.queries};
        HeadRows keys{k, k.row(at.batch, 0, key_head), 0, g.keys}, values{v, v.row(at.batch, 0, key_head), 0, g.keys};
        Products products, sums;
        Tile::clear(sums);
        T maximum[kEach], sum[kEach];
#pragma unroll
        for (int i = 0; i < kEach; ++i) maximum[i] = T(-INFINITY), sum[i] = T(0);
        const std::int64_t end = at.first + kRows < g.queries ? at.first + kRows : g.queries;
        const std::int64_t seen = g.visible(end - 1);
        for (std::int64_t key = 0; key < seen; key += kRows) {
            keys.first = values.first = key;
            Tile::scores(block, space, queries, keys, width, products);
#pragma unroll
            for (int i = 0; i < kEach; ++i) {
                const std::int64_t row = at.first + Tile::own_row(block, i);
                const std::int64_t visible = row < g.queries ? g.visible(row) - key : 0;
                const T correction =
                    softmax(block, extras, {at.batch, at.head, row, key}, visible, products[i], maximum[i], sum[i]);
#pragma unroll
                for (int j = 0; j < kEach; ++j) sums[i][j] *= correction;
            }
            Tile::put_weights(block, space, products);
            Tile::add(block, space, values, slice, width, sums);
        }
#pragma unroll
        for (int i = 0; i < kEach; ++i) {
            const T all = across(block, sum[i], Sum());
#pragma unroll
            for (int j = 0; j < kEach; ++j) sums[i][j] *= all == T(0) ? T(0) : T(1) / all;
            const std::int64_t row = at.first + Tile::own_row(block, i);
            if (lse.data != nullptr && slice == 0 && row < g.queries && Tile::column(block) == 0)
                lse.at(at.batch, at.head, row) = (maximum[i] + std::log2(all)) * T(1 / kLog2E);
        }
        Tile::write(block, space, sums, {o, o.row(at.batch, 0, at.head), at.first, g.queries}, slice, width, T(1),
                    0.0f);
    }

  private:
    /// The thread's part of a row of scores, of which `visible` are: probabilities before division by their sum, as
    /// dropout leaves them. Gives the factor for what was summed before; `sum` is over the thread's own part.
    HEADROOM_DEVICE T softmax(Block& block, const Extras& extras, const ScorePlace& at, std::int64_t visible,
                              T (&scores)[kEach], T& maximum, T& sum) const {
        T largest = maximum;
#pragma unroll
        for (int j = 0; j < kEach; ++j) {
            const int column = Tile::other_row(block, j);
            scores[j] = column < visible ? extras.added(scale * scores[j], at.right(column)) : T(-INFINITY);
            largest = Max()(largest, scores[j]);
        }
        largest = across(block, largest, Max());
        const T shift = largest == T(-INFINITY) ? T(0) : largest;  // saw no key so far
        const T correction = std::exp2(maximum - shift);
        T found = T(0);
#pragma unroll
        for (int j = 0; j < kEach; ++j) {
            scores[j] = std::exp2(scores[j] - shift);
            found += scores[j];
            scores[j] = extras.of(at.right(Tile::other_row(block, j))).times(scores[j], 0);
        }
        maximum = largest;
        sum = sum * correction + found;
        return correction;
    }

    template <class Op>
    HEADROOM_DEVICE static T across(Block& block, T value, Op op) {
#pragma unroll
        for (unsigned step = 1; step < Tile::kSide; step *= 2)
            value = op(value, block.shuffle_xor(kFullWarp, value, step));
        return value;
    }
};

}  // namespace

void attention_plain(CudaStream& stream, const Attention& attention) {
    const Geometry g = geometry_of(attention.q, attention.k, attention.causal);
    dispatch_plain(attention.q.dtype, [&]<class T>() {
        using Tile = Plain<T>;
        with_extras<T>(stream, attention, [&]<class Extras>(const Extras& extras) {
            const PlainForward<T, Extras> kernel{g,
                                                 HeadView(attention.q),
                                                 HeadView(attention.k),
                                                 HeadView(attention.v),
                                                 HeadView(attention.o),
                                                 SumView<T>(attention.lse),
                                                 static_cast<T>(attention.scale * kLog2E),
                                                 extras};
            launch(stream,
                   {.x = head_blocks(g.queries, Tile::kRows, g.batch * g.heads),
                    .y = slices<T>(g.width),
                    .threads = Tile::kThreads,
                    .shared_bytes = Tile::Space::bytes()},
                   kernel);
        });
    });
}

}  // namespace headroom::kernels
