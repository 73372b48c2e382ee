#include <headroom/kernels/attention/internal/masked.cuh>
#include <headroom/kernels/attention/internal/paths.hpp>
#include <headroom/kernels/attention/internal/tensor_cores.cuh>

namespace headroom::kernels {

namespace {

using namespace attention_device;

constexpr int kChunk = 32;        // of the other side's rows: as many scores as a warp has at a time
constexpr int kChunkStride = 40;  // as kStageStride, for chunks
constexpr int kChunkSize = kTile * kChunkStride;
static_assert(2 * kChunkSize >= kStageSize, "write_rows uses the stages of both products");

/// What the kernels of both sides have in common.
template <class T, int kWidth, int kRows, class Extras>
struct Common {
    static constexpr unsigned kWarps = kTensorWarps<kRows>, kMaxThreads = kTensorThreads<kRows>;
    static constexpr int kCapability = kTensorCapability<T>;
    static constexpr int kSize = kTileSize<kWidth, kRows>;

    Geometry sizes;
    HeadView q, k, v, dy;
    SumView<float> lse, delta;
    float scale;
    Extras from_host;

    /// Four tiles of rows, a stage for scores and for their gradient, and `halves` stages of T for weights.
    static constexpr std::size_t shared_bytes(int halves) {
        return 4 * shared_size<T>(kSize) + shared_size<float>(kWarps * 2 * kChunkSize) +
               halves * shared_size<T>(kWarps * kChunkSize);
    }

    /// Scores of the warp's 16 rows and a chunk of the other side's, and the gradient of their probabilities, go to the
    /// stage: x y^T and dx dy^T.
    HEADROOM_DEVICE static void scores_to_stage(Block& block, Shared<T> x, Shared<T> dx, int row, Shared<T> y,
                                                Shared<T> dy, int chunk, Shared<float> stage) {
        Accumulator scores[kChunk / kTile], gradients[kChunk / kTile];
        multiply_rows<T, kWidth>(block, x, row, y, chunk, scores);
        multiply_rows<T, kWidth>(block, dx, row, dy, chunk, gradients);
#pragma unroll
        for (int i = 0; i < kChunk / kTile; ++i) {
            block.store_tile(stage, i * kTile, scores[i], kChunkStride);
            block.store_tile(stage, kChunkSize + i * kTile, gradients[i], kChunkStride);
        }
        block.warp_sync();
    }
};

// Keys and values: a block owns its keys and walks over the queries that see one of them, of all heads of the group in
// turn: nobody else writes these rows, and the order of sums is always the same. All matrices are transposed.
template <class T, int kWidth, int kRows, class Extras>
struct KeyGradients : Common<T, kWidth, kRows, Extras> {
    using Base = Common<T, kWidth, kRows, Extras>;
    using Base::kSize, Base::kWarps, Base::sizes, Base::q, Base::k, Base::v, Base::dy, Base::lse, Base::delta,
        Base::scale, Base::from_host;

    HeadView dk, dv;
    float beta_k, beta_v;

    static constexpr std::size_t shared_bytes() { return Base::shared_bytes(2) + 2 * shared_size<float>(kRows); }

