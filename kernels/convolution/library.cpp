#include <headroom/kernels/convolution/internal/library.hpp>

#include <algorithm>
#include <atomic>
#include <vector>

#include <headroom/kernels/convert.hpp>
#include <headroom/kernels/convolution/internal/blocked.hpp>
#include <headroom/kernels/convolution/internal/primitives.hpp>
#include <headroom/kernels/convolution/internal/reorder.hpp>
#include <headroom/kernels/matmul/internal/vector.hpp>
#include <headroom/kernels/parallel.hpp>
#include <headroom/kernels/pointwise/activations.hpp>
#include <headroom/kernels/pointwise/pointwise.hpp>
#include <headroom/kernels/round_up.hpp>

namespace headroom::kernels {

namespace {

/// A slice with its arguments.
class Call {
  public:
    Call(const dnnl::engine& engine, Primitives& primitives, const Slice& slice, std::int64_t bias_channels,
         Dtype bias_dtype)
        : slice_(slice), index_(primitives.add(slice)) {
        from = dnnl::memory(primitives.from(slice), engine, DNNL_MEMORY_NONE);
        to = dnnl::memory(primitives.to(slice), engine, DNNL_MEMORY_NONE);
        const dnnl::memory::desc vector({bias_channels}, library_type(bias_dtype), dnnl::memory::format_tag::a);
        bias = dnnl::memory(vector, engine, DNNL_MEMORY_NONE);
        const auto pad = primitives.all()[index_].description.query_md(dnnl::query::scratchpad_md);
        scratch = dnnl::memory(pad, engine, DNNL_MEMORY_NONE);
        bytes_ = aligned(pad.get_size());
    }
    const Slice& slice() const { return slice_; }
    std::size_t index() const { return index_; }
    std::size_t bytes() const { return bytes_; }

    dnnl::memory from, to, weight, bias, scratch;

  private:
    Slice slice_;
    std::size_t index_;
    std::size_t bytes_ = 0;
};

class Product final : public LibraryConvolution {
  public:
    /// Errors: dnnl::error if oneDNN refuses or has no fast kernel.
    Product(const dnnl::engine& engine, const dnnl::stream& queue, const ConvolutionProblem& p, int threads)
        : queue_(queue), mapping_(p) {
        const bool weights = p.pass == ConvolutionPass::weight;
        const Mapping& m = mapping_;
        Primitives primitives(engine, p, m);
        for (const Slice& slice : slices_of(m, p.images, threads))
            calls_.emplace_back(engine, primitives, slice, p.groups * m.outputs, p.bias_dtype);
        for (Call& call : calls_) call.weight = dnnl::memory(primitives.weight(), engine, DNNL_MEMORY_NONE);
        const auto plain = describe_weight(p, m.turned);
        if (weights) {
            reorders_.emplace_back(engine, primitives.weight(), plain, p.beta, threads);
        } else {
            reorders_.emplace_back(engine, plain, primitives.weight(), 0.0f, threads, m.turned);
        }
        compiled_ = std::move(primitives.all());

        // Scratch: the weights as oneDNN wants them, or one gradient of them for each slice; a result that is to be
        // added; one pad after another.
        weight_bytes_ = aligned(primitives.weight().get_size());
        result_ = weight_bytes_ * (weights ? calls_.size() : 1);
        scratch_ = result_;
        if (m.adds())
            scratch_ += aligned(size_of(m.to.dtype) *
                                static_cast<std::size_t>(p.images * p.groups * m.outputs * m.to_rows() * m.to_width()));
        for (const Call& call : calls_) {
            pads_.push_back(scratch_);
            scratch_ += call.bytes() + (call.bytes() == 0 ? 0 : kScratchGap);
        }
    }

    std::size_t scratch() const override { return scratch_; }

    void run(CpuStream& stream, const ConvolutionProblem& p, std::byte* scratch) override {
        for (Compiled& compiled : compiled_) {
            const OneThread scope;
            if (!compiled.primitive) compiled.primitive = dnnl::primitive(compiled.description.get());
        }
        if (p.pass == ConvolutionPass::weight) return run_weight(stream, p, scratch);
        reorders_[0].run(stream, queue_, p.weight.data, scratch);
        std::byte* const to = mapping_.adds() ? scratch + result_ : p.written().data;
        const std::byte* const from = (p.pass == ConvolutionPass::forward ? p.x : p.y).data;
        execute(stream, p, from, to, scratch, 0);
        if (mapping_.gradient) {
            if (p.beta != 0 || p.has_bias || p.activation != Activation::none) finish(stream, p, to);
        } else if (p.activation == Activation::relu) {  // oneDNN's makes 0 of NaN
            const std::int64_t pixels = p.images * mapping_.to_rows() * mapping_.to_width();
            const View all = contiguous_view(to, mapping_.to.dtype, {pixels * p.groups * mapping_.outputs});
            map(stream, Relu{}, all, all);
        }
    }

