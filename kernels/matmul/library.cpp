#include <headroom/kernels/matmul/internal/library.hpp>

#include <algorithm>
#include <atomic>
#include <optional>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include <headroom/kernels/internal/onednn.hpp>
#include <headroom/kernels/parallel.hpp>
#include <headroom/kernels/round_up.hpp>
#include <headroom/memory/error.hpp>

namespace headroom::kernels {

namespace {

/// Multiply-adds below which a second thread does not pay.
constexpr std::int64_t kSplitThreshold = 1 << 19;

/// Strides of a matrix that has one contiguous axis; what an axis of size 1 has does not count.
struct Matrix {
    std::int64_t rows, columns, row, column;

    bool canonical() {
        if (columns == 1) column = 1;
        if (column == 1 && rows == 1) row = columns;
        if (column == 1 && row >= columns) return true;
        if (rows == 1) row = 1;
        return row == 1 && column >= rows;
    }
    dnnl::memory::desc describe(Dtype dtype) const { return {{rows, columns}, library_type(dtype), {row, column}}; }
};

struct Geometry {
    Matrix a, b, c;
};

/// Nothing if oneDNN can't be asked.
std::optional<Geometry> geometry_of(const Problem& p) {
    if (p.batch_rank != 0 || p.k == 0 || (p.operand != Dtype::f32 && p.operand != Dtype::bf16)) return {};
    if (p.has_bias && p.bias_step != 1 && p.n != 1) return {};
    Geometry g{{p.m, p.k, p.a_row, p.a_depth}, {p.k, p.n, p.b_depth, p.b_column}, {p.m, p.n, p.c_row, p.c_column}};
    if (!g.a.canonical() || !g.b.canonical() || !g.c.canonical() || g.c.column != 1) return {};
    return g;
}

MatmulKey key_of(const Geometry& g, const Problem& p, int threads) {
    const auto dtypes = static_cast<std::int64_t>(p.operand) | static_cast<std::int64_t>(p.result) << 8 |
                        static_cast<std::int64_t>(p.bias_dtype) << 16;
    const auto flags = static_cast<std::int64_t>(p.activation) << 24 | static_cast<std::int64_t>(p.has_bias) << 32 |
                       static_cast<std::int64_t>(threads) << 40;
    return {{g.a.rows, g.a.columns, g.b.columns, g.a.row, g.a.column, g.b.row, g.b.column, g.c.row, dtypes | flags}};
}

void append_activation(dnnl::post_ops& operations, Activation activation) {
    using dnnl::algorithm;
    if (activation == Activation::relu) operations.append_eltwise(1, algorithm::eltwise_relu, 0, 0);
    if (activation == Activation::gelu_tanh) operations.append_eltwise(1, algorithm::eltwise_gelu_tanh, 0, 0);
    if (activation == Activation::gelu_erf) operations.append_eltwise(1, algorithm::eltwise_gelu_erf, 0, 0);
}

dnnl::matmul::primitive_desc describe(const dnnl::engine& engine, const Geometry& g, const Problem& p,
                                      bool accumulate) {
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    dnnl::post_ops operations;
    if (accumulate) operations.append_sum(1);
    append_activation(operations, p.activation);
    attributes.set_post_ops(operations);
    const auto a = g.a.describe(p.operand), b = g.b.describe(p.operand), c = g.c.describe(p.result);
    if (!p.has_bias) return {dnnl::matmul::desc(a, b, c), attributes, engine};
    const dnnl::memory::desc bias({1, g.c.columns}, library_type(p.bias_dtype), {g.c.columns, 1});
    return {dnnl::matmul::desc(a, b, bias, c), attributes, engine};
}

/// One thread's share: rows or columns of c.
class Part {
  public:
    /// Errors: dnnl::error if oneDNN refuses.
    Part(const dnnl::engine& engine, const Geometry& g, const Problem& p)
        : variants_{Variant{describe(engine, g, p, false), {}}, Variant{describe(engine, g, p, true), {}}} {
        const auto& d = variants_[0].description;
        add(DNNL_ARG_SRC, d.src_desc(), engine);
        add(DNNL_ARG_WEIGHTS, d.weights_desc(), engine);
        add(DNNL_ARG_DST, d.dst_desc(), engine);
        if (p.has_bias) add(DNNL_ARG_BIAS, d.bias_desc(), engine);
        for (Variant& variant : variants_) {
            variant.scratch = dnnl::memory(variant.description.scratchpad_desc(), engine, DNNL_MEMORY_NONE);
        }
    }

    /// A reference implementation is slower than ours.
    bool fast() const {
        return std::none_of(variants_.begin(), variants_.end(), [](const Variant& variant) {
            return std::string_view(variant.description.impl_info_str()).starts_with("ref");
        });
    }
    /// In whole cache lines.
    std::size_t scratch() const {
        const auto bytes = [](const Variant& variant) { return variant.description.scratchpad_desc().get_size(); };
        return aligned(std::max(bytes(variants_[0]), bytes(variants_[1])));
    }

    void compile(bool accumulate) {
        Variant& variant = variants_[accumulate ? 1 : 0];
        if (!variant.primitive) variant.primitive = dnnl::matmul(variant.description);
    }
    /// Data in the order a, b, c, bias. Must have been compiled.
    dnnl_status_t run(const dnnl::stream& stream, bool accumulate, const std::array<const void*, 4>& data,
                      std::byte* scratch) {
        const OneThread scope;
        Variant& variant = variants_[accumulate ? 1 : 0];
        std::array<dnnl_exec_arg_t, 5> arguments;
        for (std::size_t i = 0; i < count_; ++i) {
            dnnl_memory_set_data_handle(memories_[i].get(), const_cast<void*>(data[i]));
            arguments[i] = {names_[i], memories_[i].get()};
        }
        dnnl_memory_set_data_handle(variant.scratch.get(), scratch);
        arguments[count_] = {DNNL_ARG_SCRATCHPAD, variant.scratch.get()};
        return dnnl_primitive_execute(variant.primitive.get(), stream.get(), static_cast<int>(count_) + 1,
                                      arguments.data());
    }