    HEADROOM_DEVICE void operator()(Block& block) const {
        const Shared<T> keys = block.shared<T>(kSize), values = block.shared<T>(kSize),
                        queries = block.shared<T>(kSize), gradients = block.shared<T>(kSize);
        const int warp = static_cast<int>(block.warp());
        const Shared<float> stage =
            block.shared<float>(kWarps * 2 * kChunkSize).part(warp * 2 * kChunkSize, 2 * kChunkSize);
        const Shared<T> probabilities = block.shared<T>(kWarps * kChunkSize).part(warp * kChunkSize, kChunkSize);
        const Shared<T> dscores = block.shared<T>(kWarps * kChunkSize).part(warp * kChunkSize, kChunkSize);
        const Shared<float> lses = block.shared<float>(kRows), deltas = block.shared<float>(kRows);
        const HeadBlock at = block_of_head(block, sizes.keys, kRows, sizes.key_heads);
        Extras extras = from_host;
        const Geometry g = extras.begin(block, sizes, at.batch);
        const std::int64_t first = at.first + warp * kTile;
        const std::int64_t seen_from = g.first_seeing(first), row_seen_from = g.first_seeing(first + block.lane() / 2);
        const int width = static_cast<int>(g.width);
        load_rows<T, kWidth, kRows>(block, k, k.row(at.batch, 0, at.head), at.first, g.keys, width, keys);
        load_rows<T, kWidth, kRows>(block, v, v.row(at.batch, 0, at.head), at.first, g.keys, width, values);

        constexpr int kTiles = kWidth / kTile;
        Accumulator key_sums[kTiles], value_sums[kTiles];
#pragma unroll
        for (int i = 0; i < kTiles; ++i) {
            block.fill(key_sums[i], 0.0f);
            block.fill(value_sums[i], 0.0f);
        }
        const std::int64_t begin = g.first_seeing(at.first) / kRows * kRows;
        for (std::int64_t head = at.head * g.group(); head < (at.head + 1) * g.group(); ++head) {
            for (std::int64_t query = begin; query < g.queries; query += kRows) {
                block.sync();  // all have done with the queries before
                load_rows<T, kWidth, kRows>(block, q, q.row(at.batch, 0, head), query, g.queries, width, queries);
                load_rows<T, kWidth, kRows>(block, dy, dy.row(at.batch, 0, head), query, g.queries, width, gradients);
                if (block.thread() < kRows) {
                    const std::int64_t i = query + block.thread();
                    const bool exists = i < g.queries;
                    lses[block.thread()] =
                        exists ? extras.shift(lse.at(at.batch, head, i)) * static_cast<float>(kLog2E) : 0.0f;
                    deltas[block.thread()] = exists ? delta.at(at.batch, head, i) : 0.0f;
                }
                block.sync();
#pragma unroll 1
                for (int chunk = 0; chunk < kRows; chunk += kChunk) {
                    const std::int64_t i = query + chunk;
                    if (i >= g.queries || i + kChunk <= seen_from) continue;
                    Base::scores_to_stage(block, keys, values, warp * kTile, queries, gradients, chunk, stage);
                    differentiate(block, stage, extras, {at.batch, head, i, first + block.lane() / 2},
                                  lses.part(chunk, kChunk), deltas.part(chunk, kChunk), within_block(row_seen_from - i),
                                  within_block(g.queries - i), probabilities, dscores);
                    block.warp_sync();
                    Tile<Operand::a, T> weights;
#pragma unroll
                    for (int part = 0; part < kChunk; part += kTile) {
                        block.load_tile(weights, probabilities, part, kChunkStride);
                        add_rows<T, kWidth>(block, weights, gradients, chunk + part, value_sums);
                        block.load_tile(weights, dscores, part, kChunkStride);
                        add_rows<T, kWidth>(block, weights, queries, chunk + part, key_sums);
                    }
                }
            }
        }
        if (dk.data != nullptr)
            write_rows<T, kWidth>(block, key_sums, stage, dk, dk.row(at.batch, 0, at.head), first, g.keys, width, scale,
                                  beta_k);
        if (dv.data != nullptr)
            write_rows<T, kWidth>(block, value_sums, stage, dv, dv.row(at.batch, 0, at.head), first, g.keys, width,
                                  1.0f, beta_v);
    }