  private:
    /// `from` and `to`: where the arrays begin. `weight_step`: from one slice's weights to the next one's.
    void execute(const CpuStream& stream, const ConvolutionProblem& p, const std::byte* from, std::byte* to,
                 std::byte* scratch, std::size_t weight_step) {
        const Mapping& m = mapping_;
        const auto at = [&](const ConvolutionArray& array, std::int64_t channels, std::int64_t rows, std::int64_t width,
                            std::int64_t image, std::int64_t row) {
            return (image * rows + row) * width * channels * p.groups * static_cast<std::int64_t>(size_of(array.dtype));
        };
        const bool weights = p.pass == ConvolutionPass::weight;
        std::atomic<dnnl_status_t> failure{dnnl_success};
        parallel_for(stream, static_cast<std::int64_t>(calls_.size()), kParallelThreshold, [&](std::int64_t i) {
            const OneThread scope;
            const auto index = static_cast<std::size_t>(i);
            Call& call = calls_[index];
            const Slice& s = call.slice();
            const auto set = [](dnnl::memory& memory, const std::byte* data) {
                dnnl_memory_set_data_handle(memory.get(), const_cast<std::byte*>(data));
            };
            set(call.from, from + at(m.from, m.inputs, m.from_rows(), m.from_width(), s.image, s.from));
            set(call.to, to + at(m.to, m.outputs, m.to_rows(), m.to_width(), s.image, s.to));
            set(call.weight, scratch + index * weight_step);
            set(call.bias, p.bias);
            set(call.scratch, scratch + pads_[index]);
            int count = 4;
            std::array<dnnl_exec_arg_t, 5> arguments{{{DNNL_ARG_SRC, call.from.get()},
                                                      {DNNL_ARG_DST, call.to.get()},
                                                      {DNNL_ARG_WEIGHTS, call.weight.get()},
                                                      {DNNL_ARG_SCRATCHPAD, call.scratch.get()}}};
            if (m.gradient) arguments[0].arg = DNNL_ARG_DIFF_DST, arguments[1].arg = DNNL_ARG_DIFF_SRC;
            if (weights) arguments[1].arg = DNNL_ARG_DIFF_DST, arguments[2].arg = DNNL_ARG_DIFF_WEIGHTS;
            if (p.has_bias && !m.gradient) arguments[4] = {DNNL_ARG_BIAS, call.bias.get()}, count = 5;
            const auto status =
                dnnl_primitive_execute(compiled_[call.index()].primitive.get(), queue_.get(), count, arguments.data());
            if (status != dnnl_success) failure = status;
        });
        check_library(failure);
    }

    /// What oneDNN's gradient lacks: bias, activation, and adding to what is there.
    void finish(const CpuStream& stream, const ConvolutionProblem& p, const std::byte* result) const {
        const std::int64_t channels = p.groups * p.inputs, pixels = p.images * p.h.input * p.w.input;
        parallel_for(stream, pixels, pixels * channels, [&](std::int64_t i) {
            float values[kLanes<float> * 4];
            constexpr auto most = static_cast<std::int64_t>(std::size(values));
            const Dtype dtype = mapping_.to.dtype;
            for (std::int64_t first = 0; first < channels; first += most) {
                const std::int64_t count = std::min(most, channels - first), at = i * channels + first;
                load(result + at * static_cast<std::int64_t>(size_of(dtype)), dtype, 1, count, values);
                finish_pixel(p, first, count, values, p.x.at(at));
            }
        });
    }

    /// Each slice's gradient, their sum, and that in the order of the weights.
    void run_weight(const CpuStream& stream, const ConvolutionProblem& p, std::byte* scratch) {
        execute(stream, p, p.x.data, p.y.data, scratch, weight_bytes_);
        float* const sum = reinterpret_cast<float*>(scratch);
        const auto count = static_cast<std::int64_t>(weight_bytes_ / sizeof(float));
        const std::int64_t chunks = quotient_up(count, kChunk);
        parallel_for(stream, calls_.size() == 1 ? 0 : chunks, count, [&](std::int64_t chunk) {
            for (std::size_t i = 1; i < calls_.size(); ++i) {
                const float* more = sum + static_cast<std::int64_t>(i) * count;
                for (std::int64_t j = chunk * kChunk; j < std::min(count, (chunk + 1) * kChunk); ++j) sum[j] += more[j];
            }
        });
        reorders_[0].run(stream, queue_, scratch, p.weight.data);
    }

