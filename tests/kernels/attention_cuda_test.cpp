#include <headroom/kernels/attention/attention.hpp>

#include <cmath>
#include <iterator>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <headroom/kernels/attention/internal/geometry.hpp>
#include <headroom/kernels/attention/internal/sdpa.hpp>
#include <headroom/tests/kernels/attention_on_device.hpp>
#include <headroom/tests/kernels/elsewhere.hpp>
#include <headroom/tests/kernels/race_cases.hpp>

namespace headroom::kernels {
namespace attention_cuda_test {

using test::kFloating;
using test::kLayouts;
using test::Layout;
using test::TestArray;
using test::Weights;
using Case = test::AttentionCase;
using Trial = test::AttentionTrial;
using test::OnDevice;

/// On tensor cores, weights are rounded.
Weights weights_of(const Case& c, Dtype dtype) {
    return is_half(dtype) && c.width <= 128 ? Weights::rounded : Weights::exact;
}

/// Sanitizers take their time for each CUDA thread: then the larger shapes are left out, and with ThreadSanitizer those
/// dtypes that have another's code.
#if defined(__SANITIZE_THREAD__)
const std::vector<Dtype> kDtypes{Dtype::f16, Dtype::f32};
constexpr std::int64_t kMostWork = 65 * 33 * 2 * 64;
#elif defined(__SANITIZE_ADDRESS__)
const std::vector<Dtype> kDtypes(std::begin(kFloating), std::end(kFloating));
constexpr std::int64_t kMostWork = 33 * 65 * 4 * 40;
#else
const std::vector<Dtype> kDtypes(std::begin(kFloating), std::end(kFloating));
constexpr std::int64_t kMostWork = 1 << 30;
#endif

std::vector<std::vector<double>> results_of(const Trial& t) {
    std::vector<std::vector<double>> results;
    for (const TestArray* x : {&t.o, &t.lse, &t.dq, &t.dk, &t.dv}) results.push_back(x->values());
    return results;
}

/// Of the project's own kernels; attention_library_cuda_test.cpp is for cuDNN.
class AttentionCuda : public test::CudaTest {
  protected:
    void SetUp() override {
        CudaTest::SetUp();
        if (gpu) gpu->stream.compute.own_kernels = true;
    }
};

/// One position; rests against blocks (64, and 32 for f64) of either side; several blocks; widths that fill tiles and
/// that do not, of each size of tiles; grouped heads; a key-value cache; fewer keys than queries, so that some see
/// none; no keys, no queries.
const Case kCases[] = {
    {1, 1, 1, 1, 1, 8, true},    {2, 31, 31, 2, 1, 16, true},    {1, 33, 65, 4, 2, 40, true},
    {1, 65, 33, 2, 2, 64, true}, {1, 129, 129, 1, 1, 64, true},  {1, 65, 129, 3, 1, 128, true},
    {1, 1, 129, 4, 4, 64, true}, {1, 129, 65, 1, 1, 128, false}, {1, 33, 0, 2, 1, 16, false},
    {1, 31, 33, 1, 1, 3, false}, {1, 130, 1, 1, 1, 5, true},     {1, 33, 31, 2, 1, 137, true},
    {1, 33, 33, 1, 1, 96, true}, {2, 31, 70, 1, 1, 70, true},    {1, 129, 70, 2, 1, 32, true},
    {1, 0, 33, 2, 1, 16, true},
};

TEST_F(AttentionCuda, MatchesF64ForAnyDtypeAndShape) {
    std::mt19937_64 random(1);
    for (const Case& c : kCases) {
        if (c.queries * c.keys * c.heads * c.width > kMostWork) continue;
        for (const Dtype dtype : kDtypes) {
            SCOPED_TRACE(text(c, dtype));
            Trial trial(c, dtype, Layout::contiguous, random, dtype);
            run(*gpu, trial);  // outputs and gradients were NaN: nothing of them may have been read
            expect_matches(trial, 0, weights_of(c, dtype));
            if (HasFailure()) return;
        }
    }
}

/// Of both sizes of tiles; rests against blocks; grouped heads, a key-value cache, more queries than keys.
TEST_F(AttentionCuda, MasksAndDropoutMatchF64) {
    std::mt19937_64 random(11);
    for (const Case& c :
         {Case{2, 65, 70, 4, 2, 20, false}, Case{2, 18, 67, 2, 1, 72, true}, Case{2, 35, 9, 2, 2, 5, true}}) {
        if (c.queries * c.keys * c.heads * c.width > kMostWork) continue;
        for (const test::MaskCase& mask : test::kMaskCases) {
            for (const Dtype dtype : kDtypes) {
                SCOPED_TRACE(text(c, dtype) + " " + mask.name);
                Trial trial(c, dtype, Layout::contiguous, random, dtype);
                trial.hide(mask, random);
                run(*gpu, trial);
                expect_matches(trial, 0, weights_of(c, dtype));
                if (HasFailure()) return;
            }
        }
    }
}

TEST_F(AttentionCuda, OfScoresThatShareAnOffsetMatchesF64) {
    test::expect_matches_at_offsets<Trial>(Weights::rounded, [&](Trial& trial) { run(*gpu, trial); });
}

TEST_F(AttentionCuda, OfOneKeyHasNoGradientOfItsScores) {
    test::expect_no_gradient_of_one_key<Trial>([&](Trial& trial) { run(*gpu, trial); });
}

TEST_F(AttentionCuda, NotesALengthBeyondTheKeys) {
    std::mt19937_64 random(12);
    for (const Dtype dtype : {Dtype::bf16, Dtype::f32}) {
        Trial trial({2, 3, 5, 1, 1, 8, false}, dtype, Layout::contiguous, random, dtype);
        trial.hide(test::kMaskCases[4], random);
        trial.lengths->set(1, 6);
        const OnDevice device(*gpu, trial, 0);
        gpu->run<AttentionPlan>(device.forward);
        gpu->device->synchronize();
        const auto error = gpu->device->take_index_error();
        ASSERT_TRUE(error);
        EXPECT_EQ(std::string(error->what), kLengthError);
        EXPECT_EQ(error->value, 6);
        EXPECT_EQ(error->position, 1);
        EXPECT_EQ(error->bound, 6);
    }
}

TEST_F(AttentionCuda, TakesAnyStrides) {
    std::mt19937_64 random(2);
    for (const Case& c : {Case{2, 17, 40, 2, 1, 24, true}, Case{1, 5, 7, 2, 2, 130, false}}) {
        for (const Dtype dtype : kDtypes) {
            for (const Layout layout : kLayouts) {
                SCOPED_TRACE(text(c, dtype) + " layout " + std::to_string(static_cast<int>(layout)));
                Trial trial(c, dtype, layout, random, dtype);
                run(*gpu, trial);
                expect_matches(trial, 0, weights_of(c, dtype));
                if (HasFailure()) return;
            }
        }
    }
}

constexpr TestArray Trial::*kArrays[] = {&Trial::q,  &Trial::k,  &Trial::v,  &Trial::o,
                                         &Trial::dy, &Trial::dq, &Trial::dk, &Trial::dv};

/// The address and each outer stride of each array, and the width: one of them alone forbids vectors.
TEST_F(AttentionCuda, TakesVectorsOnlyWhereEachArrayAllowsThem) {
    std::mt19937_64 random(4);
    for (const Dtype dtype : {Dtype::bf16, Dtype::f32}) {
        for (const Case& c : {Case{2, 3, 5, 2, 2, 16, true}, Case{2, 3, 5, 2, 2, 12, true}}) {
            for (TestArray Trial::*const array : kArrays) {
                for (int what = test::kNothing; what < 3; ++what) {
                    if (c.width == 12 && (what != test::kNothing || array != &Trial::q)) continue;
                    SCOPED_TRACE(text(c, dtype) + ", what is moved: " + std::to_string(what));
                    Trial trial(c, dtype, Layout::slice, random, dtype);
                    for (TestArray Trial::*const other : kArrays) {
                        const TestArray placed = test::moved(trial.*other, other == array ? what : test::kNothing);
                        std::destroy_at(&(trial.*other));
                        std::construct_at(&(trial.*other), placed);
                    }
                    run(*gpu, trial);
                    expect_matches(trial, 0, weights_of(c, dtype));
                    for (TestArray Trial::*const result : {&Trial::o, &Trial::dq, &Trial::dk, &Trial::dv})
                        EXPECT_TRUE((trial.*result).gaps_untouched());
                    if (HasFailure()) return;
                }
            }
        }
    }
}

TEST_F(AttentionCuda, TakesArraysBeyond32Bits) {
    if (!cuda_is_emulated() || test::kRaces) GTEST_SKIP() << "takes more memory than there is";
    std::mt19937_64 random(5);
    for (const Dtype dtype : kDtypes) {
        Trial trial({2, 3, 5, 2, 1, 16, true}, dtype, Layout::slice, random, dtype);
        test::FarApart far;
        OnDevice device(*gpu, trial, 0);
        device.forward.q = device.gradient.q = far.put(trial.q);
        device.forward.k = device.gradient.k = far.put(trial.k);
        device.forward.v = device.gradient.v = far.put(trial.v);
        device.forward.o = device.gradient.o = far.put(trial.o);
        device.gradient.dy = far.put(trial.dy);
        device.gradient.dq = far.put(trial.dq);
        device.gradient.dk = far.put(trial.dk);
        device.gradient.dv = far.put(trial.dv);
        device.run(*gpu);
        test::FarApart::get(device.forward.o, trial.o);
        gpu->get(device.forward.lse, trial.lse);
        test::FarApart::get(device.gradient.dq, trial.dq);
        test::FarApart::get(device.gradient.dk, trial.dk);
        test::FarApart::get(device.gradient.dv, trial.dv);
        expect_matches(trial, 0, weights_of(trial.shape, dtype));
    }
}

TEST_F(AttentionCuda, AccumulatesGradientsAlsoInF32ForHalves) {
    std::mt19937_64 random(3);
    for (const Case& c : {Case{1, 20, 40, 4, 2, 24, true}, Case{1, 9, 7, 1, 1, 136, false}}) {
        for (const Dtype dtype : kDtypes) {
            for (const Dtype gradients : {dtype, test::compute_dtype(dtype)}) {
                for (const Layout layout : {Layout::contiguous, Layout::gaps}) {
                    SCOPED_TRACE(text(c, dtype) + " gradients " + std::string(name(gradients)) + " layout " +
                                 std::to_string(static_cast<int>(layout)));
                    Trial trial(c, dtype, layout, random, gradients);
                    for (TestArray* x : {&trial.dq, &trial.dk, &trial.dv}) {
                        for (std::int64_t i = 0; i < x->numel(); ++i) x->set(i, 0.5);
                    }
                    run(*gpu, trial, 1);
                    expect_matches(trial, 0.5, weights_of(c, dtype));
                    if (HasFailure()) return;
                }
                if (gradients == test::compute_dtype(dtype)) break;
            }
        }
    }
}

/// q, k, v side by side in rows of one tensor, as a Linear gives them; rows may be longer, so that nothing is aligned.
/// Both are as good as arrays of their own, to the bit.
TEST_F(AttentionCuda, ReadsAndWritesSlicesOfAPackedTensor) {
    std::mt19937_64 random(4);
    const Case c{2, 33, 33, 4, 2, 16, true};
    for (const Dtype dtype : {Dtype::bf16, Dtype::f32}) {
        Trial trial(c, dtype, Layout::contiguous, random, dtype);
        run(*gpu, trial);
        for (const std::int64_t gap : {0, 1}) {
            const std::int64_t row = (c.heads + 2 * c.key_heads) * c.width + gap;
            TestArray packed(dtype, {c.batch * c.queries * row}), dpacked(dtype, {c.batch * c.queries * row});
            const auto part = [&](const View& all, std::int64_t first, std::int64_t heads) {
                return View{all.at(gap + first * c.width),
                            dtype,
                            {c.batch, c.queries, heads, c.width},
                            {c.queries * row, row, c.width, 1}};
            };
            const std::int64_t starts[] = {0, c.heads, c.heads + c.key_heads};
            const auto place = [&](int i, std::int64_t at) {
                const std::int64_t width = (i == 0 ? c.heads : c.key_heads) * c.width;
                return gap + at / width * row + starts[i] * c.width + at % width;
            };
            const TestArray *from[] = {&trial.q, &trial.k, &trial.v}, *gradients[] = {&trial.dq, &trial.dk, &trial.dv};
            for (int i = 0; i < 3; ++i) {
                for (std::int64_t at = 0; at < from[i]->numel(); ++at) packed.set(place(i, at), from[i]->get(at));
            }
            OnDevice device(*gpu, trial, 0);
            const View on_device = gpu->put(packed), d_on_device = gpu->put(dpacked);
            device.forward.q = device.gradient.q = part(on_device, starts[0], c.heads);
            device.forward.k = device.gradient.k = part(on_device, starts[1], c.key_heads);
            device.forward.v = device.gradient.v = part(on_device, starts[2], c.key_heads);
            device.gradient.dq = part(d_on_device, starts[0], c.heads);
            device.gradient.dk = part(d_on_device, starts[1], c.key_heads);
            device.gradient.dv = part(d_on_device, starts[2], c.key_heads);
            device.run(*gpu);
            TestArray o(dtype, trial.o.view().shape);
            gpu->get(device.forward.o, o);
            gpu->get(d_on_device, dpacked);
            EXPECT_EQ(o.values(), trial.o.values());
            for (int i = 0; i < 3; ++i) {
                for (std::int64_t at = 0; at < gradients[i]->numel(); ++at) {
                    ASSERT_EQ(dpacked.get(place(i, at)), gradients[i]->get(at))
                        << name(dtype) << ' ' << gap << ' ' << i;
                }
            }
        }
    }
}

/// The emulator draws an order anew for each device, and its second device has more multiprocessors and less shared
/// memory, which still holds the same tiles.
TEST_F(AttentionCuda, BitsDoNotDependOnTheOrderOfThreadsOrTheDevice) {
    for (const Dtype dtype : kDtypes) {
        for (const Case& c : {Case{1, 70, 70, 2, 1, 16, true}, Case{1, 65, 65, 1, 1, 128, true}}) {
            if (c.width == 128 && !is_half(dtype)) continue;  // on tensor cores
            std::vector<std::vector<double>> first;
            for (const int device : {0, 0, cuda_is_emulated() ? 1 : cuda_device_count() - 1}) {
                test::Gpu other(device);
                other.stream.compute.own_kernels = true;
                std::mt19937_64 random(5);
                Trial trial(c, dtype, Layout::contiguous, random, dtype);
                run(other, trial);
                if (first.empty()) first = results_of(trial);
                EXPECT_EQ(results_of(trial), first) << text(c, dtype);
            }
        }
    }
}

/// Of compute capability 7.5: 64 KiB of shared memory hold smaller tiles of wide heads, and there is no bf16.
class AttentionOnAnOldGpu : public AttentionCuda {
  protected:
    void SetUp() override {
        AttentionCuda::SetUp();
        if (IsSkipped()) return;
        if (!cuda_is_emulated()) GTEST_SKIP() << "only the emulator has one for certain";
        gpu = std::make_unique<test::Gpu>(test::another_gpu(Dtype::f16));
        gpu->stream.compute.own_kernels = true;
        ASSERT_EQ(gpu->device->properties().capability(), 75);
    }
};

TEST_F(AttentionOnAnOldGpu, MatchesF64InAllDtypesButBf16) {
    std::mt19937_64 random(21);
    for (const Case& c : kCases) {
        if (c.queries * c.keys * c.heads * c.width > kMostWork) continue;
        for (const Dtype dtype : {Dtype::f16, Dtype::f32, Dtype::f64}) {
            if (!is_half(dtype) && c.queries * c.keys * c.heads * c.width > 33 * 70 * 137) continue;  // takes long
            const Layout layout = is_half(dtype) ? Layout::contiguous : Layout::transposed;
            SCOPED_TRACE(text(c, dtype));
            Trial trial(c, dtype, layout, random, dtype);
            run(*gpu, trial);
            expect_matches(trial, 0, weights_of(c, dtype));
            if (HasFailure()) return;
        }
    }
}

TEST_F(AttentionOnAnOldGpu, MasksDropoutAndSumsMatchF64InF16) {
    std::mt19937_64 random(22);
    for (const Case& c : {Case{2, 33, 70, 4, 2, 20, false}, Case{2, 18, 67, 2, 1, 72, true}}) {
        if (c.queries * c.keys * c.heads * c.width > kMostWork) continue;
        for (const test::MaskCase& mask : test::kMaskCases) {
            SCOPED_TRACE(text(c, Dtype::f16) + " " + mask.name);
            Trial trial(c, Dtype::f16, Layout::gaps, random, Dtype::f32);
            trial.hide(mask, random);
            for (TestArray* x : {&trial.dq, &trial.dk, &trial.dv}) {
                for (std::int64_t i = 0; i < x->numel(); ++i) x->set(i, 0.5);
            }
            run(*gpu, trial, 1);
            expect_matches(trial, 0.5, weights_of(c, Dtype::f16));
            if (HasFailure()) return;
        }
    }
}

TEST_F(AttentionOnAnOldGpu, Bf16OnTensorCoresIsRefused) {
    std::mt19937_64 random(23);
    Trial trial({1, 5, 7, 1, 1, 64, false}, Dtype::bf16, Layout::contiguous, random, Dtype::bf16);
    const OnDevice device(*gpu, trial, 0);
    try {
        gpu->run<AttentionPlan>(device.forward);
        FAIL() << "ran";
    } catch (const DeviceError& error) {
        EXPECT_STREQ(error.what(), "launch: the kernel needs compute capability 8.0, but emulated GPU has 7.5");
    }
}

TEST_F(AttentionOnAnOldGpu, AsksNoLibraryAndTakesNoScratchForIt) {
    std::mt19937_64 random(24);
    Trial trial({1, 64, 64, 1, 1, 64, false}, Dtype::f16, Layout::contiguous, random, Dtype::f16);
    const Stream old = DryStream{.capability = 75}, later = DryStream{.capability = 80};
    ASSERT_TRUE(plan_sdpa(trial.forward()) && plan_sdpa(trial.gradient(0)));
    EXPECT_EQ(AttentionPlan(old, trial.forward()).scratch(), 0u);
    EXPECT_GT(AttentionPlan(later, trial.forward()).scratch(), 0u);
    EXPECT_LT(AttentionGradientPlan(old, trial.gradient(0)).scratch(),
              AttentionGradientPlan(later, trial.gradient(0)).scratch());
    const Stream real = gpu->stream;
    EXPECT_EQ(AttentionGradientPlan(old, trial.gradient(0)).scratch(),
              AttentionGradientPlan(real, trial.gradient(0)).scratch());
}

TEST_F(AttentionCuda, ComputesOnlyTheGradientsThatAreWanted) {
    std::mt19937_64 random(6);
    const Case c{1, 20, 20, 2, 1, 8, true};
    for (const Dtype dtype : {Dtype::f16, Dtype::f32}) {
        Trial trial(c, dtype, Layout::contiguous, random, dtype);
        run(*gpu, trial);
        for (int wanted = 0; wanted < 8; ++wanted) {
            OnDevice device(*gpu, trial, 0);
            AttentionGradient& g = device.gradient;
            TestArray results[] = {
                {dtype, trial.dq.view().shape}, {dtype, trial.dk.view().shape}, {dtype, trial.dv.view().shape}};
            const TestArray* expected[] = {&trial.dq, &trial.dk, &trial.dv};
            View views[3], *targets[] = {&g.dq, &g.dk, &g.dv};
            for (int i = 0; i < 3; ++i) *targets[i] = views[i] = gpu->put(results[i]);
            for (int i = 0; i < 3; ++i) {
                if (!(wanted >> i & 1)) *targets[i] = View{};
            }
            device.run(*gpu);
            for (int i = 0; i < 3; ++i) {
                const std::vector<std::byte> untouched = results[i].memory();
                gpu->get(views[i], results[i]);
                EXPECT_EQ(results[i].memory(), wanted >> i & 1 ? expected[i]->memory() : untouched)
                    << wanted << ' ' << i;
            }
        }
    }
}

TEST_F(AttentionCuda, NeedsNoLseWhereNoGradientFollows) {
    std::mt19937_64 random(7);
    for (const Dtype dtype : {Dtype::bf16, Dtype::f64}) {
        Trial trial({1, 7, 9, 1, 1, 16, false}, dtype, Layout::contiguous, random, dtype);
        run(*gpu, trial);
        OnDevice device(*gpu, trial, 0);
        device.forward.lse = View{};
        const TestArray nothing(dtype, trial.o.view().shape);
        device.forward.o = gpu->put(nothing);
        gpu->run<AttentionPlan>(device.forward);
        TestArray o(nothing);
        gpu->get(device.forward.o, o);
        EXPECT_EQ(o.values(), trial.o.values());
    }
}

TEST_F(AttentionCuda, LargeScoresDoNotOverflow) {
    std::mt19937_64 random(8);
    for (const Dtype dtype : {Dtype::f16, Dtype::f32}) {
        Trial trial({1, 70, 90, 1, 1, 16, true}, dtype, Layout::contiguous, random, dtype);
        for (std::int64_t i = 0; i < trial.q.numel(); ++i) trial.q.set(i, 1e3 * trial.q.get(i));
        run(*gpu, trial);
        for (const auto& values : results_of(trial)) {
            for (const double value : values) ASSERT_TRUE(std::isfinite(value));
        }
        for (const double value : trial.o.values()) ASSERT_LE(std::abs(value), 6);  // convex sums of normal variates
    }
}

TEST_F(AttentionCuda, ScratchIsLinearInTheSequenceAndEqualInARehearsal) {
    StreamState state;
    Stream real = gpu->stream, dry = DryStream{.threads = 1, .state = &state, .capability = 90};
    const auto bytes = [](Stream& stream, Dtype dtype, std::int64_t length) {
        const View x = contiguous_view(nullptr, dtype, {1, length, 2, 64});
        const View lse = contiguous_view(nullptr, test::compute_dtype(dtype), {1, 2, length});
        const Attention forward{x, x, x, x, lse, true, 1};
        const AttentionGradient gradient{x, x, x, x, lse, x, x, x, x, 0, 0, 0, true, 1};
        return AttentionPlan(stream, forward).scratch() + AttentionGradientPlan(stream, gradient).scratch();
    };
    for (const Dtype dtype : kDtypes) {
        for (const std::int64_t length : {10, 1000, 10000, 100000}) {
            const std::size_t needed = bytes(real, dtype, length);
            const std::size_t own = 2 * static_cast<std::size_t>(length) * size_of(test::compute_dtype(dtype));
            EXPECT_EQ(bytes(dry, dtype, length), needed);
            EXPECT_GE(needed, own);
            EXPECT_LE(needed, own + (is_half(dtype) ? ComputeOptions().scratch_budget + kSdpaCounters : 0));
        }
    }
}

}  // namespace attention_cuda_test
}  // namespace headroom::kernels