  private:
    /// The lane's half of one key's row: queries [from, end) of the chunk see it.
    HEADROOM_DEVICE void differentiate(Block& block, Shared<float> stage, const Extras& extras, const ScorePlace& at,
                                       Shared<float> lses, Shared<float> deltas, int from, int end,
                                       Shared<T> probabilities, Shared<T> dscores) const {
        const float exponent = scale * static_cast<float>(kLog2E);
        const int row = static_cast<int>(block.lane()) / 2 * kChunkStride;
#pragma unroll
        for (int i = block.lane() % 2 * 4; i < kChunk; i += 8) {
            const Vector<float, 4> score = block.load<4>(stage, row + i);
            const Vector<float, 4> gradient = block.load<4>(stage, kChunkSize + row + i);
            const Vector<float, 4> sum = block.load<4>(lses, i), mean = block.load<4>(deltas, i);
            const auto factors = extras.along_queries(at.down(i));
            Vector<T, 4> probability, dscore;
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                const bool visible = i + j >= from && i + j < end;
                const float p = visible ? std::exp2(extras.added(exponent * score[j], at.down(i + j)) - sum[j]) : 0.0f;
                probability[j] = rounded<T>(factors.times(p, j));
                dscore[j] = rounded<T>(visible ? p * (factors.times(gradient[j], j) - mean[j]) : 0.0f);
            }
            block.store(probabilities, row + i, probability);
            block.store(dscores, row + i, dscore);
        }
    }
};

// Queries: a block owns its queries and walks over the keys that they see.
template <class T, int kWidth, int kRows, class Extras>
struct QueryGradient : Common<T, kWidth, kRows, Extras> {
    using Base = Common<T, kWidth, kRows, Extras>;
    using Base::kSize, Base::kWarps, Base::sizes, Base::q, Base::k, Base::v, Base::dy, Base::lse, Base::delta,
        Base::scale, Base::from_host;

    HeadView dq;
    float beta;

    static constexpr std::size_t shared_bytes() { return Base::shared_bytes(1); }

    HEADROOM_DEVICE void operator()(Block& block) const {
        const Shared<T> queries = block.shared<T>(kSize), gradients = block.shared<T>(kSize),
                        keys = block.shared<T>(kSize), values = block.shared<T>(kSize);
        const int warp = static_cast<int>(block.warp());
        const Shared<float> stage =
            block.shared<float>(kWarps * 2 * kChunkSize).part(warp * 2 * kChunkSize, 2 * kChunkSize);
        const Shared<T> dscores = block.shared<T>(kWarps * kChunkSize).part(warp * kChunkSize, kChunkSize);
        const HeadBlock at = block_from_the_end(block, sizes.queries, kRows, sizes.heads);
        Extras extras = from_host;
        const Geometry g = extras.begin(block, sizes, at.batch);
        const std::int64_t key_head = at.head / g.group(), first = at.first + warp * kTile;
        const std::int64_t row = first + block.lane() / 2;
        const int width = static_cast<int>(g.width);
        load_rows<T, kWidth, kRows>(block, q, q.row(at.batch, 0, at.head), at.first, g.queries, width, queries);
        load_rows<T, kWidth, kRows>(block, dy, dy.row(at.batch, 0, at.head), at.first, g.queries, width, gradients);
        float sum = 0.0f, mean = 0.0f;
        std::int64_t seen = 0;
        if (row < g.queries) {
            sum = extras.shift(lse.at(at.batch, at.head, row)) * static_cast<float>(kLog2E);
            mean = delta.at(at.batch, at.head, row);
            seen = g.visible(row);
        }

        constexpr int kTiles = kWidth / kTile;
        Accumulator sums[kTiles];
#pragma unroll
        for (int i = 0; i < kTiles; ++i) block.fill(sums[i], 0.0f);
        const std::int64_t end = g.visible(last(at.first + kRows)), warp_end = g.visible(last(first + kTile));
        for (std::int64_t key = 0; key < end; key += kRows) {
            block.sync();  // all have done with the keys before
            load_rows<T, kWidth, kRows>(block, k, k.row(at.batch, 0, key_head), key, g.keys, width, keys);
            load_rows<T, kWidth, kRows>(block, v, v.row(at.batch, 0, key_head), key, g.keys, width, values);
            block.sync();
#pragma unroll 1
            for (int chunk = 0; chunk < kRows; chunk += kChunk) {
                if (key + chunk >= warp_end) continue;
                Base::scores_to_stage(block, queries, gradients, warp * kTile, keys, values, chunk, stage);
                differentiate(block, stage, extras, {at.batch, at.head, row, key + chunk}, sum, mean,
                              within_block(seen - key - chunk), dscores);
                block.warp_sync();
                Tile<Operand::a, T> weights;
#pragma unroll
                for (int part = 0; part < kChunk; part += kTile) {
                    block.load_tile(weights, dscores, part, kChunkStride);
                    add_rows<T, kWidth>(block, weights, keys, chunk + part, sums);
                }
            }
        }
        write_rows<T, kWidth>(block, sums, stage, dq, dq.row(at.batch, 0, at.head), first, g.queries, width, scale,
                              beta);
    }

