#include <headroom/kernels/recurrent/recurrent.hpp>

#include <algorithm>

#include <headroom/kernels/indices.hpp>
#include <headroom/kernels/parallel.hpp>
#include <headroom/kernels/recurrent/internal/rows_in_time.hpp>

namespace headroom::kernels {

void check_last(CpuStream&, const char* what, const View& last, std::int64_t time) {
    Indices(last).check_less_one(what, time);
}

void states_before(CpuStream& stream, const View& y, const View& h0, const Passage& passage, std::int64_t first,
                   const View& states) {
    const std::int64_t time = y.size(0), batch = y.size(1);
    const Rows from(y), start(h0), out(states);
    const Ends ends(passage.last);
    dispatch_compute(y.dtype, [&]<class T>(TypeTag<T>) {
        parallel_for(stream, out.count(), states.numel(), [&](std::int64_t row) {
            const std::int64_t b = row % batch, t = first + row / batch;
            const std::int64_t before = passage.reverse ? t + 1 : t - 1;
            const bool begins = before < 0 || before >= time || (passage.reverse && ends.ended(b, before));
            T buffer[kChunk];
            for_each_chunk(out.length(), [&](std::int64_t begin, std::int64_t count) {
                const T* values = buffer;
                if (!begins) {
                    values = from.read(before * batch + b, begin, count, buffer);
                } else if (h0.rank() != 0) {
                    values = start.read(b, begin, count, buffer);
                } else {
                    std::fill_n(buffer, count, T{0});
                }
                store(values, count, out.at(row, begin), states.dtype, out.stride());
            });
        });
    });
}

}  // namespace headroom::kernels
