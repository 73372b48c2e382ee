#include <headroom/kernels/attention/internal/masked.cuh>
#include <headroom/kernels/attention/internal/paths.hpp>
#include <headroom/kernels/attention/internal/tensor_cores.cuh>

namespace headroom::kernels {

namespace {

using namespace attention_device;

// Each warp: scores of its 16 queries to the stage; there, two lanes for each row turn them into probabilities, rounded
// to T, and find by what earlier sums must shrink; that factor comes back as a fragment of its own, equal along rows.
template <class T, int kWidth, int kRows, class Extras>
struct Forward {
    static constexpr unsigned kWarps = kTensorWarps<kRows>, kMaxThreads = kTensorThreads<kRows>;
    static constexpr int kCapability = kTensorCapability<T>;
    static constexpr int kTiles = kWidth / kTile;

    Geometry sizes;
    HeadView q, k, v, o;
    SumView<float> lse;
    float scale;  // times log2(e)
    Extras from_host;

    static constexpr std::size_t shared_bytes() {
        return 3 * shared_size<T>(kTileSize<kWidth, kRows>) + shared_size<float>(kWarps * kStageSize) +
               shared_size<T>(kWarps * kStageSize);
    }

    /// What a lane knows of its row; `sum` is over its own half of the keys.
    struct Running {
        float maximum = -INFINITY, sum = 0.0f;
    };

    HEADROOM_DEVICE void operator()(Block& block) const {
        constexpr int kSize = kTileSize<kWidth, kRows>;
        const Shared<T> queries = block.shared<T>(kSize), keys = block.shared<T>(kSize),
                        values = block.shared<T>(kSize);
        const int warp = static_cast<int>(block.warp());
        const Shared<float> stage = block.shared<float>(kWarps * kStageSize).part(warp * kStageSize, kStageSize);
        const Shared<T> probabilities = block.shared<T>(kWarps * kStageSize).part(warp * kStageSize, kStageSize);
        const HeadBlock at = block_from_the_end(block, sizes.queries, kRows, sizes.heads);
        Extras extras = from_host;
        const Geometry g = extras.begin(block, sizes, at.batch);
        const std::int64_t key_head = at.head / g.group(), first = at.first + warp * kTile;
        const std::int64_t row = first + block.lane() / 2;
        const int width = static_cast<int>(g.width);
        load_rows<T, kWidth, kRows>(block, q, q.row(at.batch, 0, at.head), at.first, g.queries, width, queries);

        Accumulator sums[kTiles];
#pragma unroll
        for (int i = 0; i < kTiles; ++i) block.fill(sums[i], 0.0f);
        Running running;
        const std::int64_t end = g.visible(last(at.first + kRows)), warp_end = g.visible(last(first + kTile));
        for (std::int64_t key = 0; key < end; key += kRows) {
            block.sync();  // all have done with the keys and values before
            load_rows<T, kWidth, kRows>(block, k, k.row(at.batch, 0, key_head), key, g.keys, width, keys);
            load_rows<T, kWidth, kRows>(block, v, v.row(at.batch, 0, key_head), key, g.keys, width, values);
            block.sync();
            if (key >= warp_end) continue;
            Accumulator scores[kRows / kTile];
            multiply_rows<T, kWidth>(block, queries, warp * kTile, keys, 0, scores);
#pragma unroll
            for (int i = 0; i < kRows / kTile; ++i) block.store_tile(stage, i * kTile, scores[i], kStageStride);
            block.warp_sync();
            const int seen = row < g.queries ? within_block(g.visible(row) - key) : 0;
            const float correction =
                softmax(block, stage, probabilities, extras, {at.batch, at.head, row, key}, seen, running);
            block.warp_sync();
            shrink(block, stage, correction, sums);
            Tile<Operand::a, T> weights;
#pragma unroll
            for (int i = 0; i < kRows / kTile; ++i) {
                block.load_tile(weights, probabilities, i * kTile, kStageStride);
                add_rows<T, kWidth>(block, weights, values, i * kTile, sums);
            }
            block.warp_sync();  // before the stage is written again
        }
        const float sum = running.sum + block.shuffle_xor(kFullWarp, running.sum, 1);
        write_rows<T, kWidth>(block, sums, stage, o, o.row(at.batch, 0, at.head), first, g.queries, width,
                              sum == 0.0f ? 0.0f : 1.0f / sum, 0.0f);
        if (lse.data != nullptr && block.lane() % 2 == 0 && row < g.queries)
            lse.at(at.batch, at.head, row) = (running.maximum + std::log2(sum)) * static_cast<float>(1 / kLog2E);
    }