    dnnl::stream queue_;
    Mapping mapping_;
    std::vector<Call> calls_;
    std::vector<Compiled> compiled_;
    std::vector<Reorder> reorders_;  // one
    std::size_t weight_bytes_ = 0, result_ = 0, scratch_ = 0;
    std::vector<std::size_t> pads_;
};

/// x's gradient where no two positions of the kernel meet, as a convolution transposed makes an image larger. oneDNN
/// passes over x once for every 16 channels, which is slow where an image is larger than the caches.
bool enlarges(const ConvolutionProblem& p) {
    constexpr std::int64_t large = 4 << 20;  // bytes
    const auto apart = [](const ConvolutionAxis& axis) { return axis.stride > 1 && axis.kernel == axis.stride; };
    return p.pass == ConvolutionPass::data && apart(p.h) && apart(p.w) &&
           p.h.input * p.w.input * p.inputs * static_cast<std::int64_t>(size_of(p.operand)) > large;
}

/// A forward pass, or a data pass that is one, whose sums are so long that oneDNN errs 2.7 to 3.9 times as much as our
/// blocks do, and ours takes no longer: with a whole panel of outputs.
bool sums_long(const ConvolutionProblem& problem) {
    const ConvolutionProblem p = turned(problem).value_or(problem);
    return p.pass == ConvolutionPass::forward && p.inputs * p.h.kernel * p.w.kernel > 1000 && p.outputs >= 64;
}

/// False if oneDNN need not be asked.
bool may_take(const ConvolutionProblem& p) {
    if (p.operand != Dtype::f32 && p.operand != Dtype::bf16) return false;
    if (p.images == 0 || p.work() == 0 || (p.has_bias && p.bias_step != 1)) return false;
    // Our own gradient of weights is faster, and needs no second set of them.
    const bool dense = p.operand == Dtype::f32 && p.groups == 1;
    if (dense && p.inputs % kLanes<float> == 0 && (p.pass == ConvolutionPass::weight || enlarges(p))) return false;
    if (dense && sums_long(p)) return false;
    return p.x.channels_last({p.images, p.groups * p.inputs, p.h.input, p.w.input}) &&
           p.y.channels_last({p.images, p.groups * p.outputs, p.h.output, p.w.output});
}

}  // namespace

struct ConvolutionCache::Engine {
    dnnl::engine engine{dnnl::engine::kind::cpu, 0};
    dnnl::stream stream{engine};
};

ConvolutionCache::ConvolutionCache() : engine_(std::make_unique<Engine>()) {}
ConvolutionCache::~ConvolutionCache() = default;

ConvolutionCache::Key ConvolutionCache::key_of(int threads, const ConvolutionProblem& p) {
    const auto bits = [](auto value, int shift) { return static_cast<std::int64_t>(value) << shift; };
    const std::int64_t flags = bits(p.pass, 0) | bits(p.operand, 8) | bits(p.written().dtype, 16) |
                               bits(p.bias_dtype, 24) | bits(p.activation, 32) | bits(p.has_bias, 40);
    return {threads,
            p.images,
            p.groups,
            p.inputs,
            p.outputs,
            flags,
            p.h.input,
            p.h.output,
            p.h.kernel,
            p.h.stride,
            p.h.padding,
            p.h.dilation,
            p.w.input,
            p.w.output,
            p.w.kernel,
            p.w.stride,
            p.w.padding,
            p.w.dilation,
            p.weight.stride[0],
            p.weight.stride[1],
            p.weight.stride[2],
            p.weight.stride[3],
            std::bit_cast<std::int32_t>(p.beta)};
}

LibraryConvolution* ConvolutionCache::find(int threads, const ConvolutionProblem& problem) {
    if (!may_take(problem)) return nullptr;
    const auto [entry, created] = convolutions_.try_emplace(key_of(threads, problem));
    if (!created) return entry->second.get();
    const OneThread scope;
    try {
        entry->second = std::make_unique<Product>(engine_->engine, engine_->stream, problem, threads);
    } catch (const dnnl::error&) {
        // Not implemented on this processor, or slowly: our own kernel takes it.
    }
    return entry->second.get();
}

}  // namespace headroom::kernels
