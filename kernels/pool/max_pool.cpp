#include <headroom/kernels/pool/max_pool.hpp>

#include <algorithm>
#include <limits>

#include <headroom/kernels/dispatch.hpp>
#include <headroom/kernels/parallel.hpp>
#include <headroom/kernels/pixels.hpp>

// Numbers inside of a window are held as T beside the values, so that vectors of both have as many lanes.

namespace headroom::kernels {

namespace {

/// Where the taps are larger, the largest and their numbers.
template <class T>
void choose(const Taps<T>& taps, std::int64_t count, T* largest, T* number) {
    for_each_lanes<T>(count, [&]<class V>(TypeTag<V>, std::int64_t c) {
        V best = load_run<V>(largest + c), chosen = load_run<V>(number + c);
        for (int i = 0; i < taps.count; ++i) {
            const V x = load_run<V>(taps.at[i] + c);
            const auto takes = (x > best) | (x != x);
            best = takes ? x : best;
            chosen = takes ? taps.number[i] - V{} : chosen;
        }
        store_run(best, largest + c);
        store_run(chosen, number + c);
    });
}

/// sums += the taps whose number is the one in `places`.
template <class T>
void add_chosen(const Taps<T>& taps, const Taps<T>& places, std::int64_t count, T* sums) {
    for_each_lanes<T>(count, [&]<class V>(TypeTag<V>, std::int64_t c) {
        V sum = load_run<V>(sums + c);
        for (int i = 0; i < taps.count; ++i) {
            const V x = load_run<V>(taps.at[i] + c);
            sum += load_run<V>(places.at[i] + c) == taps.number[i] - V{} ? x : V{};
        }
        store_run(sum, sums + c);
    });
}

template <class T>
void write_places(const Rows& places, const View& place, const T* number, std::int64_t pixel, std::int64_t begin,
                  std::int64_t count) {
    if (place.dtype != Dtype::u8 || places.stride() != 1) return places.write(number, pixel, begin, count);
    auto* const bytes = reinterpret_cast<std::uint8_t*>(places.at(pixel, begin));
    for (std::int64_t c = 0; c < count; ++c) bytes[c] = static_cast<std::uint8_t>(static_cast<int>(number[c]));
}

}  // namespace

void max_pool(CpuStream& stream, const View& x, const MaxPool& pool, const View& y, const View& place) {
    if (y.numel() == 0) return;
    const Rows in(pixels_of(x)), out(pixels_of(y)), places(pixels_of(place));
    const std::int64_t height = y.size(2), width = y.size(3);
    const auto run = [&]<class T>(TypeTag<T>) {
        parallel_for(stream, y.size(0) * height, 2 * std::max(x.numel(), y.numel()), [&](std::int64_t line) {
            const std::int64_t i = line % height, first_row = line / height * x.size(2);
            const PoolAxis::Span rows = pool.rows.elements(i, x.size(2));
            Taps<T> taps;
            T target[kChunk], number[kChunk];
            for (std::int64_t j = 0; j < width; ++j) {
                const PoolAxis::Span columns = pool.columns.elements(j, x.size(3));
                const std::int64_t pixel = line * width + j;
                for_each_chunk(out.length(), [&](std::int64_t begin, std::int64_t count) {
                    T* const largest = out.target(pixel, begin, count, target);
                    std::fill_n(largest, count, -std::numeric_limits<T>::infinity());
                    std::fill_n(number, count, static_cast<T>(rows.begin * pool.columns.kernel + columns.begin));
                    for (std::int64_t r = rows.begin; r < rows.end; ++r) {
                        const std::int64_t row = first_row + pool.rows.input(i, r);
                        for (std::int64_t s = columns.begin; s < columns.end; ++s) {
                            if (taps.count == kTaps) {
                                choose(taps, count, largest, number);
                                taps.count = 0;
                            }
                            taps.add(in, row * x.size(3) + pool.columns.input(j, s), begin, count,
                                     static_cast<T>(r * pool.columns.kernel + s));
                        }
                    }
                    choose(taps, count, largest, number);
                    taps.count = 0;
                    out.write(largest, pixel, begin, count);
                    write_places(places, place, number, pixel, begin, count);
                });
            }
        });
    };
    const bool wide = x.dtype == Dtype::f64 || y.dtype == Dtype::f64;
    wide ? run(TypeTag<double>{}) : run(TypeTag<float>{});
}

void max_pool_gradient(CpuStream& stream, const View& dy, const View& place, const MaxPool& pool, float beta,
                       const View& dx) {
    if (dx.numel() == 0) return;
    const Rows in(pixels_of(dy)), numbers(pixels_of(place)), out(pixels_of(dx));
    const std::int64_t height = dx.size(2), width = dx.size(3);
    const auto run = [&]<class T>(TypeTag<T>) {
        parallel_for(stream, dx.size(0) * height, 2 * std::max(dx.numel(), dy.numel()), [&](std::int64_t line) {
            const std::int64_t i = line % height, first_row = line / height * dy.size(2);
            const PoolAxis::Span rows = pool.rows.windows(i, dy.size(2));
            Taps<T> taps, places;
            T target[kChunk];
            for (std::int64_t j = 0; j < width; ++j) {
                const PoolAxis::Span columns = pool.columns.windows(j, dy.size(3));
                for_each_chunk(out.length(), [&](std::int64_t begin, std::int64_t count) {
                    T* const sums = out.target(line * width + j, begin, count, target, beta);
                    std::fill_n(sums, count, T{0});
                    const auto add = [&] {
                        add_chosen(taps, places, count, sums);
                        taps.count = places.count = 0;
                    };
                    for (std::int64_t r = rows.begin; r < rows.end; ++r) {
                        const std::int64_t row = pool.rows.element(i, r);
                        for (std::int64_t s = columns.begin; s < columns.end && row >= 0; ++s) {
                            const std::int64_t column = pool.columns.element(j, s);
                            if (column < 0) continue;
                            if (taps.count == kTaps) add();
                            const std::int64_t pixel = (first_row + r) * dy.size(3) + s;
                            taps.add(in, pixel, begin, count, static_cast<T>(row * pool.columns.kernel + column));
                            places.add(numbers, pixel, begin, count, T{0});
                        }
                    }
                    add();
                    out.write(sums, line * width + j, begin, count, beta);
                });
            }
        });
    };
    const bool wide = dx.dtype == Dtype::f64 || dy.dtype == Dtype::f64;
    wide ? run(TypeTag<double>{}) : run(TypeTag<float>{});
}

}  // namespace headroom::kernels
