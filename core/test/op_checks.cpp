#include <headroom/core/test/op_checks.hpp>

#include <algorithm>

#include <fmt/format.h>

#include <headroom/core/gradcheck.hpp>
#include <headroom/core/ops/binary.hpp>
#include <headroom/core/ops/cast.hpp>
#include <headroom/core/ops/clone.hpp>
#include <headroom/core/ops/reduce.hpp>
#include <headroom/core/test/agreement.hpp>
#include <headroom/memory/error.hpp>

namespace headroom::test {

namespace {

/// Throws what `work` throws, with the sample's description before it.
template <class Work>
void in_sample(const OpEntry& op, const ErasedSample& sample, const Seed& seed, Work&& work) {
    try {
        work();
    } catch (const Error& error) {
        throw Error(fmt::format("{}: {}", describe(op, sample, seed), error.what()));
    }
}

/// Memory holds NaN until it is written: an op that reads its output, its gradient's destination at beta 0 or scratch
/// too early is found, also where it multiplies by 0.
Context strict_context(int threads = 1) {
    return Context::cpu({.threads = threads, .fill_uninitialized_memory = true});
}

void require(bool holds, const std::string& what) {
    if (!holds) throw Error(what);
}

double element_count(const ErasedSample& sample) {
    std::int64_t count = 8;
    for (const SampleInput& input : sample.inputs) count += input.defined ? input.shape.numel() : 0;
    return static_cast<double>(count);
}

Arrays sums(const Arrays& a, const Arrays& b) {
    Arrays result = a;
    for (std::size_t i = 0; i < a.size(); ++i) {
        for (std::size_t k = 0; k < a[i].size(); ++k) result[i][k] += b[i][k];
    }
    return result;
}

void check_differences(const OpEntry& op, const ErasedSample& sample, const Seed& seed) {
    if (std::none_of(sample.inputs.begin(), sample.inputs.end(), has_gradient)) return;
    Context context = strict_context();
    const auto function = [&](const std::vector<Tensor>& inputs) { return call(context, op, sample, inputs); };
    gradcheck(function, place_all(context, draw(sample, seed), Dtype::f64, Layout::contiguous), seed.value);
}

void check_adding_up(const OpEntry& op, const ErasedSample& sample, const Seed& seed) {
    Context context = strict_context();
    const std::vector<HostInput> inputs = draw(sample, seed);
    const auto place_them = [&] { return place_all(context, inputs, Dtype::f64, Layout::contiguous); };
    const Arrays once = gradients(context, op, sample, place_them(), seed);
    const auto placed = place_them();
    gradients(context, op, sample, placed, seed);
    const double bound = element_count(sample) * epsilon(Dtype::f64);
    expect_close(gradients(context, op, sample, placed, seed), sums(once, once), bound, "gradient after a second use");
}

void check_one_tensor_twice(const OpEntry& op, const ErasedSample& sample, const Seed& seed) {
    const std::vector<SampleInput>& in = sample.inputs;
    if (in.size() < 2 || !has_gradient(in[0]) || !has_gradient(in[1]) || in[0].shape != in[1].shape) return;
    Context context = strict_context();
    std::vector<HostInput> inputs = draw(sample, seed);
    inputs[1].values = inputs[0].values;
    auto placed = place_all(context, inputs, Dtype::f64, Layout::contiguous);
    const Arrays apart = gradients(context, op, sample, placed, seed);
    placed = place_all(context, inputs, Dtype::f64, Layout::contiguous);
    placed[1] = placed[0];
    const Arrays together = gradients(context, op, sample, placed, seed);
    const double scale = largest(apart[0]) + largest(apart[1]);
    expect_close({together[0]}, sums({apart[0]}, {apart[1]}), element_count(sample) * epsilon(Dtype::f64),
                 "gradient of one tensor as inputs 0 and 1,", {scale});
}

void check_geometry(const OpEntry& op, const ErasedSample& sample, Layout layout, const Seed& seed) {
    Context context = strict_context();
    const auto inputs = place_all(context, draw(sample, seed), Dtype::f64, layout);
    const std::vector<Tensor> outputs = call(context, op, sample, inputs);
    std::vector<Tensor> values = inputs;
    for (const Tensor& y : outputs) {
        require(is_dense(y.shape(), y.strides()), "an output has gaps: strides " + y.strides().to_string());
        if (y.requires_grad()) y.retain_grad();
        values.push_back(y);
    }
    Tensor loss = projected(context, outputs, seed);
    if (loss.defined()) backward(loss);
    for (const Tensor& tensor : values) {
        if (!tensor.defined() || !tensor.value()->grad.defined()) continue;
        const Array &value = tensor.value()->array, &gradient = tensor.value()->grad;
        require(gradient.strides() == value.strides(),
                fmt::format("a gradient has the strides {}, but its value has {}", gradient.strides().to_string(),
                            value.strides().to_string()));
    }
}

/// Inputs that only the call holds: forward and backward may write over them, and over what they saved.
void check_taken_over(const OpEntry& op, const ErasedSample& sample, const Seed& seed) {
    Context context = strict_context();
    const auto leaves = place_all(context, draw(sample, seed), Dtype::f64, Layout::contiguous);
    const Arrays expected = gradients(context, op, sample, leaves, seed);
    for (const Tensor& leaf : leaves) {
        if (leaf.defined()) leaf.zero_grad();
    }
    std::vector<Tensor> inputs;
    for (const Tensor& leaf : leaves) inputs.push_back(leaf.defined() ? clone(leaf) : Tensor());
    Tensor loss = projected(context, call(context, op, sample, std::move(inputs)), seed);
    if (loss.defined()) backward(loss);
    for (std::size_t i = 0; i < leaves.size(); ++i) {
        if (expected[i].empty()) continue;
        require(leaves[i].grad().to_vector<double>() == expected[i],
                fmt::format("gradient {} has other bits when the op may overwrite its inputs", i));
    }
}

struct Replayed {
    Arrays gradients;
    std::uint64_t records = 0;  ///< that were run again
};

/// Gradients of the inputs and of a weight by which each output is multiplied: the latter are the outputs as backward
/// sees them, so ops without a gradient are tested, too.
Replayed replay(const OpEntry& op, const ErasedSample& sample, Dtype dtype, Layout layout, const Policy& policy,
                bool taken_over, const Seed& seed) {
    Context context = strict_context();
    context.policy("region", policy);
    const auto inputs = place_all(context, draw(sample, seed), dtype, layout);
    std::vector<Tensor> weights;
    Tensor loss;
    {
        const RegionScope region(context, context.memory().intern("region"));
        std::vector<Tensor> taken;  // held by the call alone, so that it may write over them
        for (const Tensor& input : inputs) taken.push_back(input.defined() ? clone(input) : Tensor());
        std::vector<Tensor> outputs = call(context, op, sample, taken_over ? std::move(taken) : inputs);
        taken.clear();
        for (std::size_t i = 0; i < outputs.size(); ++i) {
            Tensor y = is_floating(outputs[i].dtype()) ? outputs[i] : cast(outputs[i], Dtype::f32);
            const HostInput weight{SampleInput::normal(y.shape()), draw_projection(y.numel(), i, seed)};
            weights.push_back(place(context, weight, y.dtype(), Layout::contiguous));
            Tensor part = sum(mul(y, weights.back()));
            loss = loss.defined() ? loss + cast(part, loss.dtype()) : part;
        }
    }
    backward(loss);
    Replayed result{{}, context.tape().statistics().replayed};
    for (const std::vector<Tensor>* list : {&inputs, &std::as_const(weights)}) {
        for (const Tensor& leaf : *list) {
            const Tensor gradient = leaf.defined() ? leaf.grad() : Tensor();
            result.gradients.push_back(gradient.defined() ? gradient.to_vector<double>() : std::vector<double>());
        }
    }
    return result;
}

/// What was counted after forward, after backward, and when all is gone.
std::vector<MemoryStatistics> rehearse(Context& context, const OpEntry& op, const ErasedSample& sample, Dtype dtype,
                                       Layout layout, const Seed& seed) {
    std::vector<MemoryStatistics> result;
    {
        const auto inputs = place_all(context, draw(sample, seed), dtype, layout);
        Tensor loss = projected(context, call(context, op, sample, inputs), seed);
        result.push_back(context.memory().statistics());
        if (loss.defined()) backward(loss);
        result.push_back(context.memory().statistics());
        loss = projected(context, call(context, op, sample, inputs), seed);  // with gradients that are there
        if (loss.defined()) backward(loss);
        result.push_back(context.memory().statistics());
    }
    context.tape().clear();
    result.push_back(context.memory().statistics());
    return result;
}

/// The message of the error; empty if the call was accepted.
std::string refusal(Context& context, const OpEntry& op, const ErasedSample& sample,
                    const std::vector<Tensor>& inputs) {
    try {
        call(context, op, sample, inputs);
    } catch (const Error& error) {
        return error.what();
    }
    return {};
}

void check_refusal(Context& context, const OpEntry& op, const ErasedSample& sample, const Seed& seed) {
    const auto inputs = place_all(context, draw(sample, seed), Dtype::f32, Layout::contiguous);
    const std::size_t records = context.tape().size();
    const std::size_t values = context.tape().statistics().values;
    const std::size_t allocated = context.memory().statistics().allocated;
    const std::string message = refusal(context, op, sample, inputs);
    require(!message.empty(), "the call must be refused, but was accepted");
    require(message.find(sample.rejected) != std::string::npos,
            fmt::format("the message \"{}\" lacks \"{}\"", message, sample.rejected));
    require(message.starts_with(op.table->info.name),
            fmt::format("the message \"{}\" must begin with the op's name", message));
    require(message.find('\n') == std::string::npos, fmt::format("the message \"{}\" must be one line", message));
    require(context.tape().size() == records && context.tape().statistics().values == values &&
                context.memory().statistics().allocated == allocated,
            "the refused call left records, values or memory behind; check before you allocate");
}

}  // namespace

void check_gradients(const OpEntry& op, const Seed& seed) {
    if (!op.table->backward) return;
    for (const ErasedSample& sample : accepted(op)) {
        in_sample(op, sample, seed, [&] {
            check_differences(op, sample, seed);
            check_adding_up(op, sample, seed);
            check_one_tensor_twice(op, sample, seed);
            check_taken_over(op, sample, seed);
        });
    }
}

void check_layouts(const OpEntry& op, const OpChecks& checks) {
    Context context = strict_context(), reference = Context::cpu({.threads = 1});
    for (const Dtype dtype : checks.dtypes)
        expect_agreement(context, reference, op, dtype, checks.layouts, checks.seed);
    for (const ErasedSample& sample : accepted(op)) {
        for (const Layout layout : checks.layouts) {
            in_sample(op, sample, checks.seed, [&] { check_geometry(op, sample, layout, checks.seed); });
        }
    }
}

void check_replay(const OpEntry& op, const OpChecks& checks) {
    for (const ErasedSample& sample : accepted(op)) {
        for (const Dtype dtype : checks.dtypes) {
            for (const Layout layout : checks.layouts) {
                if (layout != Layout::contiguous && layout != Layout::permuted) continue;  // others are views of these
                in_sample(op, sample, checks.seed, [&] {
                    const auto run = [&](const Policy& policy, bool taken_over) {
                        return replay(op, sample, dtype, layout, policy, taken_over, checks.seed);
                    };
                    const Replayed kept = run(keep_all(), false);
                    require(kept.records == 0, "something was recomputed although everything was kept");
                    for (const bool taken_over : {false, true}) {
                        const Replayed again = run(recompute_all(), taken_over);
                        require(again.records > 0, "nothing was recomputed");
                        require(again.gradients == kept.gradients, "recomputation gives other bits");
                    }
                    require(run(keep_all(), true).gradients == kept.gradients,
                            "gradients have other bits when the op may overwrite its inputs");
                });
            }
        }
    }
}

void check_rehearsal(const OpEntry& op, const OpChecks& checks) {
    for (const ErasedSample& sample : accepted(op)) {
        for (const Dtype dtype : checks.dtypes) {
            for (const Layout layout : checks.layouts) {
                in_sample(op, sample, checks.seed, [&] {
                    Context real = strict_context(2);
                    Context dry = Context::dry(real.profile());
                    const auto taken = rehearse(real, op, sample, dtype, layout, checks.seed);
                    const auto predicted = rehearse(dry, op, sample, dtype, layout, checks.seed);
                    for (std::size_t i = 0; i < taken.size(); ++i) {
                        require(taken[i] == predicted[i],
                                fmt::format("the rehearsal's peak is {} bytes, the real one {}, at point {} of 4",
                                            predicted[i].peak_allocated, taken[i].peak_allocated, i + 1));
                    }
                    require(taken.back().allocated == 0, "something is still held");
                });
            }
        }
    }
}

void check_refusals(const OpEntry& op, const Seed& seed) {
    Context context = strict_context();
    Context dry = Context::dry(context.profile());
    for (const ErasedSample& sample : refused(op)) {
        in_sample(op, sample, seed, [&] {
            check_refusal(context, op, sample, seed);
            if (sample.rejected.find(": index") != std::string::npos) return;  // values are not checked when dry
            check_refusal(dry, op, sample, seed);
        });
    }
}

void check_op(const OpEntry& op, const OpChecks& checks) {
    if (accepted(op).empty()) throw Error(fmt::format("{}: an op needs a sample that it accepts", op.table->info.name));
    check_gradients(op, checks.seed);
    check_layouts(op, checks);
    check_replay(op, checks);
    check_rehearsal(op, checks);
    check_refusals(op, checks.seed);
}

}  // namespace headroom::test
