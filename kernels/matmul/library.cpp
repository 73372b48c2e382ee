#include <headroom/kernels/matmul/library.hpp>

#ifdef _OPENMP
#include <omp.h>
#endif

#include <algorithm>
#include <bit>
#include <optional>
#include <string_view>

#include <dnnl.hpp>
#include <fmt/format.h>

#include <headroom/memory/error.hpp>

namespace headroom::kernels {

namespace {

/// oneDNN asks OpenMP for the number of threads, when it compiles and when it runs.
class Threads {
  public:
    explicit Threads([[maybe_unused]] int threads) {
#ifdef _OPENMP
        before_ = omp_get_max_threads();
        if (threads != before_) omp_set_num_threads(changed_ = threads);
#endif
    }
    ~Threads() {
#ifdef _OPENMP
        if (changed_ != 0) omp_set_num_threads(before_);
#endif
    }
    Threads(const Threads&) = delete;
    Threads& operator=(const Threads&) = delete;

  private:
    int before_ = 0;
    int changed_ = 0;
};

dnnl::memory::data_type data_type(Dtype dtype) {
    return dtype == Dtype::bf16 ? dnnl::memory::data_type::bf16 : dnnl::memory::data_type::f32;
}

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
    dnnl::memory::desc describe(Dtype dtype) const { return {{rows, columns}, data_type(dtype), {row, column}}; }
};

struct Geometry {
    Matrix a, b, c;
};

/// Nothing if oneDNN can't be asked.
std::optional<Geometry> geometry_of(const Problem& p, const Matmul& matmul) {
    const Dtype dtype = matmul.a.dtype;
    if (p.batch_rank != 0 || p.k == 0 || (dtype != Dtype::f32 && dtype != Dtype::bf16)) return {};
    if (matmul.has_bias() && (matmul.alpha != 1 || (matmul.bias.stride(0) != 1 && p.n != 1))) return {};
    Geometry g{{p.m, p.k, p.a_row, p.a_depth}, {p.k, p.n, p.b_depth, p.b_column}, {p.m, p.n, p.c_row, p.c_column}};
    if (!g.a.canonical() || !g.b.canonical() || !g.c.canonical() || g.c.column != 1) return {};
    return g;
}

MatmulKey key_of(const Geometry& g, const Matmul& matmul, int threads) {
    const auto dtypes = static_cast<std::int64_t>(matmul.a.dtype) | static_cast<std::int64_t>(matmul.c.dtype) << 8 |
                        static_cast<std::int64_t>(matmul.bias.dtype) << 16;
    const auto flags = static_cast<std::int64_t>(matmul.activation) << 24 |
                       static_cast<std::int64_t>(matmul.has_bias()) << 32 | static_cast<std::int64_t>(threads) << 40;
    return {{g.a.rows, g.a.columns, g.b.columns, g.a.row, g.a.column, g.b.row, g.b.column, g.c.row, dtypes | flags,
             std::bit_cast<std::int64_t>(matmul.alpha)}};
}

void append_activation(dnnl::post_ops& operations, Activation activation) {
    using dnnl::algorithm;
    if (activation == Activation::relu) operations.append_eltwise(1, algorithm::eltwise_relu, 0, 0);
    if (activation == Activation::gelu_tanh) operations.append_eltwise(1, algorithm::eltwise_gelu_tanh, 0, 0);
    if (activation == Activation::gelu_erf) operations.append_eltwise(1, algorithm::eltwise_gelu_erf, 0, 0);
}

dnnl::matmul::primitive_desc describe(const dnnl::engine& engine, const Geometry& g, const Matmul& matmul,
                                      bool accumulate) {
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    if (matmul.alpha != 1) attributes.set_output_scales(0, {static_cast<float>(matmul.alpha)});
    dnnl::post_ops operations;
    if (accumulate) operations.append_sum(1);
    append_activation(operations, matmul.activation);
    attributes.set_post_ops(operations);
    const auto a = g.a.describe(matmul.a.dtype), b = g.b.describe(matmul.a.dtype), c = g.c.describe(matmul.c.dtype);
    if (!matmul.has_bias()) return {dnnl::matmul::desc(a, b, c), attributes, engine};
    const dnnl::memory::desc bias({1, g.c.columns}, data_type(matmul.bias.dtype), {g.c.columns, 1});
    return {dnnl::matmul::desc(a, b, bias, c), attributes, engine};
}

class Product final : public LibraryMatmul {
  public:
    /// Errors: dnnl::error if oneDNN refuses.
    Product(const dnnl::engine& engine, const dnnl::stream& stream, const Geometry& g, const Matmul& matmul,
            int threads)
        : stream_(stream),
          threads_(threads),
          overwrite_{describe(engine, g, matmul, false), {}},
          accumulate_{describe(engine, g, matmul, true), {}},
          has_bias_(matmul.has_bias()) {
        const auto& d = overwrite_.description;
        scratch_ = std::max(d.scratchpad_desc().get_size(), accumulate_.description.scratchpad_desc().get_size());
        add(DNNL_ARG_SRC, d.src_desc(), engine);
        add(DNNL_ARG_WEIGHTS, d.weights_desc(), engine);
        add(DNNL_ARG_DST, d.dst_desc(), engine);
        if (has_bias_) add(DNNL_ARG_BIAS, d.bias_desc(), engine);
        add(DNNL_ARG_SCRATCHPAD, overwrite_.description.scratchpad_desc(), engine);
        add(DNNL_ARG_SCRATCHPAD, accumulate_.description.scratchpad_desc(), engine);
    }

