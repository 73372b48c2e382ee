#include <headroom/kernels/sort/sort.hpp>

#include <headroom/kernels/device/launch.hpp>
#include <headroom/kernels/device/prefix_sum.cuh>
#include <headroom/kernels/device/strided.hpp>
#include <headroom/kernels/gather/internal/segments.hpp>
#include <headroom/kernels/sort/internal/keys.hpp>

namespace headroom::kernels {

namespace {

using namespace headroom::kernels::device;

constexpr unsigned kThreads = 256;

/// The elements of x that are sorted, some of each line: by the selection, or all.
struct Candidates {
    StridedAxes<1> x;
    const void* data;
    Dtype dtype;
    bool descending;
    std::int64_t length;  ///< of a line of x
    Divisor kept;         ///< of these are sorted
    const std::uint32_t* selected;

    HEADROOM_DEVICE std::int64_t line(std::int64_t i) const {
        return static_cast<std::int64_t>(kept.divide(static_cast<std::uint64_t>(i)));
    }
    /// In its line, of candidate i counted over all lines.
    HEADROOM_DEVICE std::int64_t position(std::int64_t i) const {
        return selected ? selected[i] : i - line(i) * length;
    }
    HEADROOM_DEVICE std::uint64_t key(std::int64_t line, std::int64_t position) const {
        return sort_key(data, dtype, x.offsets(line * length + position)[0], descending);
    }
};

/// keys[i] = a word of the key of the element that stands at i so far, or its line.
struct MakeKeys {
    static constexpr unsigned kMaxThreads = kThreads;

    HEADROOM_DEVICE void operator()(Block& block, const Candidates from, std::int64_t first, std::int64_t n, int word,
                                    const std::uint32_t* order, std::uint32_t* keys) const {
        for (std::int64_t i = block.global_thread(); i < n; i += block.global_threads()) {
            const std::int64_t candidate = order ? order[i] : i;
            if (word < 0) {
                keys[i] = static_cast<std::uint32_t>(from.line(candidate));
            } else {
                const std::uint64_t key = from.key(from.line(first + candidate), from.position(first + candidate));
                keys[i] = static_cast<std::uint32_t>(key >> 32 * word);
            }
        }
    }
};

struct PutPositions {
    static constexpr unsigned kMaxThreads = kThreads;

    HEADROOM_DEVICE void operator()(Block& block, const Candidates from, std::int64_t first, std::int64_t n,
                                    const std::uint32_t* order, const Strided<1> y) const {
        for (std::int64_t i = block.global_thread(); i < n; i += block.global_threads())
            static_cast<std::int64_t*>(y.data(0))[y.offsets(first + i)[0]] = from.position(first + order[i]);
    }
};

/// A block per line notes the positions of its first `kept` elements, in ascending order. The key of the last of them
/// is found digit by digit, highest first, by counting the elements that share the digits found so far.
struct SelectFirst {
    static constexpr unsigned kMaxThreads = 1024;
    static constexpr unsigned kDigits = 256;

    Candidates from;
    int bits;

    HEADROOM_DEVICE void operator()(Block& block, std::int64_t lines, std::uint32_t* selected) const {
        const Shared<unsigned> counts = block.shared<unsigned>(kDigits);
        const Shared<std::uint32_t> sums = block.shared<std::uint32_t>(block.warps());
        const Shared<std::int64_t> found = block.shared<std::int64_t>(2);
        for (std::int64_t line = block.x(); line < lines; line += block.grid_x()) {
            std::uint64_t last = 0;
            std::int64_t left = from.kept.value();  // of the elements that share the digits, so many are taken
            for (int shift = bits - 8; shift >= 0; shift -= 8) {
                count(block, line, last, shift, counts);
                if (block.thread() == 0) {
                    std::int64_t digit = 0, before = 0;
                    for (; before + counts[static_cast<unsigned>(digit)] < left; ++digit)
                        before += counts[static_cast<unsigned>(digit)];
                    found[0] = digit, found[1] = before;
                }
                block.sync();
                last |= static_cast<std::uint64_t>(found[0]) << shift;
                left -= found[1];
                block.sync();
            }
            note(block, line, last, left, sums, selected + line * from.kept.value());
        }
    }

