#include <headroom/kernels/sum_of_squares/sum_of_squares.hpp>

#include <bit>

#include <headroom/kernels/device/eights.hpp>
#include <headroom/kernels/device/launch.hpp>
#include <headroom/kernels/device/strided.hpp>
#include <headroom/kernels/dispatch.hpp>
#include <headroom/kernels/reduce/internal/sources.cuh>

namespace headroom::kernels {

namespace {

using namespace device;

constexpr unsigned kThreads = 256;

/// result = beta result + total
struct Target {
    double* result;
    float beta;

    HEADROOM_DEVICE void put(double total) const {
        *result = beta == 0 ? total : static_cast<double>(beta) * *result + total;
    }
};

/// A block sums one part, whose border depends on the number of elements alone.
template <class Source>
struct SquaresOfPart {
    static constexpr unsigned kMaxThreads = kThreads;
    static constexpr int kWidth = Source::kWidth;

    Source x;
    std::int64_t count;
    double* partials;  ///< null: there is one part
    Target target;

    HEADROOM_DEVICE void operator()(Block& block) const {
        const std::int64_t groups = count / kWidth, part = block.x(), parts = block.grid_x();
        double sums[kWidth] = {};
        const auto load = [&](std::int64_t i) { return x.load(block, kWidth * i); };
        const auto add = [&](const Numbers<typename Source::Number, kWidth>& values) {
#pragma unroll
            for (int k = 0; k < kWidth; ++k) {
                const auto value = static_cast<double>(values[k]);
                sums[k] += value * value;
            }
        };
        in_fours(groups * part / parts + block.thread(), groups * (part + 1) / parts, block.threads(), load, add,
                 [] {});
        const std::int64_t rest = groups * kWidth + block.thread();
        if (part + 1 == parts && rest < count) {
            const auto value = static_cast<double>(x.one(rest));
            sums[0] += value * value;
        }
        double total = 0;
#pragma unroll
        for (int k = 0; k < kWidth; ++k) total += sums[k];
        total = block.sum<double>(total, block.shared<double>(block.warps()));
        if (block.thread() != 0) return;
        if (partials) {
            partials[part] = total;
        } else {
            target.put(total);
        }
    }
};

struct JoinSquares {
    static constexpr unsigned kMaxThreads = kThreads;

    const double* partials;
    std::int64_t parts;
    Target target;

    HEADROOM_DEVICE void operator()(Block& block) const {
        double total = 0;
        for (std::int64_t part = block.thread(); part < parts; part += block.threads()) total += partials[part];
        total = block.sum<double>(total, block.shared<double>(block.warps()));
        if (block.thread() == 0) target.put(total);
    }
};

struct ClearFlag {
    HEADROOM_DEVICE void operator()(Block& block, unsigned* found) const {
        if (block.thread() == 0) *found = 0;
    }
};

/// Sets `found` to 1 if an element is infinite or NaN: 0 times a finite number is 0, times anything else NaN.
template <class T, class Elements>
struct FindNotFinite {
    static constexpr unsigned kMaxThreads = kThreads;

    Elements x;
    unsigned* found;

    HEADROOM_DEVICE void operator()(Block& block) const {
        T sum = 0;
        if constexpr (std::is_same_v<Elements, Eights<1>>) {
            for (std::int64_t group = block.global_thread(); group < x.groups(); group += block.global_threads()) {
                const Floats<8> values = x.load(block, 0, x.offsets(group));
#pragma unroll
                for (int k = 0; k < 8; ++k) sum += values[k] * 0.0f;
            }
            const std::int64_t rest = x.rest(block.global_thread());
            if (rest >= 0) sum += x.load_one(0, rest) * 0.0f;
        } else {
            for (std::int64_t i = block.global_thread(); i < x.numel(); i += block.global_threads()) {
                sum += x.template load<T>(0, x.offsets(i)) * T(0);
            }
        }
        const bool bad = block.any(kFullWarp, !(sum == T(0)));
        if (bad && block.lane() == 0) block.atomic_cas(found, 0u, 1u);
    }
};

template <class T, class Elements>
void find_not_finite(CudaStream& stream, const Elements& x, std::int64_t steps, unsigned* found) {
    device::launch(stream, {.x = grid_for(stream, steps, kThreads), .loops = true, .threads = kThreads},
                   FindNotFinite<T, Elements>{x, found});
}

}  // namespace

void SumOfSquaresPlan::run(CudaStream& stream, std::byte* scratch) const {
    const std::int64_t count = x_.numel(), parts = cuda_parts_;
    double* partials = parts > 1 ? reinterpret_cast<double*>(scratch) : nullptr;
    const Target target{result_.as<double>(), beta_};
    const std::size_t shared = shared_size<double>(kThreads / kWarp);
    const auto run = [&]<class Source>(const Source& source) {
        device::launch(stream, {.x = blocks_for(parts, 1), .threads = kThreads, .shared_bytes = shared},
                       SquaresOfPart<Source>{source, count, partials, target});
    };
    const bool aligned = std::bit_cast<std::uintptr_t>(x_.data) % 16 == 0;
    if (x_.dtype == Dtype::f64) {
        run(AnyElements<double>{x_.data, x_.dtype});
    } else if (!aligned) {
        run(AnyEights{x_.data, x_.dtype, aligned});
    } else if (x_.dtype == Dtype::f16) {
        run(AlignedEights<f16>{x_.as<const f16>()});
    } else if (x_.dtype == Dtype::bf16) {
        run(AlignedEights<bf16>{x_.as<const bf16>()});
    } else {
        run(AlignedEights<float>{x_.as<const float>()});
    }
    if (!partials) return;
    device::launch(stream, {.threads = kThreads, .shared_bytes = shared}, JoinSquares{partials, parts, target});
}

bool all_finite(CudaStream& stream, const View& x, std::byte* scratch) {
    if (x.numel() == 0) return true;
    auto* found = reinterpret_cast<unsigned*>(scratch);
    device::launch(stream, {.threads = kWarp}, ClearFlag{}, found);
    const Eights<1> eights({&x});
    const Strided<1> strided({&x});
    if (eights.possible()) {
        find_not_finite<float>(stream, eights, x.numel() / 8 + 7, found);
    } else if (x.dtype == Dtype::f64) {
        find_not_finite<double>(stream, strided, strided.numel(), found);
    } else {
        find_not_finite<float>(stream, strided, strided.numel(), found);
    }
    unsigned answer = 0;
    stream.device->copy_to_host(found, &answer, sizeof answer);
    return answer == 0;
}

}  // namespace headroom::kernels
