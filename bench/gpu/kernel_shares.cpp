// How near each kernel comes to what the GPU can do: bytes that it must move, per second, as a share of a
// device-to-device copy measured in the same run; matrix products and attention beside the fastest large product. Sizes
// are of GPT-2 124M at 64 x 1024 tokens, well beyond the caches. One JSON object on standard output, a row of it as
// soon as it is measured, so that "]}" completes what was stopped; progress on standard error.
//   kernel_shares [PATTERN]
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <deque>
#include <functional>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include <headroom/bench/gpu/timer.hpp>
#include <headroom/kernels/attention/attention.hpp>
#include <headroom/kernels/copy/copy.hpp>
#include <headroom/kernels/cross_entropy/cross_entropy.hpp>
#include <headroom/kernels/device/cuda_device.hpp>
#include <headroom/kernels/dropout/dropout.hpp>
#include <headroom/kernels/embedding/embedding.hpp>
#include <headroom/kernels/fill/fill.hpp>
#include <headroom/kernels/layer_norm/layer_norm.hpp>
#include <headroom/kernels/matmul/internal/activate.hpp>
#include <headroom/kernels/matmul/matmul.hpp>
#include <headroom/kernels/optimizer/adamw.hpp>
#include <headroom/kernels/pointwise/pointwise.hpp>
#include <headroom/kernels/random/random.hpp>
#include <headroom/kernels/reduce/reduce.hpp>
#include <headroom/kernels/rms_norm/rms_norm.hpp>
#include <headroom/kernels/softmax/softmax.hpp>
#include <headroom/kernels/sum_of_squares/sum_of_squares.hpp>
#include <headroom/memory/buffer.hpp>
#include <headroom/memory/device_memory.hpp>

namespace {

using namespace headroom;
using namespace headroom::kernels;
using memory::Buffer;
using memory::DeviceMemory;

constexpr std::int64_t kRows = 64 * 1024, kWidth = 768, kClasses = 50304, kParameters = 124'475'904;

/// What the GPU reaches, per millisecond.
struct Ceilings {
    double bytes = 1, operations = 1;
};

class Bench {
  public:
    explicit Bench(std::string pattern)
        : pattern_(std::move(pattern)),
          device_(open_cuda_device(0)),
          memory_(device_->make_driver()),
          timer_(static_cast<cudaStream_t>(device_->native())) {
        stream_ = CudaStream{.threads = 1, .state = &state_, .device = device_.get()};
        any_ = stream_;
    }

    CudaStream& stream() { return stream_; }
    Stream& any() { return any_; }
    CudaDevice& device() { return *device_; }

    /// Normal values; of integers, in [0, bound). Lives until `forget`.
    View array(Dtype dtype, const Shape& shape, std::int64_t bound = 0) {
        const View view =
            contiguous_view(bytes(static_cast<std::size_t>(shape.numel()) * size_of(dtype)), dtype, shape);
        const auto key = op_key(1, buffers_.size());
        if (bound > 0) {
            random_integers(stream_, key, 0, bound, view);
        } else {
            normal(stream_, key, 0.0f, 1.0f, view);
        }
        return view;
    }
    std::byte* bytes(std::size_t count) {
        if (count == 0) return nullptr;
        buffers_.push_back(Buffer::allocate(memory_, count, 0, {}));
        return buffers_.back().data();
    }
    void forget() {
        device_->synchronize();
        buffers_.clear();
    }
    bool wanted(std::string_view name) const { return name.find(pattern_) != std::string_view::npos; }

    /// `bytes`: the fewest that the work must move; `operations`: additions and multiplications.
    void measure(const std::string& name, double bytes, double operations, const std::function<void()>& work) {
        if (!wanted(name)) return;
        const double milliseconds = timer_.median(work), gigabytes = bytes / milliseconds / 1e6,
                     teraflops = operations / milliseconds / 1e9;
        fmt::print(stderr, "{:44}{:10.4f} ms{:10.1f} GB/s{:10.1f} TFLOP/s\n", name, milliseconds, gigabytes, teraflops);
        fmt::print(
            "{}\n  {{\"name\": \"{}\", \"milliseconds\": {:.5f}, \"share_of_copy\": {:.4f}, \"share_of_product\": "
            "{:.4f}}}",
            separator_, name, milliseconds, bytes / milliseconds / ceilings_.bytes,
            operations / milliseconds / ceilings_.operations);
        std::fflush(stdout);
        separator_ = ",";
    }

