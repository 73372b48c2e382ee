#include <headroom/kernels/nms/nms.hpp>

#include <headroom/kernels/convert.hpp>
#include <headroom/kernels/indices.hpp>
#include <headroom/kernels/parallel.hpp>
#include <headroom/kernels/rows.hpp>

namespace headroom::kernels {

void nms(CpuStream& stream, const Nms& call, const View& y) {
    const Rows boxes(call.boxes), out(y);
    const std::int64_t images = call.boxes.size(0), count = call.boxes.size(1), most = y.size(1);
    const Indices order(call.order), groups(call.groups);
    const auto box = [&](std::int64_t n, std::int64_t i) {
        float numbers[4];
        const float* const at = boxes.read(n * count + i, 0, 4, numbers);
        return NmsBox{at[0], at[1], at[2], at[3], call.groups.data ? groups[n * count + i] : 0};
    };
    const auto score = [&](std::int64_t n, std::int64_t i) {
        const std::int64_t offset = n * call.scores.stride(0) + i * call.scores.stride(1);
        return load_one<float>(call.scores.at(offset), call.scores.dtype);
    };
    parallel_for(stream, images, images * count * most, [&](std::int64_t n) {
        auto* const result = reinterpret_cast<std::int64_t*>(out.at(n));
        std::int64_t kept = 0;
        for (std::int64_t k = 0; k < count && kept < most; ++k) {
            const std::int64_t i = order[n * count + k];
            bool stays = takes_part(score(n, i), call.min_score);
            const NmsBox candidate = box(n, i);
            for (std::int64_t j = 0; j < kept && stays; ++j)
                stays = !box(n, result[j * out.stride()]).overlaps(candidate, call.threshold);
            if (stays) result[kept++ * out.stride()] = i;
        }
        for (; kept < most; ++kept) result[kept * out.stride()] = -1;
    });
}

}  // namespace headroom::kernels
