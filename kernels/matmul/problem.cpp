#include <headroom/kernels/matmul/internal/problem.hpp>

#include <headroom/kernels/matmul/matmul.hpp>

namespace headroom::kernels {

namespace {

/// The stride of `x` along batch axis `axis` of a result with `batch_rank` batch axes; 0 where x is repeated.
std::int64_t batch_stride(const View& x, int axis, int batch_rank) {
    const int own = axis - (batch_rank - (x.rank() - 2));
    return own < 0 || x.shape[own] == 1 ? 0 : x.strides[own];
}

void drop_innermost(Problem& p) {
    const auto last = static_cast<std::size_t>(--p.batch_rank);
    p.size[last] = p.a_batch[last] = p.b_batch[last] = p.c_batch[last] = 0;
}

/// Appends a batch axis, or merges it with the one outside of it.
void append(Problem& p, std::int64_t size, std::int64_t a, std::int64_t b, std::int64_t c) {
    if (p.batch_rank > 0) {
        const auto outer = static_cast<std::size_t>(p.batch_rank - 1);
        if (p.a_batch[outer] == a * size && p.b_batch[outer] == b * size && p.c_batch[outer] == c * size) {
            p.size[outer] *= size;
            p.a_batch[outer] = a;
            p.b_batch[outer] = b;
            p.c_batch[outer] = c;
            return;
        }
    }
    const auto axis = static_cast<std::size_t>(p.batch_rank++);
    p.size[axis] = size;
    p.a_batch[axis] = a;
    p.b_batch[axis] = b;
    p.c_batch[axis] = c;
}

/// Takes the innermost batch axis into the rows, if b does not change along it and a and c go on evenly.
void fold_rows(Problem& p) {
    while (p.batch_rank > 0) {
        const auto inner = static_cast<std::size_t>(p.batch_rank - 1);
        if (p.b_batch[inner] != 0) return;
        if (p.m == 1) {
            p.a_row = p.a_batch[inner];
            p.c_row = p.c_batch[inner];
        } else if (p.a_batch[inner] != p.a_row * p.m || p.c_batch[inner] != p.c_row * p.m) {
            return;
        }
        p.m *= p.size[inner];
        drop_innermost(p);
    }
}

}  // namespace

Problem reduce(const Matmul& matmul) {
    const View &a = matmul.a, &b = matmul.b, &c = matmul.has_inner() && !matmul.derivative ? matmul.inner : matmul.c;
    Problem p{.a = a.as<const std::byte>(),
              .b = b.as<const std::byte>(),
              .bias = matmul.bias.as<const std::byte>(),
              .c = c.as<std::byte>(),
              .bias_step = matmul.has_bias() ? matmul.bias.stride(0) : 0,
              .operand = a.dtype,
              .result = c.dtype,
              .bias_dtype = matmul.bias.dtype,
              .activation = matmul.has_inner() ? Activation::none : matmul.activation,
              .has_bias = matmul.has_bias(),
              .beta = matmul.beta};
    p.m = c.shape[c.rank() - 2];
    p.n = c.shape[c.rank() - 1];
    p.k = a.shape[a.rank() - 1];
    p.a_row = a.strides[a.rank() - 2];
    p.a_depth = a.strides[a.rank() - 1];
    p.b_depth = b.strides[b.rank() - 2];
    p.b_column = b.strides[b.rank() - 1];
    p.c_row = c.strides[c.rank() - 2];
    p.c_column = c.strides[c.rank() - 1];
    const int batch_rank = c.rank() - 2;
    for (int axis = 0; axis < batch_rank; ++axis) {
        if (c.shape[axis] == 1) continue;
        append(p, c.shape[axis], batch_stride(a, axis, batch_rank), batch_stride(b, axis, batch_rank), c.strides[axis]);
    }
    fold_rows(p);
    return p;
}

}  // namespace headroom::kernels
