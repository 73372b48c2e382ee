// Attention by cuDNN: needs a GPU, and cuDNN with its frontend when the project is built.
#include <cmath>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include <headroom/kernels/attention/internal/sdpa.hpp>
#include <headroom/tests/kernels/attention_on_device.hpp>

namespace headroom::kernels {
namespace attention_library_cuda_test {

using test::Layout;
using test::TestArray;
using test::Weights;
using Case = test::AttentionCase;
using Trial = test::AttentionTrial;

constexpr Dtype kHalves[] = {Dtype::bf16, Dtype::f16};

class AttentionLibraryCuda : public test::CudaTest {
  protected:
    void SetUp() override {
        CudaTest::SetUp();
        if (!gpu) return;
        const std::string library = attention_library(gpu->stream);
        std::cout << library << "\n";
        if (library.find("cuDNN") != 0) GTEST_SKIP() << library;
    }
    /// What was asked of it, it did.
    void TearDown() override {
        if (!gpu || IsSkipped()) return;
        EXPECT_EQ(attention_library(gpu->stream).find("own kernels"), std::string::npos);
    }
};

/// Squares and rests against tiles of 64 and 128; grouped heads; a key-value cache; more queries than keys.
const Case kCases[] = {
    {2, 64, 64, 2, 2, 64, true},    {1, 129, 129, 3, 3, 64, true},  {1, 200, 200, 4, 2, 128, true},
    {1, 65, 129, 3, 1, 128, true},  {2, 100, 300, 6, 3, 40, false}, {1, 129, 65, 2, 1, 8, false},
    {1, 300, 1000, 1, 1, 72, true},
};

TEST_F(AttentionLibraryCuda, MatchesF64) {
    std::mt19937_64 random(1);
    for (const Case& c : kCases) {
        for (const Dtype dtype : kHalves) {
            SCOPED_TRACE(text(c, dtype));
            Trial trial(c, dtype, Layout::contiguous, random, dtype);
            run(*gpu, trial);
            expect_matches(trial, 0, Weights::rounded_also_per_head);
            if (HasFailure()) return;
        }
    }
}

/// lse means the same to both: each one's forward with the other's gradient.
TEST_F(AttentionLibraryCuda, ForwardAndGradientMayBeDifferentImplementations) {
    std::mt19937_64 random(2);
    bool& own = gpu->stream.compute.own_kernels;
    for (const bool own_forward : {true, false}) {
        Trial trial({2, 130, 130, 2, 2, 64, true}, Dtype::bf16, Layout::contiguous, random, Dtype::bf16);
        const test::OnDevice device(*gpu, trial, 0);
        own = own_forward;
        gpu->run<AttentionPlan>(device.forward);
        own = !own_forward;
        gpu->run<AttentionGradientPlan>(device.gradient);
        own = false;
        device.get(*gpu, trial);
        expect_matches(trial, 0, Weights::rounded);
    }
}

/// Of an array in the middle of nothing: so many elements of it, as bits.
std::vector<std::byte> bytes_of(test::Gpu& gpu, const View& view) {
    std::vector<std::byte> bytes(static_cast<std::size_t>(view.numel()) * size_of(view.dtype));
    gpu.device->copy_to_host(view.data, bytes.data(), bytes.size());
    return bytes;
}

/// Many parts (see `ComputeOptions::scratch_budget`): each batch has the bits that it has alone, and has them again.
TEST_F(AttentionLibraryCuda, BitsRepeatAndDoNotDependOnParts) {
    std::mt19937_64 random(3);
    const std::int64_t batch = 13, length = 1024, heads = 12, width = 64;
    const Shape shape{batch, length, heads, width};
    TestArray values(Dtype::bf16, shape);
    values.fill(random);
    const auto empty = [&](const Shape& s, Dtype dtype) {
        return contiguous_view(gpu->scratch(static_cast<std::size_t>(s.numel()) * size_of(dtype)), dtype, s);
    };
    const View q = gpu->put(values), k = gpu->put(values), v = gpu->put(values), dy = gpu->put(values),
               o = empty(shape, Dtype::bf16), lse = empty({batch, heads, length}, Dtype::f32);
    const View gradients[] = {empty(shape, Dtype::bf16), empty(shape, Dtype::bf16), empty(shape, Dtype::bf16)};
    const AttentionGradient whole{q, k, v, o, lse, dy, gradients[0], gradients[1], gradients[2], 0, 0, 0, true, 0.125};
    gpu->run<AttentionPlan>(Attention{q, k, v, o, lse, true, 0.125});
    ASSERT_LT(largest_part(*plan_sdpa(whole)).batch, batch);
    gpu->run<AttentionGradientPlan>(whole);
    std::vector<std::vector<std::byte>> first;
    for (const View& x : gradients) first.push_back(bytes_of(*gpu, x));
    for (int i = 0; i < 5; ++i) {
        gpu->run<AttentionGradientPlan>(whole);
        for (int j = 0; j < 3; ++j) EXPECT_EQ(bytes_of(*gpu, gradients[j]), first[static_cast<std::size_t>(j)]);
    }
    for (std::int64_t b = 0; b < batch; ++b) {
        AttentionGradient one = whole;
        for (View* x : {&one.q, &one.k, &one.v, &one.o, &one.dy, &one.dq, &one.dk, &one.dv, &one.lse}) {
            x->data = x->at(b * x->stride(0));
            x->shape[0] = 1;
        }
        gpu->run<AttentionGradientPlan>(one);
    }
    for (int j = 0; j < 3; ++j) EXPECT_EQ(bytes_of(*gpu, gradients[j]), first[static_cast<std::size_t>(j)]);
}

TEST_F(AttentionLibraryCuda, LargeScoresDoNotOverflow) {
    std::mt19937_64 random(4);
    for (const Dtype dtype : kHalves) {
        Trial trial({1, 70, 90, 1, 1, 16, true}, dtype, Layout::contiguous, random, dtype);
        for (std::int64_t i = 0; i < trial.q.numel(); ++i) trial.q.set(i, 1e3 * trial.q.get(i));
        run(*gpu, trial);
        for (const TestArray* x : {&trial.o, &trial.lse, &trial.dq, &trial.dk, &trial.dv}) {
            for (const double value : x->values()) ASSERT_TRUE(std::isfinite(value));
        }
    }
}

TEST_F(AttentionLibraryCuda, NeedsNoLseWhereNoGradientFollows) {
    std::mt19937_64 random(5);
    Trial trial({1, 100, 100, 2, 2, 64, true}, Dtype::bf16, Layout::contiguous, random, Dtype::bf16);
    run(*gpu, trial);
    test::OnDevice device(*gpu, trial, 0);
    device.forward.lse = View{};
    const TestArray nothing(Dtype::bf16, trial.o.view().shape);
    device.forward.o = gpu->put(nothing);
    gpu->run<AttentionPlan>(device.forward);
    TestArray o(nothing);
    gpu->get(device.forward.o, o);
    EXPECT_EQ(o.values(), trial.o.values());
}

}  // namespace attention_library_cuda_test
}  // namespace headroom::kernels
