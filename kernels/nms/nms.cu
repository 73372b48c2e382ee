// A block per image. As many boxes as it has threads are compared with those that stay so far, all at once; then, in
// their order, each that is left stays and is compared with those behind it.
#include <headroom/kernels/nms/nms.hpp>

#include <headroom/kernels/device/launch.hpp>
#include <headroom/kernels/device/strided.hpp>

namespace headroom::kernels {

namespace {

using namespace device;

/// [N, K] or, of boxes, [N, K, 4].
struct Table {
    explicit Table(const View& x) : data(x.data), dtype(x.dtype) {
        for (int i = 0; i < x.rank(); ++i) stride[i] = x.stride(i);
    }
    template <class T>
    HEADROOM_DEVICE T load(std::int64_t n, std::int64_t i, int column = 0) const {
        return load_as<T>(data, dtype, n * stride[0] + i * stride[1] + column * stride[2]);
    }
    void* data;
    Dtype dtype;
    std::int64_t stride[3] = {};
};

struct Suppress {
    static constexpr unsigned kMaxThreads = 256;

    double threshold, min_score;

    HEADROOM_DEVICE void operator()(Block& block, std::int64_t images, std::int64_t count, std::int64_t most,
                                    const Table boxes, const Table scores, const Table order, const Table groups,
                                    const Table y) const {
        const Shared<NmsBox> tile = block.shared<NmsBox>(block.threads());
        const Shared<int> stays = block.shared<int>(block.threads());
        const auto box = [&](std::int64_t n, std::int64_t i) {
            return NmsBox{boxes.load<float>(n, i, 0), boxes.load<float>(n, i, 1), boxes.load<float>(n, i, 2),
                          boxes.load<float>(n, i, 3), groups.data ? groups.load<std::int64_t>(n, i) : 0};
        };
        const auto result = [&](std::int64_t n, std::int64_t k) -> std::int64_t& {
            return static_cast<std::int64_t*>(y.data)[n * y.stride[0] + k * y.stride[1]];
        };
        for (std::int64_t n = block.x(); n < images; n += block.grid_x()) {
            std::int64_t kept = 0;
            for (std::int64_t first = 0; first < count && kept < most; first += block.threads()) {
                const unsigned thread = block.thread();
                const bool inside = first + thread < count;
                const std::int64_t i = inside ? order.load<std::int64_t>(n, first + thread) : 0;
                const NmsBox mine = box(n, i);
                bool left = inside && takes_part(scores.load<float>(n, i), min_score);
                for (std::int64_t k = 0; k < kept && left; ++k) left = !box(n, result(n, k)).overlaps(mine, threshold);
                tile[thread] = mine;
                stays[thread] = left ? 1 : 0;
                block.sync();
                for (unsigned t = 0; t < block.threads() && kept < most; ++t) {
                    if (stays[t] == 0) continue;  // alike for all: what was written since is behind t
                    if (thread == t) result(n, kept) = i;
                    const NmsBox other = tile[t];
                    if (thread > t && left && other.overlaps(mine, threshold)) left = false, stays[thread] = 0;
                    ++kept;
                    block.sync();
                }
                block.sync();
            }
            for (std::int64_t k = kept + block.thread(); k < most; k += block.threads()) result(n, k) = -1;
        }
    }
};

}  // namespace

void nms(CudaStream& stream, const Nms& call, const View& y) {
    if (y.numel() == 0) return;
    constexpr unsigned threads = Suppress::kMaxThreads;
    launch(stream,
           {.x = grid_for(stream, y.size(0), 1),
            .loops = true,
            .threads = threads,
            .shared_bytes = shared_size<NmsBox>(threads) + shared_size<int>(threads)},
           Suppress{call.threshold, call.min_score}, call.boxes.size(0), call.boxes.size(1), y.size(1),
           Table(call.boxes), Table(call.scores), Table(call.order), Table(call.groups), Table(y));
}

}  // namespace headroom::kernels