  private:
    /// The last query before `end`.
    HEADROOM_DEVICE std::int64_t last(std::int64_t end) const {
        return (end < sizes.queries ? end : sizes.queries) - 1;
    }

    /// The lane's half of one query's row, which sees the first `seen` keys of the chunk.
    HEADROOM_DEVICE void differentiate(Block& block, Shared<float> stage, const Extras& extras, const ScorePlace& at,
                                       float sum, float mean, int seen, Shared<T> dscores) const {
        const float exponent = scale * static_cast<float>(kLog2E);
        const int row = static_cast<int>(block.lane()) / 2 * kChunkStride;
#pragma unroll
        for (int i = block.lane() % 2 * 4; i < kChunk; i += 8) {
            const Vector<float, 4> score = block.load<4>(stage, row + i);
            const Vector<float, 4> gradient = block.load<4>(stage, kChunkSize + row + i);
            const auto factors = extras.along_keys(at.right(i));
            Vector<T, 4> dscore;
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                const bool visible = i + j < seen;
                const float p = Extras::kAny && !visible
                                    ? 0.0f
                                    : std::exp2(extras.added(exponent * score[j], at.right(i + j)) - sum);
                dscore[j] = rounded<T>(visible ? p * (factors.times(gradient[j], j) - mean) : 0.0f);
            }
            block.store(dscores, row + i, dscore);
        }
    }
};

}  // namespace

void attention_gradient_on_tensor_cores(CudaStream& stream, const AttentionGradient& gradient, float* delta) {
    const Geometry g = geometry_of(gradient.q, gradient.k, gradient.causal);
    with_extras<float>(stream, gradient, [&]<class Extras>(const Extras& extras) {
        dispatch_tensor_cores<Extras>(gradient.q.dtype, g.width, [&]<class T, int kWidth>() {
            const auto common = [&]<int kRows>() {
                return Common<T, kWidth, kRows, Extras>{g,
                                                        HeadView(gradient.q),
                                                        HeadView(gradient.k),
                                                        HeadView(gradient.v),
                                                        HeadView(gradient.dy),
                                                        SumView<float>(gradient.lse),
                                                        SumView<float>(delta, g.heads * g.queries, g.queries, 1),
                                                        static_cast<float>(gradient.scale),
                                                        extras};
            };
            const auto start = [&]<class Kernel>(std::uint32_t blocks, const Kernel& kernel) {
                launch(stream, {.x = blocks, .threads = Kernel::kMaxThreads, .shared_bytes = Kernel::shared_bytes()},
                       kernel);
            };
            const auto keys = [&]<int kRows>() {
                start(head_blocks(g.keys, kRows, g.batch * g.key_heads),
                      KeyGradients<T, kWidth, kRows, Extras>{{common.template operator()<kRows>()},
                                                             HeadView(gradient.dk),
                                                             HeadView(gradient.dv),
                                                             gradient.beta_k,
                                                             gradient.beta_v});
            };
            const auto queries = [&]<int kRows>() {
                start(head_blocks(g.queries, kRows, g.batch * g.heads),
                      QueryGradient<T, kWidth, kRows, Extras>{
                          {common.template operator()<kRows>()}, HeadView(gradient.dq), gradient.beta_q});
            };
            if (gradient.dk.data != nullptr || gradient.dv.data != nullptr)
                with_rows_that_fit<T, KeyGradients<T, kWidth, kMostRows, Extras>::shared_bytes()>(stream, keys);
            if (gradient.dq.data != nullptr)
                with_rows_that_fit<T, QueryGradient<T, kWidth, kMostRows, Extras>::shared_bytes()>(stream, queries);
        });
    });
}

}  // namespace headroom::kernels
