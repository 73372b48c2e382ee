#pragma once
// Tensors without inputs: sequences, constants, random values, the causal mask. They are recorded like any op, so a
// recomputed region creates them again. For values that the program already has see `Context::from_host`.
//
//     Tensor positions = arange(context, 0, 64);                   // i64 [64]
//     Tensor noise = randn(context, {8, 128});                     // f32, by `Context::next_random`
//     Tensor mask = causal_mask(context, 64, 64);                  // bool: whether query t sees key s
//     scores = where(mask, scores, full(context, {}, -1e9));
#include <optional>

#include <headroom/core/apply.hpp>
#include <headroom/core/scalar.hpp>

namespace headroom {

namespace ops {

struct Arange {
    static constexpr OpInfo info{.name = "arange"};
    struct Attrs {
        double start = 0.0;
        double stop = 0.0;
        double step = 1.0;
        Dtype dtype = Dtype::i64;
    };
    struct Saved {};
    static OpResult<Saved, Array> forward(Exec& exec, const Attrs& attrs);
    static std::vector<Sample<Attrs>> samples();
};

struct Linspace {
    static constexpr OpInfo info{.name = "linspace"};
    struct Attrs {
        double start = 0.0;
        double stop = 1.0;
        std::int64_t steps = 1;
        Dtype dtype = Dtype::f32;
    };
    struct Saved {};
    static OpResult<Saved, Array> forward(Exec& exec, const Attrs& attrs);
    static std::vector<Sample<Attrs>> samples();
};

struct Full {
    static constexpr OpInfo info{.name = "full"};
    struct Attrs {
        Shape shape;
        double value = 0.0;
        Dtype dtype = Dtype::f32;
        Strides like{};  ///< strides that give the memory order of axes; none: row-major
    };
    struct Saved {};
    static OpResult<Saved, Array> forward(Exec& exec, const Attrs& attrs);
    static std::vector<Sample<Attrs>> samples();
};

/// Normal or uniform values.
template <bool kNormal>
struct Random {
    static constexpr OpInfo info{.name = kNormal ? "randn" : "rand"};
    struct Attrs {
        Shape shape;
        Dtype dtype = Dtype::f32;
        float first = 0.0f;   ///< mean, or lower bound
        float second = 1.0f;  ///< standard deviation, or upper bound
        kernels::RandomKey key;
        Strides like{};  ///< strides that give the memory order of axes; none: row-major
    };
    struct Saved {};
    static OpResult<Saved, Array> forward(Exec& exec, const Attrs& attrs);
    static std::vector<Sample<Attrs>> samples();
};
using Randn = Random<true>;
using Rand = Random<false>;

struct RandInt {
    static constexpr OpInfo info{.name = "randint"};
    struct Attrs {
        Shape shape;
        std::int64_t low = 0;
        std::int64_t high = 1;
        Dtype dtype = Dtype::i64;
        kernels::RandomKey key;
    };
    struct Saved {};
    static OpResult<Saved, Array> forward(Exec& exec, const Attrs& attrs);
    static std::vector<Sample<Attrs>> samples();
};

struct CausalMask {
    static constexpr OpInfo info{.name = "causal_mask"};
    struct Attrs {
        std::int64_t queries = 0;
        std::int64_t keys = 0;
    };
    struct Saved {};
    static OpResult<Saved, Array> forward(Exec& exec, const Attrs& attrs);
    static std::vector<Sample<Attrs>> samples();
};

}  // namespace ops

/// start, start + step, ... before `stop`: [ceil((stop - start) / step)]. The default dtype is f32 if one of the
/// numbers is floating, else i64. Errors: Error if step is 0.
Tensor arange(Context& context, Scalar start, Scalar stop, Scalar step = 1, std::optional<Dtype> dtype = {});
/// `steps` evenly spaced values from `start` to `stop`, both included; a single one is `start`. Errors: ShapeError if
/// steps is negative; DtypeError unless floating.
Tensor linspace(Context& context, double start, double stop, std::int64_t steps, Dtype dtype = Dtype::f32);
/// Filled with one value, rounded to the dtype. Errors: ShapeError for negative sizes; DtypeError for an integer dtype
/// that can't represent the value.
Tensor full(Context& context, const Shape& shape, double value, Dtype dtype = Dtype::f32);
/// `full` with 0.
Tensor zeros(Context& context, const Shape& shape, Dtype dtype = Dtype::f32);
/// `full` with 1.
Tensor ones(Context& context, const Shape& shape, Dtype dtype = Dtype::f32);
/// Normal values, with a key from `Context::next_random`. Errors: DtypeError unless floating.
Tensor randn(Context& context, const Shape& shape, Dtype dtype = Dtype::f32, double mean = 0.0, double deviation = 1.0);
/// Uniform values in [low, high); rounding may reach `high`. Errors: DtypeError unless floating.
Tensor rand(Context& context, const Shape& shape, Dtype dtype = Dtype::f32, double low = 0.0, double high = 1.0);
/// Integers in [low, high), equally likely up to 2^-32. Errors: Error unless 0 < high - low <= 2^32 and the dtype can
/// hold them; DtypeError unless the dtype is i32 or i64.
Tensor randint(Context& context, std::int64_t low, std::int64_t high, const Shape& shape, Dtype dtype = Dtype::i64);
/// bool [queries, keys]: true where query t may attend to key s, s <= t + keys - queries, so that the last query sees
/// every key.
Tensor causal_mask(Context& context, std::int64_t queries, std::int64_t keys);

/// The same with x's shape, memory order and context, and x's dtype unless another is given. x's values are not read.
Tensor full_like(const Tensor& x, double value, std::optional<Dtype> dtype = {});
Tensor zeros_like(const Tensor& x, std::optional<Dtype> dtype = {});
Tensor ones_like(const Tensor& x, std::optional<Dtype> dtype = {});
Tensor randn_like(const Tensor& x, std::optional<Dtype> dtype = {});
Tensor rand_like(const Tensor& x, std::optional<Dtype> dtype = {});

}  // namespace headroom