    /// How often each digit occurs among the elements whose higher digits are those of `last`.
    HEADROOM_DEVICE void count(Block& block, std::int64_t line, std::uint64_t last, int shift,
                               Shared<unsigned> counts) const {
        for (unsigned i = block.thread(); i < kDigits; i += block.threads()) counts[i] = 0;
        block.sync();
        for (std::int64_t i = block.thread(); i < from.length; i += block.threads()) {
            const std::uint64_t key = from.key(line, i);
            if (((key ^ last) >> shift >> 8) == 0) block.atomic_add(counts, key >> shift & (kDigits - 1), 1u);
        }
        block.sync();
    }

    /// Those before `last`, and the first `equal` of those that have that key.
    HEADROOM_DEVICE void note(Block& block, std::int64_t line, std::uint64_t last, std::int64_t equal,
                              Shared<std::uint32_t> sums, std::uint32_t* selected) const {
        std::int64_t done_before = 0, done_equal = 0;
        for (std::int64_t first = 0; first < from.length; first += block.threads()) {
            const std::int64_t i = first + block.thread();
            const std::uint64_t key = i < from.length ? from.key(line, i) : ~std::uint64_t{0};
            const bool is_before = i < from.length && key < last, is_equal = i < from.length && key == last;
            std::uint32_t total = 0;  // of two counts, 16 bits each
            const std::uint32_t mine = (is_before ? 1u : 0u) | (is_equal ? 1u << 16 : 0u);
            const std::uint32_t others = sum_before(block, mine, sums, total);
            const std::int64_t equals = done_equal + (others >> 16);
            if (is_before || (is_equal && equals < equal)) {
                const std::int64_t place = done_before + (others & 0xffff) + (equals < equal ? equals : equal);
                selected[place] = static_cast<std::uint32_t>(i);
            }
            done_before += total & 0xffff;
            done_equal += total >> 16;
        }
    }
};

}  // namespace

void OrderPlan::run(CudaStream& stream, std::byte* scratch) const {
    if (lines_ == 0) return;
    auto* const selected = reinterpret_cast<std::uint32_t*>(scratch + sort_.bytes());
    const bool all = kept_ == length_;
    const int bits = sort_key_bits(x_.dtype);
    const Candidates from{StridedAxes<1>(Walk({&x_}, Walk::Order::shape), 1),
                          x_.data,
                          x_.dtype,
                          descending_,
                          length_,
                          Divisor(kept_),
                          all ? nullptr : selected};
    if (!all) {
        const unsigned threads = length_ > 4096 ? 1024 : kThreads;
        const std::size_t shared = shared_size<unsigned>(SelectFirst::kDigits) +
                                   shared_size<std::uint32_t>(threads / kWarp) + shared_size<std::int64_t>(2);
        launch(stream, {.x = grid_for(stream, lines_, 1), .loops = true, .threads = threads, .shared_bytes = shared},
               SelectFirst{from, bits}, lines_, selected);
    }
    const auto list = [&](std::size_t at) { return reinterpret_cast<std::uint32_t*>(scratch + at); };
    for (std::int64_t line = 0; line < lines_; line += lines_at_once_) {
        const std::int64_t lines = std::min(lines_at_once_, lines_ - line), first = line * kept_;
        SortPlan sort = sort_;
        sort.count = lines * kept_;
        const LaunchShape shape{.x = grid_for(stream, sort.count, kThreads), .loops = true, .threads = kThreads};
        const std::uint32_t* order = nullptr;
        for (int word = 0; 32 * word < bits; ++word) {
            launch(stream, shape, MakeKeys{}, from, first, sort.count, word, order, list(sort.keys_at(0)));
            order = sort_positions(stream, sort, scratch, order).order;
        }
        if (lines > 1) {
            sort.keys = lines;
            launch(stream, shape, MakeKeys{}, from, first, sort.count, -1, order, list(sort.keys_at(0)));
            order = sort_positions(stream, sort, scratch, order).order;
        }
        launch(stream, shape, PutPositions{}, from, first, sort.count, order, Strided<1>({&y_}, Walk::Order::shape));
    }
}

}  // namespace headroom::kernels
