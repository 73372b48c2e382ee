#include <headroom/tests/simt/kernels/examples.hpp>

namespace headroom::simt::test_kernels {
namespace {

using namespace headroom::kernels::device;

constexpr unsigned kThreads = 96;

// Calls all that `Block` has, and counts the answers that are wrong: the same on a GPU as in the emulator.
struct SelfCheck {
    static constexpr unsigned kMaxThreads = kThreads;

    HEADROOM_DEVICE void operator()(Block& block, int* wrong, float* global, f16* halves) const {
        int count = lanes(block) + memory(block, global, halves);
        count = block.reduce(count, Sum{}, 0, block.shared<int>(block.warps()));
        if (block.thread() == 0) wrong[block.x()] = count;
    }

    HEADROOM_DEVICE static float real(unsigned x) { return static_cast<float>(x); }

    HEADROOM_DEVICE static int lanes(Block& block) {
        const unsigned lane = block.lane();
        const std::uint32_t low = 0x0000ffffu, mine = lane < 16 ? low : ~low;
        int wrong = block.thread() != block.warp() * kWarp + lane || block.threads() != kThreads;
        wrong += block.shuffle_xor(kFullWarp, lane, 5) != (lane ^ 5);
        wrong += block.shuffle_up(kFullWarp, lane, 3) != (lane < 3 ? lane : lane - 3);
        wrong += block.shuffle_down(kFullWarp, 0.5f * real(lane), 3) != 0.5f * real(lane > 28 ? lane : lane + 3);
        wrong += block.shuffle(kFullWarp, std::int64_t{lane} << 40, 31 - lane) != std::int64_t{31 - lane} << 40;
        wrong += block.ballot(kFullWarp, lane % 3 == 0) != 0x49249249u;
        wrong += block.ballot(mine, lane % 2 == 0) != (mine & 0x55555555u);
        wrong += !block.any(kFullWarp, lane == 7) || block.any(kFullWarp, lane == 32);
        wrong += !block.all(kFullWarp, lane < 32) || block.all(kFullWarp, lane != 7);
        if (lane < 16) {
            wrong += block.shuffle_xor(low, lane, 1) != (lane ^ 1);
            block.warp_sync(low);
        }
        wrong += block.warp_reduce(static_cast<int>(lane), Sum{}) != 496;
        return wrong;
    }

    HEADROOM_DEVICE static int memory(Block& block, float* global, f16* halves) {
        const unsigned thread = block.thread(), other = kThreads - 1 - thread;
        const Shared<float> tile = block.shared<float>(4 * kThreads);
        const Shared<unsigned> words = block.shared<unsigned>(2);
        global += block.x() * 4 * kThreads;
        halves += block.x() * 8 * kThreads;
        if (thread < 2) words.part(thread, 1)[0] = 0;
        block.store(tile, thread * 4, Vector<float, 4>{real(thread), 2, 3, 4});
        block.sync();
        int wrong = block.load<4>(tile, other * 4)[0] != real(other) || tile[other * 4 + 3] != 4.0f;
        wrong += block.atomic_add(words, 0, 1u) >= kThreads;
        wrong += block.atomic_cas(words, 1, 7u, 8u) != 0;
        block.store(global + thread * 4, block.load<4>(tile, thread * 4));
        block.store_floats(halves + thread * 8, Floats<8>{0.5f * real(thread), 1, 1.0f + 0x1p-11f, 3, 4, 5, 6, 7});
        block.sync();
        wrong += words[0] != kThreads || words[1] != 0;
        wrong += block.load<4>(global + other * 4)[0] != real(other);
        const Floats<8> back = block.load_floats<8>(halves + other * 8);
        wrong += back[0] != 0.5f * real(other) || back[2] != 1.0f;  // a tie, rounded to even
        wrong += as_float(rounded<bf16>(1.0f + 0x1p-8f)) != 1.0f;
        const Shared<float> scratch = block.shared<float>(block.warps());
        wrong += block.sum(1.0f, scratch) != real(kThreads) || block.max(-real(thread), scratch) != 0.0f;
        wrong += block.max(thread == 40 ? NAN : 1.0f, scratch) == 1.0f;
        block.sync();
        return wrong + (block.warp() == 0 ? tiles(block, global, halves) : 0);
    }

    // 16 x 16 matrices of small integers, in global memory; the other warps are done with it.
    HEADROOM_DEVICE static int tiles(Block& block, float* global, f16* halves) {
        const unsigned lane = block.lane();
        for (unsigned i = lane; i < 256; i += kWarp) {
            halves[i] = rounded<f16>(static_cast<float>(i % 7));
            halves[i + 256] = rounded<f16>(static_cast<float>(i % 5));
            global[i] = 1.0f;
        }
        block.warp_sync();
        Tile<Operand::a, f16> a;
        Tile<Operand::b, f16, Layout::column> b;
        Accumulator sum;
        block.load_tile(sum, global, 16);
        block.load_tile(a, halves, 16);
        block.load_tile(b, halves + 256, 16);
        block.multiply_add(sum, a, b);
        sum.transform([](float x) { return 2 * x; });
        block.warp_sync();  // all lanes have loaded what is overwritten
        block.store_tile(global, sum, 16);
        block.warp_sync();
        int wrong = 0;
        for (unsigned i = lane; i < 256; i += kWarp) {
            float expected = 1;
            for (unsigned k = 0; k < 16; ++k)
                expected += static_cast<float>((i / 16 * 16 + k) % 7 * ((i % 16 * 16 + k) % 5));
            wrong += global[i] != 2 * expected;
        }
        return wrong;
    }
};

// On the emulator, or on the stream of a context.
template <class AnyStream>
void start(AnyStream& stream, int* wrong, float* global, f16* halves, std::int64_t blocks) {
    const std::size_t shared =
        shared_size<float>(4 * kThreads) + shared_size<unsigned>(2) + 2 * shared_size<float>(kThreads / kWarp);
    launch(stream, {.x = blocks_for(blocks, 1), .threads = kThreads, .shared_bytes = shared}, SelfCheck{}, wrong,
           global, halves);
}

}  // namespace

void self_check(kernels::device::Stream stream, int* wrong, float* global, f16* halves, std::int64_t blocks) {
    start(stream, wrong, global, halves, blocks);
}

}  // namespace headroom::simt::test_kernels