    /// What the others are measured by: `amount` per millisecond.
    double ceiling(const std::string& name, double amount, const std::function<void()>& work) {
        const double milliseconds = timer_.median(work);
        fmt::print(stderr, "{:44}{:10.4f} ms\n", name, milliseconds);
        return amount / milliseconds;
    }

    /// Before the first row.
    void begin(const Ceilings& ceilings) {
        ceilings_ = ceilings;
        fmt::print(
            "{{\"gpu\": \"{}\", \"copy_gigabytes_per_second\": {:.1f}, \"product_teraflops\": {:.1f}, \"kernels\": [",
            device_->properties().name, ceilings.bytes / 1e6, ceilings.operations / 1e9);
        std::fflush(stdout);
    }
    /// After the last one: only then is it known who computed all of the attention, and the products.
    void end() {
        fmt::print("\n], \"attention\": \"{}\", \"products\": \"{}\"}}\n", attention_library(stream_),
                   matmul_library(stream_));
    }

  private:
    std::string pattern_;
    std::unique_ptr<CudaDevice> device_;
    DeviceMemory memory_;
    StreamState state_;
    CudaStream stream_;
    Stream any_;
    GpuTimer timer_;
    std::deque<Buffer> buffers_;
    Ceilings ceilings_;
    const char* separator_ = "";
};

double size(const View& view) { return static_cast<double>(view.numel()) * static_cast<double>(size_of(view.dtype)); }

/// What the product needs, whether it's done at once or in parts.
struct Work {
    double bytes, operations;

