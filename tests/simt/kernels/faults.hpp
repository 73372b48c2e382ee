#pragma once
// Kernels with one planted fault each. tests/simt/faults_test.cpp says what catches them, and in which build. They take
// global memory of kThreads floats at least where they take any. Not for anything else.
//
//     EXPECT_THROW(kernels::device::launch(gpu, faulty_shape(), faults::DivergentSync{}), simt::KernelError);
#include <headroom/kernels/device/launch.hpp>

namespace headroom::simt::faults {

using namespace headroom::kernels::device;
using kernels::f16;

inline constexpr unsigned kThreads = 64;
constexpr LaunchShape faulty_shape(std::uint32_t blocks = 1) {
    return {.x = blocks, .threads = kThreads, .shared_bytes = shared_size<float>(kThreads)};
}

// --- Races: nothing is unwritten, misaligned or out of bounds, and nobody waits for ever.

struct MissingSync {
    HEADROOM_DEVICE void operator()(Block& block, float* y) const {
        const Shared<float> tile = block.shared<float>(kThreads);
        tile[block.thread()] = 0.0f;
        block.sync();
        tile[block.thread()] = 1.0f;
        // here
        y[block.thread()] = tile[(block.thread() + kWarp) % kThreads];
    }
};
struct MissingWarpSync {
    HEADROOM_DEVICE void operator()(Block& block, float* y) const {
        const Shared<float> tile = block.shared<float>(kThreads);
        tile[block.thread()] = 0.0f;
        block.sync();
        tile[block.thread()] = 1.0f;
        // here
        y[block.thread()] = tile[block.thread() ^ 1u];
    }
};
struct ShuffleInsteadOfWarpSync {
    HEADROOM_DEVICE void operator()(Block& block, float* y) const {
        const Shared<float> tile = block.shared<float>(kThreads);
        tile[block.thread()] = 0.0f;
        block.sync();
        tile[block.thread()] = block.warp_reduce(1.0f, Sum{});
        block.any(kFullWarp, true);  // all lanes are past their writes, and yet these may not be visible
        y[block.thread()] = tile[block.thread() ^ 1u];
    }
};
/// A reduction's scratch is used again before everybody has read it.
struct MissingSecondSync {
    HEADROOM_DEVICE void operator()(Block& block, float* y) const {
        const Shared<float> tile = block.shared<float>(kThreads);
        for (int round = 0; round < 2; ++round) {
            tile[block.thread()] = static_cast<float>(round);
            block.sync();
            y[block.thread()] = tile[kThreads - 1 - block.thread()];
            // here
        }
    }
};
struct BlocksWriteTheSame {
    HEADROOM_DEVICE void operator()(Block& block, float* y) const { y[block.thread()] = static_cast<float>(block.x()); }
};
struct BlockReadsAnothers {
    HEADROOM_DEVICE void operator()(Block& block, float* y) const {
        if (block.x() == 0) y[block.thread()] = 1.0f;
        if (block.x() == 1 && y[block.thread() ^ 1u] == 1.0f) y[kThreads + block.thread()] = 1.0f;
    }
};
struct SumWithoutAtomics {
    HEADROOM_DEVICE void operator()(Block& block, float* y) const {
        if (block.lane() == 0) y[0] += 1.0f;
    }
};

// --- Memory.

struct SharedPastTheEnd {
    HEADROOM_DEVICE void operator()(Block& block) const {
        const Shared<float> tile = block.shared<float>(kThreads - 1);  // the arena goes on for a bit
        tile[block.thread()] = 1.0f;
    }
};
struct SharedVectorPastTheEnd {
    HEADROOM_DEVICE void operator()(Block& block) const {
        const Shared<float> tile = block.shared<float>(kThreads - 2);
        if (block.thread() == 0) block.store(tile, kThreads - 4, Vector<float, 4>{});
    }
};
struct SharedBeforeTheBegin {
    HEADROOM_DEVICE void operator()(Block& block) const {
        const Shared<float> tile = block.shared<float>(kThreads);
        tile[static_cast<int>(block.thread()) - 1] = 1.0f;
    }
};
struct GlobalPastTheEnd {
    HEADROOM_DEVICE void operator()(Block& block, float* y) const { y[block.thread() + 1] = 1.0f; }
};
struct GlobalVectorPastTheEnd {
    HEADROOM_DEVICE void operator()(Block& block, const float* x, float* y) const {
        const Vector<float, 4> v = block.load<4>(x + block.thread() * 4);
        y[block.thread()] = v[0];
    }
};
struct ReadOfUnwritten {
    HEADROOM_DEVICE void operator()(Block& block, float* y) const {
        const Shared<float> tile = block.shared<float>(kThreads);
        if (block.thread() != 3) tile[block.thread()] = 1.0f;
        block.sync();
        y[block.thread()] = tile[kThreads - 1 - block.thread()];
    }
};
struct MisalignedLoad {
    HEADROOM_DEVICE void operator()(Block& block, const float* x, float* y) const {
        const Vector<float, 4> v = block.load<4>(x + 1);
        y[block.thread()] = v[0];
    }
};
struct MisalignedSharedStore {
    HEADROOM_DEVICE void operator()(Block& block) const {
        const Shared<float> tile = block.shared<float>(kThreads);
        if (block.thread() == 0) block.store(tile, 2, Vector<float, 4>{});
    }
};
struct MoreSharedThanLaunched {
    HEADROOM_DEVICE void operator()(Block& block) const { block.shared<double>(kThreads); }
};
struct SharedInDifferentSizes {
    HEADROOM_DEVICE void operator()(Block& block) const { block.shared<float>(block.warp() + 1); }
};

// --- Collectives.

struct DivergentSync {
    HEADROOM_DEVICE void operator()(Block& block) const {
        if (block.thread() < 16) block.sync();
    }
};
struct ReturnBeforeSync {
    HEADROOM_DEVICE void operator()(Block& block) const {
        if (block.thread() >= 50) return;
        block.sync();
    }
};
struct SyncInBothBranches {
    HEADROOM_DEVICE void operator()(Block& block) const {
        if (block.thread() % 2 == 0)
            block.sync();
        else
            block.sync();
    }
};
struct SyncAgainstWarpSync {
    HEADROOM_DEVICE void operator()(Block& block) const {
        if (block.warp() == 0 && block.lane() == 5)
            block.warp_sync();
        else
            block.sync();
    }
};
struct FullMaskInBranch {
    HEADROOM_DEVICE void operator()(Block& block, float* y) const {
        if (block.lane() < 16) y[block.thread()] = block.shuffle_xor(kFullWarp, 1.0f, 1);
    }
};
struct MaskWithoutCaller {
    HEADROOM_DEVICE void operator()(Block& block) const { block.ballot(0xffff0000u, true); }
};
struct ShuffleFromOutside {
    HEADROOM_DEVICE void operator()(Block& block, float* y) const {
        if (block.lane() < 16) y[block.thread()] = block.shuffle(0x0000ffffu, 1.0f, 16);
    }
};
struct MisalignedTile {
    HEADROOM_DEVICE void operator()(Block& block, const f16* x) const {
        Tile<Operand::a, f16> tile;
        block.load_tile(tile, x + 8, 16);
    }
};
struct TileOfTwoAddresses {
    HEADROOM_DEVICE void operator()(Block& block, const f16* x) const {
        Tile<Operand::a, f16> tile;
        block.load_tile(tile, x + block.lane() / 16 * 256, 16);
    }
};

}  // namespace headroom::simt::faults
