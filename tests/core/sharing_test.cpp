// Every op where something else holds the storage that it might write over or let go of: gradients with several
// consumers, retained gradients, operands that overlap in one tensor, that are expanded, that are slices of dropped
// temporaries. The reference is the same call on copies.
#include <algorithm>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <headroom/core/ops/binary.hpp>
#include <headroom/core/ops/cast.hpp>
#include <headroom/core/ops/clone.hpp>
#include <headroom/core/ops/create.hpp>
#include <headroom/core/ops/expand.hpp>
#include <headroom/core/ops/reduce.hpp>
#include <headroom/core/test/agreement.hpp>
#include <headroom/core/test/sample_calls.hpp>
#include <headroom/tests/support/op_names.hpp>

namespace headroom::test {
namespace sharing_test {

using Elements = std::vector<double>;

Context strict_context() { return Context::cpu({.threads = 1, .fill_uninitialized_memory = true}); }

Elements twice(Elements values) {
    for (double& value : values) value *= 2;
    return values;
}

class Sharing : public testing::TestWithParam<std::size_t> {
  protected:
    const OpEntry& op() const { return all_ops()[GetParam()]; }

    /// Calls `check` with each sample that has a gradient.
    template <class Check>
    void for_each_sample(Check&& check) {
        int checked = 0;
        for (const ErasedSample& sample : accepted(op())) {
            if (std::none_of(sample.inputs.begin(), sample.inputs.end(), has_gradient)) continue;
            SCOPED_TRACE(describe(op(), sample, seed));
            check(sample);
            ++checked;
            if (HasFatalFailure()) return;
        }
        EXPECT_GT(checked, 0);
    }

    /// The gradients of one call in a context of its own, so that random ops draw the same.
    std::vector<Elements> reference(const ErasedSample& sample, const std::vector<HostInput>& inputs,
                                    Dtype dtype) const {
        Context context = strict_context();
        return gradients(context, op(), sample, place_all(context, inputs, dtype, Layout::contiguous), seed);
    }

    void expect_near(const Tensor& leaf, const Elements& want, double scale) const {
        const Elements got = leaf.grad().to_vector<double>();
        ASSERT_EQ(got.size(), want.size());
        const double bound = 64 * static_cast<double>(want.size() + 64) * epsilon(Dtype::f64) * std::max(scale, 1.0);
        for (std::size_t i = 0; i < want.size(); ++i) ASSERT_NEAR(got[i], want[i], bound) << "element " << i;
    }