  private:
    /// The last query before `end`.
    HEADROOM_DEVICE std::int64_t last(std::int64_t end) const {
        return (end < sizes.queries ? end : sizes.queries) - 1;
    }

    /// The lane's half of a row of kRows scores, of which `seen` are visible: probabilities before division by their
    /// sum, as dropout leaves them. Gives the factor for what was summed before.
    HEADROOM_DEVICE float softmax(Block& block, Shared<float> stage, Shared<T> probabilities, const Extras& extras,
                                  const ScorePlace& at, int seen, Running& running) const {
        constexpr int kSteps = kRows / 8;  // a lane takes each second group of four
        const int row = static_cast<int>(block.lane()) / 2, begin = block.lane() % 2 * 4;
        float scores[kRows / 2];
        float maximum = running.maximum;
#pragma unroll
        for (int i = 0; i < kSteps; ++i) {
            const Vector<float, 4> found = block.load<4>(stage, row * kStageStride + i * 8 + begin);
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                const int column = i * 8 + begin + j;
                const float score = column < seen ? extras.added(scale * found[j], at.right(column)) : -INFINITY;
                scores[i * 4 + j] = score;
                maximum = Max()(maximum, score);
            }
        }
        maximum = Max()(maximum, block.shuffle_xor(kFullWarp, maximum, 1));
        const float shift = maximum == -INFINITY ? 0.0f : maximum;  // saw no key so far
        const float correction = std::exp2(running.maximum - shift);
        float sum = 0.0f;
#pragma unroll
        for (int i = 0; i < kSteps; ++i) {
            const auto factors = extras.along_keys(at.right(i * 8 + begin));
            Vector<T, 4> rounded_ones;
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                const float probability = std::exp2(scores[i * 4 + j] - shift);
                sum += probability;
                rounded_ones[j] = rounded<T>(factors.times(probability, j));
            }
            block.store(probabilities, row * kStageStride + i * 8 + begin, rounded_ones);
        }
        running.sum = running.sum * correction + sum;
        running.maximum = maximum;
        return correction;
    }

    /// sums *= each row's factor.
    HEADROOM_DEVICE void shrink(Block& block, Shared<float> stage, float factor, Accumulator (&sums)[kTiles]) const {
        if (block.all(kFullWarp, factor == 1.0f)) return;
        const int row = static_cast<int>(block.lane()) / 2, begin = block.lane() % 2 * 8;
        const Vector<float, 4> four{{factor, factor, factor, factor}};
        block.store(stage, row * kStageStride + begin, four);
        block.store(stage, row * kStageStride + begin + 4, four);
        block.warp_sync();
        Accumulator factors;
        block.load_tile(factors, stage, 0, kStageStride);
#pragma unroll
        for (int i = 0; i < kTiles; ++i) sums[i].combine(factors, [](float x, float y) { return x * y; });
    }
};

}  // namespace

void attention_on_tensor_cores(CudaStream& stream, const Attention& attention) {
    const Geometry g = geometry_of(attention.q, attention.k, attention.causal);
    with_extras<float>(stream, attention, [&]<class Extras>(const Extras& extras) {
        dispatch_tensor_cores<Extras>(attention.q.dtype, g.width, [&]<class T, int kWidth>() {
            const auto start = [&]<int kRows>() {
                using Kernel = Forward<T, kWidth, kRows, Extras>;
                const Kernel kernel{g,
                                    HeadView(attention.q),
                                    HeadView(attention.k),
                                    HeadView(attention.v),
                                    HeadView(attention.o),
                                    SumView<float>(attention.lse),
                                    static_cast<float>(attention.scale * kLog2E),
                                    extras};
                launch(stream,
                       {.x = head_blocks(g.queries, kRows, g.batch * g.heads),
                        .threads = Kernel::kMaxThreads,
                        .shared_bytes = Kernel::shared_bytes()},
                       kernel);
            };
            with_rows_that_fit<T, Forward<T, kWidth, kMostRows, Extras>::shared_bytes()>(stream, start);
        });
    });
}

}  // namespace headroom::kernels
