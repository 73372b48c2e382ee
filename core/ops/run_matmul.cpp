#include <headroom/core/ops/internal/run_matmul.hpp>

#include <algorithm>

#include <headroom/kernels/fill/fill.hpp>
#include <headroom/kernels/reduce/reduce.hpp>

namespace headroom {

namespace {

/// `x` with batch axes of size 1 in front, up to `rank`.
View aligned(View x, int rank) {
    while (x.rank() < rank) {
        x.shape.insert(0, 1);
        x.strides.insert(0, 0);
    }
    return x;
}

void erase_axis(View& x, int axis) {
    x.shape.erase(axis);
    x.strides.erase(axis);
}

/// A product a x b whose batch axes a, b and c all have, c with size 1 where they are summed.
struct Sum {
    View a, b, c;

    int batch_rank() const { return c.rank() - 2; }
    std::int64_t size(int axis) const { return std::min(a.size(axis), b.size(axis)) == 0 ? 0 : larger(axis); }
    std::int64_t larger(int axis) const { return std::max(a.size(axis), b.size(axis)); }
    bool summed(int axis) const { return c.size(axis) == 1 && size(axis) != 1; }
    std::int64_t a_stride(int axis) const { return a.size(axis) == 1 ? 0 : a.stride(axis); }
    std::int64_t b_stride(int axis) const { return b.size(axis) == 1 ? 0 : b.stride(axis); }

    void erase(int axis) {
        erase_axis(a, axis);
        erase_axis(b, axis);
        erase_axis(c, axis);
    }

    /// Makes a summed axis part of the inner one, where both operands go on evenly.
    bool fold(int axis) {
        const int a_inner = a.rank() - 1, b_inner = b.rank() - 2;
        const std::int64_t inner = a.size(a_inner), count = size(axis);
        const std::int64_t a_step = a_stride(axis), b_step = b_stride(axis);
        if (inner != 1 && (a_step != inner * a.stride(a_inner) || b_step != inner * b.stride(b_inner))) return false;
        if (inner == 1) {
            a.strides[a_inner] = a_step;
            b.strides[b_inner] = b_step;
        }
        a.shape[a_inner] = b.shape[b_inner] = inner * count;
        erase(axis);
        return true;
    }
};

/// A summed axis that stays outside of the product.
struct Loop {
    std::int64_t size, a_stride, b_stride;
};

}  // namespace

void run_matmul(Exec& exec, const kernels::Matmul& matmul) { exec.run<kernels::MatmulPlan>(matmul); }

View as_matrix(View x) { return aligned(x, 2); }

View rows_of(View x, std::int64_t first, std::int64_t count) {
    x.data = x.at(first * x.stride(0));
    x.shape[0] = count;
    return x;
}

void run_matmul_to(Exec& exec, const View& a, const View& b, const View& c, float beta, const View& sums,
                   float sums_beta) {
    const int rank = std::max({a.rank(), b.rank(), c.rank()});
    Sum sum{aligned(a, rank), aligned(b, rank), aligned(c, rank)};
    for (int axis = sum.batch_rank() - 1; axis >= 0; --axis) {
        if (sum.summed(axis)) sum.fold(axis);
    }
    std::array<Loop, kMaxRank> loops{};
    std::size_t n_loops = 0;
    std::int64_t rounds = 1;
    for (int axis = sum.batch_rank() - 1; axis >= 0; --axis) {
        if (!sum.summed(axis)) continue;
        loops[n_loops++] = {sum.size(axis), sum.a_stride(axis), sum.b_stride(axis)};
        rounds *= sum.size(axis);
        sum.erase(axis);
    }
    kernels::Matmul matmul{.a = sum.a, .b = sum.b, .c = sum.c, .beta = beta};
    if (sums.rank() == 1 && rounds == 1 && sum.c.rank() == 2) {
        matmul.sums = sums;
        matmul.sums_beta = sums_beta;
    } else if (sums.rank() == 1) {
        exec.run<kernels::SumPlan>(kernels::transposed(a), 1.0, sums, sums_beta);
    }
    if (rounds == 0) {
        if (beta == 0.0f) exec.launch([&](auto& stream) { kernels::fill(stream, 0.0, c); });
        return;
    }
    for (std::int64_t round = 0; round < rounds; ++round) {
        std::int64_t left = round, a_offset = 0, b_offset = 0;
        for (std::size_t i = 0; i < n_loops; ++i) {
            a_offset += left % loops[i].size * loops[i].a_stride;
            b_offset += left % loops[i].size * loops[i].b_stride;
            left /= loops[i].size;
        }
        matmul.a.data = sum.a.at(a_offset);
        matmul.b.data = sum.b.at(b_offset);
        run_matmul(exec, matmul);
        matmul.beta = 1.0f;
    }
}

void affine_gradients(Exec& exec, const View& dy, const View& x, const JointTarget& dweight, const JointTarget& dbias) {
    if (dweight) {
        run_matmul_to(exec, kernels::transposed(dy), x, dweight.view, dweight.beta, dbias.view, dbias.beta);
    } else if (dbias) {
        exec.run<kernels::SumPlan>(dy, 1.0, dbias.view, dbias.beta);
    }
}

}  // namespace headroom