    const Seed seed;
};

/// y has three consumers; additions hand on their gradient as it is, so that the gradients of y and of what is added
/// to it share memory. All gradients are twice those of one consumer, exactly.
TEST_P(Sharing, AGradientWithSeveralConsumersIsNotWrittenOver) {
    for_each_sample([&](const ErasedSample& sample) {
        const std::vector<HostInput> host = draw(sample, seed);
        const std::vector<Elements> expected = reference(sample, host, Dtype::f64);
        for (const bool retained : {false, true}) {
            Context context = strict_context();
            const auto inputs = place_all(context, host, Dtype::f64, Layout::contiguous);
            const std::vector<Tensor> outputs = call(context, op(), sample, inputs);
            std::vector<Tensor> added;  // per output two, or one that retains
            std::vector<Tensor> sums;
            for (const Tensor& y : outputs) {
                if (!y.requires_grad()) {
                    sums.push_back(y);
                    continue;
                }
                if (retained) y.retain_grad();
                for (int i = 0; i < 2; ++i) {
                    const Elements zeros(static_cast<std::size_t>(y.numel()), 0.0);
                    added.push_back(clone(context.from_host(zeros, y.shape()).requires_grad_()));
                    added.back().retain_grad();
                }
                sums.push_back((y + added[added.size() - 2]) + (y + added[added.size() - 1]));
            }
            const Tensor loss = projected(context, sums, seed);
            ASSERT_TRUE(loss.defined());
            backward(loss);
            for (std::size_t i = 0, next = 0; i < outputs.size(); ++i) {
                if (!outputs[i].requires_grad()) continue;
                const Elements projection = draw_projection(outputs[i].numel(), i, seed);
                EXPECT_EQ(added[next++].grad().to_vector<double>(), projection) << "beside output " << i;
                EXPECT_EQ(added[next++].grad().to_vector<double>(), projection) << "beside output " << i;
                if (retained) {
                    EXPECT_EQ(outputs[i].grad().to_vector<double>(), twice(projection)) << "output " << i;
                }
            }
            for (std::size_t i = 0; i < inputs.size(); ++i) {
                if (!expected[i].empty()) {
                    EXPECT_EQ(inputs[i].grad().to_vector<double>(), twice(expected[i])) << "input " << i;
                }
            }
        }
    });
}

/// One consumer, whose gradient somebody else holds, and which lies as the op's output does.
TEST_P(Sharing, AGradientThatAnAdditionSharesIsNotWrittenOver) {
    for_each_sample([&](const ErasedSample& sample) {
        const std::vector<HostInput> host = draw(sample, seed);
        const std::vector<Elements> expected = reference(sample, host, Dtype::f64);
        Context context = strict_context();
        const auto inputs = place_all(context, host, Dtype::f64, Layout::contiguous);
        std::vector<Tensor> outputs = call(context, op(), sample, inputs);
        std::vector<Tensor> added;
        for (Tensor& y : outputs) {
            added.push_back(y.requires_grad() ? clone(y).detach().requires_grad_() : Tensor());
            if (added.back().defined()) y = y + added.back();
        }
        std::vector<Elements> projections;
        for (std::size_t i = 0; i < outputs.size(); ++i)
            projections.push_back(draw_projection(outputs[i].numel(), i, seed));
        backward(projected(context, std::move(outputs), seed));
        for (std::size_t i = 0; i < added.size(); ++i) {
            if (added[i].defined()) {
                EXPECT_EQ(added[i].grad().to_vector<double>(), projections[i]) << "beside output " << i;
            }
        }
        for (std::size_t i = 0; i < inputs.size(); ++i) {
            if (!expected[i].empty()) {
                EXPECT_EQ(inputs[i].grad().to_vector<double>(), expected[i]) << "input " << i;
            }
        }
    });
}

/// Operands of one shape are slices of one tensor: the first at 0, the next two at 1, the next two at 2.
TEST_P(Sharing, OverlappingSlicesGetTheSumOfTheirGradients) {
    for_each_sample([&](const ErasedSample& sample) {
        for (std::size_t first = 0; first < sample.inputs.size(); ++first) {
            const SampleInput& what = sample.inputs[first];
            if (!has_gradient(what) || what.shape.numel() == 0) continue;
            for (int axis = 0; axis < std::min(what.shape.rank(), 2); ++axis) {
                std::vector<HostInput> host = draw(sample, seed);
                std::vector<std::size_t> group;
                for (std::size_t i = first; i < host.size(); ++i) {
                    const bool fits = has_gradient(host[i].what) && host[i].what.shape == what.shape;
                    if (fits && host[i].what.fill == what.fill) group.push_back(i);
                }
                if (group.size() < 2) continue;
                const auto offset_of = [](std::size_t member) { return static_cast<std::int64_t>((member + 1) / 2); };
                SampleInput larger = what;
                larger.shape = {};
                for (int k = 0; k < what.shape.rank(); ++k)
                    larger.shape.push_back(what.shape[k] + (k == axis ? offset_of(group.size() - 1) : 0));
                ErasedSample base_sample = sample;
                base_sample.inputs = {larger};
                const HostInput base_host = draw(base_sample, seed)[0];
                const auto slices = [&](const Tensor& base, std::vector<Tensor>& inputs) {
                    for (std::size_t m = 0; m < group.size(); ++m)
                        inputs[group[m]] = base.slice(axis, offset_of(m), offset_of(m) + what.shape[axis]);
                };
                Context copies = strict_context();
                auto inputs = place_all(copies, host, Dtype::f64, Layout::contiguous);
                slices(place(copies, base_host, Dtype::f64, Layout::contiguous, false), inputs);
                for (const std::size_t i : group) inputs[i] = clone(inputs[i]).detach().requires_grad_();
                const std::vector<Elements> apart = gradients(copies, op(), sample, inputs, seed);
                Tensor base = place(copies, base_host, Dtype::f64, Layout::contiguous);
                std::vector<Tensor> parts(host.size());
                slices(base, parts);
                Tensor expected;
                double scale = 0;
                for (const std::size_t i : group) {
                    const Tensor part = sum(parts[i] * copies.from_host(apart[i], what.shape));
                    expected = expected.defined() ? expected + part : part;
                    scale += largest(apart[i]);
                }
                backward(expected);

                Context context = strict_context();
                auto together = place_all(context, host, Dtype::f64, Layout::contiguous);
                const Tensor shared = place(context, base_host, Dtype::f64, Layout::contiguous);
                slices(shared, together);
                const Tensor loss = projected(context, call(context, op(), sample, std::move(together)), seed);
                backward(loss);
                expect_near(shared, base.grad().to_vector<double>(), scale);
            }
            if (HasFatalFailure()) return;
        }
    });
}

/// One operand is the whole tensor, smaller ones are its last slices: what is first written is added to.
TEST_P(Sharing, SlicesOfAnotherOperandGetTheSumOfTheirGradients) {
    for_each_sample([&](const ErasedSample& sample) {
        const std::vector<HostInput> host = draw(sample, seed);
        for (std::size_t whole = 0; whole < host.size(); ++whole) {
            const SampleInput& what = host[whole].what;
            if (!has_gradient(what) || what.shape.numel() == 0) continue;
            std::vector<std::size_t> smaller;
            for (std::size_t i = 0; i < host.size(); ++i) {
                const SampleInput& other = host[i].what;
                bool fits = i != whole && has_gradient(other) && other.fill == what.fill &&
                            other.shape.rank() == what.shape.rank() && other.shape != what.shape;
                for (int k = 0; fits && k < what.shape.rank(); ++k) fits = other.shape[k] <= what.shape[k];
                if (fits) smaller.push_back(i);
            }
            if (smaller.empty()) continue;
            const auto slices = [&](const Tensor& base, std::vector<Tensor>& inputs) {
                for (const std::size_t i : smaller) {
                    inputs[i] = base;
                    for (int k = 0; k < what.shape.rank(); ++k)
                        inputs[i] = inputs[i].slice(k, what.shape[k] - host[i].what.shape[k], what.shape[k]);
                }
            };
            Context copies = strict_context();
            auto inputs = place_all(copies, host, Dtype::f64, Layout::contiguous);
            const Tensor base = place(copies, host[whole], Dtype::f64, Layout::contiguous);
            slices(base, inputs);
            for (const std::size_t i : smaller) inputs[i] = clone(inputs[i].detach()).detach().requires_grad_();
            const std::vector<Elements> apart = gradients(copies, op(), sample, inputs, seed);
            std::vector<Tensor> parts(host.size());
            slices(base, parts);
            parts[whole] = base;
            smaller.push_back(whole);
            Tensor expected;
            double scale = 0;
            for (const std::size_t i : smaller) {
                const Tensor part = sum(parts[i] * copies.from_host(apart[i], parts[i].shape()));
                expected = expected.defined() ? expected + part : part;
                scale += largest(apart[i]);
            }
            smaller.pop_back();
            backward(expected);

            Context context = strict_context();
            auto together = place_all(context, host, Dtype::f64, Layout::contiguous);
            const Tensor shared = together[whole];
            slices(shared, together);
            backward(projected(context, call(context, op(), sample, std::move(together)), seed));
            expect_near(shared, base.grad().to_vector<double>(), scale);
            if (HasFatalFailure()) return;
        }
    });
}

/// A slice with gaps of a temporary that only the call holds: results have no gaps, and the values of copies.
TEST_P(Sharing, SlicesOfDroppedTemporariesGiveDenseResults) {
    for_each_sample([&](const ErasedSample& sample) {
        const std::vector<HostInput> host = draw(sample, seed);
        Context copies = strict_context();
        Context context = strict_context();
        const std::vector<Tensor> want =
            call(copies, op(), sample, place_all(copies, host, Dtype::f64, Layout::contiguous));
        std::vector<Tensor> inputs;
        for (const HostInput& input : host) {
            if (!has_gradient(input.what) || input.what.shape.rank() == 0) {
                inputs.push_back(place(context, input, Dtype::f64, Layout::contiguous));
                continue;
            }
            const Tensor x = place(context, input, Dtype::f64, Layout::contiguous);
            Shape pairs = input.what.shape;
            pairs.push_back(2);
            inputs.push_back(clone(expand(x.unsqueeze(-1), pairs)).select(-1, 1));
        }
        const std::vector<Tensor> got = call(context, op(), sample, std::move(inputs));
        ASSERT_EQ(got.size(), want.size());
        for (std::size_t i = 0; i < got.size(); ++i) {
            EXPECT_TRUE(is_dense(got[i].shape(), got[i].strides())) << "strides " << got[i].strides().to_string();
            if (!is_floating(got[i].dtype())) continue;
            const double bound = 64 * static_cast<double>(got[i].numel() + 64) * epsilon(Dtype::f64);
            expect_close({got[i].to_vector<double>()}, {want[i].to_vector<double>()}, bound, "output");
        }
    });
}

/// An op may write the gradient of a half straight to what the half was cast from, but not where somebody reads it.
TEST_P(Sharing, ARetainedGradientBehindACastIsThere) {
    for_each_sample([&](const ErasedSample& sample) {
        Context context = strict_context();
        const auto leaves = place_all(context, draw(sample, seed), Dtype::f32, Layout::contiguous);
        std::vector<Tensor> halves;
        for (const Tensor& x : leaves) {
            const bool floating = x.defined() && x.dtype() == Dtype::f32;
            halves.push_back(floating ? cast(x, Dtype::bf16) : x);
            if (floating && x.requires_grad()) halves.back().retain_grad();
        }
        const Tensor loss = projected(context, call(context, op(), sample, halves), seed);
        ASSERT_TRUE(loss.defined());
        backward(loss);
        for (std::size_t i = 0; i < halves.size(); ++i) {
            if (!halves[i].defined() || !leaves[i].requires_grad() || !leaves[i].grad().defined()) continue;
            ASSERT_TRUE(halves[i].grad().defined()) << "input " << i;
            EXPECT_EQ(halves[i].grad().to_vector<double>(), leaves[i].grad().to_vector<double>()) << "input " << i;
        }
    });
}

/// What only a branch without a path to the loss saved is gone before the first gradient is made.
TEST_P(Sharing, AnUnreachedBranchHoldsNothingInBackward) {
    for_each_sample([&](const ErasedSample& sample) {
        const auto peak = [&](bool branch) {
            Context context = strict_context();
            const auto inputs = place_all(context, draw(sample, seed), Dtype::f64, Layout::contiguous);
            const Tensor x = zeros(context, {1 << 15}, Dtype::f64).detach().requires_grad_();
            if (branch) {
                std::vector<Tensor> temporaries;
                for (const Tensor& input : inputs) temporaries.push_back(input.defined() ? clone(input) : input);
                std::vector<Tensor> outputs = call(context, op(), sample, std::move(temporaries));
                const Tensor y = sum(x * x);
                outputs.clear();
                backward(y);
            } else {
                const Tensor y = sum(x * x);
                backward(y);
            }
            return context.memory().statistics().peak_allocated;
        };
        EXPECT_EQ(peak(true), peak(false));
    });
}

const auto kDifferentiable = differentiable_ops();
INSTANTIATE_TEST_SUITE_P(AllOps, Sharing, testing::ValuesIn(kDifferentiable),
                         [](const auto& info) { return op_name(info.param); });

}  // namespace sharing_test
}  // namespace headroom::test