    /// A reference implementation is slower than ours.
    bool fast() const {
        return !std::string_view(overwrite_.description.impl_info_str()).starts_with("ref") &&
               !std::string_view(accumulate_.description.impl_info_str()).starts_with("ref");
    }
    std::size_t scratch() const override { return scratch_; }

    void run(const Matmul& matmul, std::byte* scratch) override {
        const Threads threads(threads_);
        Variant& variant = matmul.beta != 0 ? accumulate_ : overwrite_;
        if (!variant.primitive) variant.primitive = dnnl::matmul(variant.description);
        std::array<dnnl_exec_arg_t, 5> arguments;
        int count = 0;
        const auto pass = [&](int index, void* data) {
            dnnl_memory_set_data_handle(memories_[static_cast<std::size_t>(index)].get(), data);
            arguments[static_cast<std::size_t>(count++)] = {names_[static_cast<std::size_t>(index)],
                                                            memories_[static_cast<std::size_t>(index)].get()};
        };
        pass(0, matmul.a.data);
        pass(1, matmul.b.data);
        pass(2, matmul.c.data);
        if (has_bias_) pass(3, matmul.bias.data);
        const int scratchpad = has_bias_ ? 4 : 3;
        pass(matmul.beta != 0 ? scratchpad + 1 : scratchpad, scratch);
        const auto status = dnnl_primitive_execute(variant.primitive.get(), stream_.get(), count, arguments.data());
        if (status != dnnl_success) {
            throw DeviceError(fmt::format("matmul: oneDNN failed with status {} on {} x {}", static_cast<int>(status),
                                          matmul.a.shape.text(), matmul.b.shape.text()));
        }
    }

  private:
    struct Variant {
        dnnl::matmul::primitive_desc description;
        dnnl::matmul primitive;
    };

    void add(int name, const dnnl::memory::desc& description, const dnnl::engine& engine) {
        names_[count_] = name;
        memories_[count_++] = dnnl::memory(description, engine, DNNL_MEMORY_NONE);
    }

    dnnl::stream stream_;
    int threads_;
    Variant overwrite_;
    Variant accumulate_;
    bool has_bias_;
    std::size_t scratch_ = 0;
    std::size_t count_ = 0;
    std::array<int, 6> names_{};
    std::array<dnnl::memory, 6> memories_;
};

}  // namespace

struct MatmulCache::Engine {
    dnnl::engine engine{dnnl::engine::kind::cpu, 0};
    dnnl::stream stream{engine};
};

MatmulCache::MatmulCache() : engine_(std::make_unique<Engine>()) {}
MatmulCache::~MatmulCache() = default;

LibraryMatmul* MatmulCache::find(int threads, const Problem& problem, const Matmul& matmul) {
    const std::optional<Geometry> geometry = geometry_of(problem, matmul);
    if (!geometry) return nullptr;
    const auto [entry, created] = products_.try_emplace(key_of(*geometry, matmul, threads));
    if (!created) return entry->second.get();
    const Threads scope(threads);
    try {
        auto product = std::make_unique<Product>(engine_->engine, engine_->stream, *geometry, matmul, threads);
        if (product->fast()) entry->second = std::move(product);
    } catch (const dnnl::error&) {
        // Not implemented on this processor: the blocked kernel takes it.
    }
    return entry->second.get();
}

}  // namespace headroom::kernels