    explicit Work(const Matmul& product)
        : bytes(size(product.a) + size(product.b) + size(product.c)),
          operations(2 * static_cast<double>(product.c.numel()) * static_cast<double>(product.a.size(1))) {
        if (product.has_inner()) bytes += size(product.inner);
        if (product.has_outer()) bytes += size(product.outer);
    }
};

/// Planned for each run, as an op does.
template <class Plan, class... Call>
auto planned(Bench& bench, const Call&... call) {
    return [&bench, call..., scratch = bench.bytes(Plan(bench.any(), call...).scratch())] {
        Plan(bench.any(), call...).run(bench.stream(), scratch);
    };
}

void matmul(Bench& bench, const std::string& name, const Matmul& product) {
    const Work work(product);
    bench.measure(name, work.bytes, work.operations, planned<MatmulPlan>(bench, product));
}

/// Also as it is done where the library's epilogues can't: the product is the library's, passes of our own the rest.
void fused_matmul(Bench& bench, const std::string& name, const Matmul& product) {
    matmul(bench, name, product);
    const Work work(product);
    Matmul alone{.a = product.a, .b = product.b, .c = product.c, .bias = product.bias, .beta = product.beta};
    if (product.has_inner() && !product.derivative) alone.c = product.inner;
    const auto run = planned<MatmulPlan>(bench, alone);
    View sums = product.sums;
    sums.shape.push_back(1);
    sums.strides.push_back(1);
    const auto run_sums = planned<SumPlan>(bench, product.a, 1.0, sums, product.sums_beta);
    bench.measure(name + ", by parts", work.bytes, work.operations, [&] {
        if (product.has_sums()) run_sums();
        run();
        if (product.has_inner()) finish_activation(bench.stream(), product);
    });
}

void pointwise(Bench& bench, Dtype dtype, const std::string& suffix) {
    const View x = bench.array(dtype, {kRows, 4 * kWidth}), y = bench.array(dtype, {kRows, 4 * kWidth}),
               z = bench.array(dtype, {kRows, 4 * kWidth}), row = bench.array(dtype, {4 * kWidth});
    CudaStream& stream = bench.stream();
    bench.measure("gelu" + suffix, 2 * size(x), 0, [&] { map(stream, GeluTanh{}, x, y); });
    bench.measure("gelu_backward" + suffix, 3 * size(x), 0, [&] { map_backward(stream, GeluTanh{}, x, y, 0.0f, z); });
    bench.measure("add" + suffix, 3 * size(x), 0, [&] { map(stream, Add{}, x, y, z); });
    bench.measure("add_row" + suffix, 2 * size(x), 0, [&] { map(stream, Add{}, x, row, z); });
    bench.measure("dropout" + suffix, 2 * size(x), 0, [&] { dropout(stream, op_key(1, 2), 0.1f, x, y); });
    bench.measure("dropout_add" + suffix, 3 * size(x), 0, [&] { dropout_add(stream, op_key(1, 2), 0.1f, x, y, z); });
    bench.measure("accumulate" + suffix, 3 * size(x), 0, [&] { accumulate(stream, x, y, 1.0f, 1.0f); });
    bench.forget();
}

void casts(Bench& bench) {
    const View wide = bench.array(Dtype::f32, {kRows, 4 * kWidth}),
               narrow = bench.array(Dtype::bf16, {kRows, 4 * kWidth}),
               other = bench.array(Dtype::bf16, {kRows, 4 * kWidth});
    CudaStream& stream = bench.stream();
    bench.measure("cast f32 to bf16", size(wide) + size(narrow), 0, [&] { copy(stream, wide, narrow); });
    bench.measure("cast bf16 to f32", size(wide) + size(narrow), 0, [&] { copy(stream, narrow, wide); });
    bench.measure("copy bf16", 2 * size(narrow), 0, [&] { copy(stream, narrow, other); });
    View across = contiguous_view(other.data, Dtype::bf16, {4 * kWidth, kRows});
    bench.measure("transpose bf16", 2 * size(narrow), 0, [&] { copy(stream, transposed(narrow), across); });
    bench.forget();
}

void norms(Bench& bench, Dtype dtype, const std::string& suffix) {
    const View x = bench.array(dtype, {kRows, kWidth}), y = bench.array(dtype, {kRows, kWidth}),
               dx = bench.array(dtype, {kRows, kWidth}), gamma = bench.array(Dtype::f32, {kWidth}),
               beta = bench.array(Dtype::f32, {kWidth}), mean = bench.array(Dtype::f32, {kRows}),
               rstd = bench.array(Dtype::f32, {kRows});
    CudaStream& stream = bench.stream();
    bench.measure("layer_norm" + suffix, 2 * size(x), 0,
                  [&] { layer_norm(stream, x, &gamma, &beta, 1e-5, y, mean, rstd); });
    bench.measure("layer_norm_backward" + suffix, 3 * size(x), 0,
                  planned<LayerNormGradientPlan>(bench, x, y, &gamma, mean, rstd,
                                                 LayerNormGradients{.x = &dx, .gamma = &gamma, .beta = &beta}));
    bench.measure("rms_norm" + suffix, 2 * size(x), 0, [&] { rms_norm(stream, x, &gamma, 1e-5, y, rstd); });
    bench.measure("rms_norm_backward" + suffix, 3 * size(x), 0,
                  planned<RmsNormGradientPlan>(bench, x, y, &gamma, rstd, RmsNormGradients{.x = &dx, .gamma = &gamma}));
    bench.measure("softmax" + suffix, 2 * size(x), 0, [&] { softmax(stream, x, y); });
    bench.measure("softmax_backward" + suffix, 3 * size(x), 0, [&] { softmax_backward(stream, y, x, dx, 0.0f); });
    bench.forget();
}

void reductions(Bench& bench, Dtype dtype, const std::string& suffix) {
    const View dy = bench.array(dtype, {kRows, 4 * kWidth}), bias = bench.array(Dtype::f32, {4 * kWidth}),
               rows = bench.array(Dtype::f32, {kRows, 1}), square = bench.array(Dtype::f64, {}),
               flat = contiguous_view(dy.data, dtype, {dy.numel()});
    bench.measure("sum of columns" + suffix, size(dy), 0, planned<SumPlan>(bench, dy, 1.0, bias, 0.0f));
    bench.measure("sum of rows" + suffix, size(dy), 0, planned<SumPlan>(bench, dy, 1.0, rows, 0.0f));
    bench.measure("sum_of_squares" + suffix, size(dy), 0, planned<SumOfSquaresPlan>(bench, flat, square, 0.0f));
    bench.forget();
}

void losses(Bench& bench, Dtype dtype, const std::string& suffix) {
    const std::int64_t rows = kRows / 8;
    const View logits = bench.array(dtype, {rows, kClasses}), targets = bench.array(Dtype::i32, {rows}, kClasses),
               lse = bench.array(Dtype::f32, {rows}), loss = bench.array(Dtype::f32, {}),
               terms = bench.array(Dtype::f64, {}), dlogits = bench.array(dtype, {rows, kClasses});
    CudaStream& stream = bench.stream();
    bench.measure("cross_entropy" + suffix, size(logits), 0,
                  planned<CrossEntropyPlan>(bench, logits, targets, ClassWeights{}, CrossEntropyOptions{}, loss, terms,
                                            0.0f, lse));
    bench.measure("cross_entropy_backward" + suffix, 2 * size(logits), 0,
                  [&] { cross_entropy_backward(stream, logits, targets, {}, {}, lse, loss, dlogits, 0.0f); });
    bench.forget();
}

void embeddings(Bench& bench) {
    const View table = bench.array(Dtype::f32, {kClasses, kWidth}), ids = bench.array(Dtype::i32, {kRows}, kClasses),
               y = bench.array(Dtype::f32, {kRows, kWidth});
    CudaStream& stream = bench.stream();
    bench.measure("embedding f32", 2 * size(y), 0, [&] { embedding(stream, table, ids, y); });
    bench.measure("embedding_backward f32", size(y) + 2 * size(table), 0,
                  planned<EmbeddingGradientPlan>(bench, ids, y, table, 1.0f));
    bench.forget();
}

void optimizer(Bench& bench) {
    const View p = bench.array(Dtype::f32, {kParameters}), g = bench.array(Dtype::f32, {kParameters}),
               m = bench.array(Dtype::f32, {kParameters}), v = bench.array(Dtype::f32, {kParameters}),
               rate = bench.array(Dtype::f64, {}), multiplier = bench.array(Dtype::f64, {}),
               steps = bench.array(Dtype::f64, {});
    CudaStream& stream = bench.stream();
    map(stream, Square{}, v, v);  // second moments are not negative
    fill(stream, 9.0, steps);
    bench.measure("adamw f32", 7 * size(p), 0, [&] { adamw(stream, {}, rate, multiplier, steps, g, p, m, v); });
    bench.forget();
}

void attention(Bench& bench, Dtype dtype, const std::string& suffix) {
    constexpr std::int64_t batch = 16, time = 1024, heads = 12, width = 64;
    const Shape shape{batch, time, heads, width};
    const View q = bench.array(dtype, shape), k = bench.array(dtype, shape), v = bench.array(dtype, shape),
               o = bench.array(dtype, shape), dy = bench.array(dtype, shape), dq = bench.array(dtype, shape),
               dk = bench.array(dtype, shape), dv = bench.array(dtype, shape),
               lse = bench.array(Dtype::f32, {batch, heads, time});
    const Attention forward{
        .q = q, .k = k, .v = v, .o = o, .lse = lse, .causal = true, .scale = 1 / std::sqrt(double{width})};
    const AttentionGradient backward{.q = q,
                                     .k = k,
                                     .v = v,
                                     .o = o,
                                     .lse = lse,
                                     .dy = dy,
                                     .dq = dq,
                                     .dk = dk,
                                     .dv = dv,
                                     .causal = true,
                                     .scale = forward.scale};
    // Two products of T x T x D, half of which the mask leaves; backward has five.
    const double product = 0.5 * 2.0 * batch * heads * time * time * width;
    const auto run_forward = planned<AttentionPlan>(bench, forward);
    const auto run_backward = planned<AttentionGradientPlan>(bench, backward);
    bool& own = bench.stream().compute.own_kernels;
    for (const bool without_library : {false, true}) {
        if (without_library && !is_half(dtype)) break;  // it was not asked
        own = without_library;
        const std::string who = without_library ? ", own kernels" : "";
        bench.measure("attention" + suffix + who, 4 * size(q), 2 * product, run_forward);
        bench.measure("attention_gradient" + suffix + who, 8 * size(q), 5 * product, run_backward);
    }
    own = false;
    bench.forget();
}

/// An MLP's products as training asks for them, see kernels/matmul.
void products(Bench& bench) {
    const View x = bench.array(Dtype::bf16, {kRows, kWidth}), w = bench.array(Dtype::bf16, {4 * kWidth, kWidth}),
               y = bench.array(Dtype::bf16, {kRows, 4 * kWidth}), dw = bench.array(Dtype::f32, {4 * kWidth, kWidth}),
               bias = bench.array(Dtype::bf16, {4 * kWidth}), down = bench.array(Dtype::bf16, {kWidth, 4 * kWidth}),
               inner = bench.array(Dtype::bf16, {kRows, 4 * kWidth}), sums = bench.array(Dtype::f32, {4 * kWidth});
    constexpr auto gelu = Activation::gelu_tanh;
    const View wt = transposed(w), yt = transposed(y);
    matmul(bench, "linear bf16", {.a = x, .b = wt, .c = y, .bias = bias});
    matmul(bench, "linear dx bf16", {.a = y, .b = w, .c = x});
    matmul(bench, "linear dweight bf16 to f32", {.a = yt, .b = x, .c = dw, .beta = 1});
    fused_matmul(bench, "linear dweight, dbias bf16 to f32",
                 {.a = yt, .b = x, .c = dw, .beta = 1, .sums = sums, .sums_beta = 1});
    fused_matmul(bench, "linear gelu bf16",
                 {.a = x, .b = wt, .c = y, .bias = bias, .activation = gelu, .inner = inner});
    fused_matmul(bench, "linear dgelu bf16",
                 {.a = x, .b = down, .c = y, .activation = gelu, .inner = inner, .derivative = true, .outer = inner});
    bench.forget();
}

void run(const std::string& pattern) {
    Bench bench(pattern);
    const std::size_t gigabyte = std::size_t{1} << 30;
    std::byte *from = bench.bytes(gigabyte), *to = bench.bytes(gigabyte);
    const double copy_rate = bench.ceiling("device copy", 2.0 * static_cast<double>(gigabyte),
                                           [&] { bench.device().copy(from, to, gigabyte); });
    bench.forget();
    constexpr std::int64_t side = 8192;
    const View a = bench.array(Dtype::bf16, {side, side}), b = bench.array(Dtype::bf16, {side, side}),
               c = bench.array(Dtype::bf16, {side, side});
    const Matmul product{.a = a, .b = b, .c = c};
    const double product_rate =
        bench.ceiling("product bf16 8192", 2.0 * side * side * side, planned<MatmulPlan>(bench, product));
    bench.forget();
    bench.begin({copy_rate, product_rate});
    products(bench);  // most of a step's time
    for (const auto& [dtype, suffix] : {std::pair{Dtype::bf16, " bf16"}, std::pair{Dtype::f32, " f32"}}) {
        pointwise(bench, dtype, suffix);
        norms(bench, dtype, suffix);
        reductions(bench, dtype, suffix);
        losses(bench, dtype, suffix);
        attention(bench, dtype, suffix);
    }
    casts(bench);
    embeddings(bench);
    optimizer(bench);
    bench.end();
}

}  // namespace

int main(int argc, char** argv) {
    if (argc > 2) {
        fmt::print(stderr, "usage: kernel_shares [PATTERN]\n");
        return 2;
    }
    try {
        run(argc == 2 ? argv[1] : "");
    } catch (const std::exception& error) {
        std::fputs(fmt::format("kernel_shares: {}\n", error.what()).c_str(), stderr);  // fmt::print would throw
        return 1;
    }
    return 0;
}