  private:
    struct Variant {
        dnnl::matmul::primitive_desc description;
        dnnl::matmul primitive;
        dnnl::memory scratch{};
    };

    void add(int name, const dnnl::memory::desc& description, const dnnl::engine& engine) {
        names_[count_] = name;
        memories_[count_++] = dnnl::memory(description, engine, DNNL_MEMORY_NONE);
    }

    std::array<Variant, 2> variants_;
    std::size_t count_ = 0;
    std::array<int, 4> names_{};
    std::array<dnnl::memory, 4> memories_;
};

class Product final : public LibraryMatmul {
  public:
    Product(const dnnl::engine& engine, const dnnl::stream& stream, const Geometry& g, const Problem& p, int threads)
        : stream_(stream) {
        const std::int64_t m = g.c.rows, n = g.c.columns;
        const std::int64_t count = m * n * g.a.columns < kSplitThreshold ? 1 : threads;
        by_rows_ = m >= kLeastRows * count;
        const std::int64_t all = by_rows_ ? m : n;
        const std::int64_t unit = by_rows_ ? 1 : kColumnUnit;
        step_ = round_up(quotient_up(all, count), unit);
        for (std::int64_t first = 0; first < all; first += step_) {
            Geometry share = g;
            (by_rows_ ? share.a.rows : share.b.columns) = std::min(step_, all - first);
            (by_rows_ ? share.c.rows : share.c.columns) = std::min(step_, all - first);
            parts_.push_back(std::make_unique<Part>(engine, share, p));
            offsets_.push_back(scratch_ + (first == 0 ? 0 : kScratchGap));
            scratch_ = offsets_.back() + parts_.back()->scratch();
        }
        a_step_ = by_rows_ ? step_ * g.a.row : 0;
        b_step_ = by_rows_ ? 0 : step_ * g.b.column;
        c_step_ = by_rows_ ? step_ * g.c.row : step_;
    }

    bool fast() const {
        return std::all_of(parts_.begin(), parts_.end(), [](const auto& part) { return part->fast(); });
    }
    std::size_t scratch() const override { return scratch_; }

    void run(const CpuStream& stream, const Problem& p, std::byte* scratch) override {
        const bool accumulate = p.beta != 0;
        for (auto& part : parts_) part->compile(accumulate);
        const auto count = static_cast<std::int64_t>(parts_.size());
        std::atomic<dnnl_status_t> failure{dnnl_success};
        parallel_for(stream, count, count == 1 ? 0 : kParallelThreshold, [&](std::int64_t i) {
            const auto index = static_cast<std::size_t>(i);
            const std::byte* bias = p.has_bias ? p.bias_at(by_rows_ ? 0 : i * step_) : nullptr;
            const auto status = parts_[index]->run(
                stream_, accumulate, {p.a_at(i * a_step_), p.b_at(i * b_step_), p.c_at(i * c_step_), bias},
                scratch + offsets_[index]);
            if (status != dnnl_success) failure = status;
        });
        if (failure == dnnl_success) return;
        throw DeviceError(fmt::format("matmul: oneDNN failed with status {} on [{}, {}] x [{}, {}]",
                                      static_cast<int>(failure.load()), p.m, p.k, p.k, p.n));
    }

  private:
    static constexpr std::int64_t kLeastRows = 16;   // per thread; with fewer, columns are shared out
    static constexpr std::int64_t kColumnUnit = 16;  // so that threads write to cache lines of their own

    dnnl::stream stream_;
    bool by_rows_;
    std::int64_t step_;
    std::int64_t a_step_, b_step_, c_step_;
    std::vector<std::unique_ptr<Part>> parts_;
    std::vector<std::size_t> offsets_;
    std::size_t scratch_ = 0;
};

}  // namespace

struct MatmulCache::Engine {
    dnnl::engine engine{dnnl::engine::kind::cpu, 0};
    dnnl::stream stream{engine};
};

MatmulCache::MatmulCache() : engine_(std::make_unique<Engine>()) {}
MatmulCache::~MatmulCache() = default;

bool MatmulCache::is_slower(Dtype operand) {
    constexpr auto kAvx512 = static_cast<unsigned>(dnnl::cpu_isa::avx512_core);  // a bit for each that it includes
    static const bool has_avx512 = (static_cast<unsigned>(dnnl::get_effective_cpu_isa()) & kAvx512) == kAvx512;
    return operand == Dtype::f32 && !has_avx512;
}

LibraryMatmul* MatmulCache::find(int threads, const Problem& problem) {
    const std::optional<Geometry> geometry = geometry_of(problem);
    if (!geometry) return nullptr;
    const auto [entry, created] = products_.try_emplace(key_of(*geometry, problem, threads));
    if (!created) return entry->second.get();
    const OneThread scope;
    try {
        auto product = std::make_unique<Product>(engine_->engine, engine_->stream, *geometry, problem, threads);
        if (product->fast()) entry->second = std::move(product);
    } catch (const dnnl::error&) {
        // Not implemented on this processor: the blocked kernel takes it.
    }
    return entry->second.get();
}

}  // namespace headroom::kernels
