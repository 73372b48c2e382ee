// The examples of core headers: each is compiled as the header shows it.
#include <cstdint>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <headroom/core/apply.hpp>
#include <headroom/core/array.hpp>
#include <headroom/core/category.hpp>
#include <headroom/core/context.hpp>
#include <headroom/core/evaluation_scope.hpp>
#include <headroom/core/exec.hpp>
#include <headroom/core/format.hpp>
#include <headroom/core/grad_sink.hpp>
#include <headroom/core/gradcheck.hpp>
#include <headroom/core/graph.hpp>
#include <headroom/core/group.hpp>
#include <headroom/core/inline_list.hpp>
#include <headroom/core/loss.hpp>
#include <headroom/core/named_array.hpp>
#include <headroom/core/nearest.hpp>
#include <headroom/core/op.hpp>
#include <headroom/core/op_timer.hpp>
#include <headroom/core/ops/batch_norm.hpp>
#include <headroom/core/ops/binary.hpp>
#include <headroom/core/ops/create.hpp>
#include <headroom/core/ops/cross_entropy.hpp>
#include <headroom/core/ops/losses.hpp>
#include <headroom/core/ops/reduce.hpp>
#include <headroom/core/ops/softmax.hpp>
#include <headroom/core/ops/unary.hpp>
#include <headroom/core/parameters.hpp>
#include <headroom/core/recomputed.hpp>
#include <headroom/core/recorded_program.hpp>
#include <headroom/core/rehearsal.hpp>
#include <headroom/core/scalar.hpp>
#include <headroom/core/scratch_budget.hpp>
#include <headroom/core/state_counter.hpp>
#include <headroom/core/state_dict.hpp>
#include <headroom/core/tape/policy.hpp>
#include <headroom/core/tape/record.hpp>
#include <headroom/core/tape/tape.hpp>
#include <headroom/core/tape/value.hpp>
#include <headroom/core/tensor.hpp>
#include <headroom/core/tensor_index.hpp>
#include <headroom/core/transfer.hpp>
#include <headroom/core/types.hpp>
#include <headroom/kernels/fill/fill.hpp>
#include <headroom/kernels/matmul/matmul.hpp>
#include <headroom/kernels/pointwise/pointwise.hpp>
#include <headroom/kernels/pointwise/unary_functions.hpp>
#include <headroom/kernels/softmax/softmax.hpp>
#include <headroom/nn/initializers.hpp>
#include <headroom/optim/gradient_accumulator.hpp>

namespace header_examples {
namespace header_examples_core_test {

using namespace headroom;

struct Model {
    Tensor operator()(Tensor x) const { return x; }
    Tensor forward(Tensor x) const { return x; }
    Loss loss(Tensor ids, Tensor targets) const { return cross_entropy(ids, targets); }
};
Tensor my_function(Tensor x) { return x; }
void train(Context&, int) {}
void step() {}
Tensor affine(Tensor x, Scalar, Scalar) { return x; }

namespace apply_example {
Tensor softmax(const Tensor& x) { return apply<ops::Softmax>({}, x); }
Tensor arange(Context& context, double begin, double end) { return apply<ops::Arange>(context, {begin, end}); }
void apply_example(Tensor x) {  // not shown
    auto [mean, variance] = apply<ops::BatchMoments>({}, x);
}
}  // namespace apply_example

void array_example(Exec& exec, Array bias) {
    Array y = exec.empty({2, 3}, Dtype::f32);
    exec.launch([&](auto& stream) { kernels::fill(stream, 1.0, y.view()); });
    if (!bias.defined()) {
    }
}

void category_example() {
    auto memory = std::make_shared<DeviceMemory>(memory::make_host_driver(), training_memory({.slack = 0.1}));
    Context context = Context::cpu({.memory = memory});
}

void context_example() {
    Context context = Context::cpu({.threads = 2, .memory_limit = 2'000'000'000, .seed = 1337});
    context.policy("blocks.*", recompute_all());
    Tensor x = context.from_host(std::vector<float>{1, 2}, {2});
    Context rehearsal = Context::dry(context.profile());
    fmt::print("{}\n", context.memory().statistics().peak_allocated);
}

void evaluation_scope_example(Parameters& parameters, const Model& model, Tensor x) {
    const EvaluationScope evaluation(parameters);
    Tensor logits = model(x);
}

void exec_example(Exec& exec, Array x, kernels::Matmul matmul) {
    Array y = exec.output(x.shape(), x.dtype);
    exec.launch([&](auto& stream) { kernels::softmax(stream, x.view(), y.view()); });
    exec.run<kernels::MatmulPlan>(matmul);
}

void format_example(Tensor x) { fmt::print("{}\n{} {}\n", x.grad(), x.shape(), x.dtype()); }

void grad_sink_example(Exec& exec, GradSink sink, kernels::GeluTanh f, Array x, Array dy) {
    if (auto target = sink.destination(0)) {
        exec.launch([&](auto& s) { kernels::map_backward(s, f, x.view(), dy.view(), target.beta, target.view()); });
    }
    if (sink.wanted(1)) sink.give(1, dy);
}

void gradcheck_example(Context& context) {
    Tensor x = context.from_host(std::vector<double>{0.3, -1.2, 2.0}, {3}).requires_grad_();
    gradcheck([](const std::vector<Tensor>& in) { return my_function(in[0]); }, {x});
}

void graph_example(Context& context, const Model& model, Tensor x, Tensor y) {
    GraphMemory memory(context);
    const WorkGraph forward(memory, [&] { y = model.forward(x); });
    forward.launch();
}

void group_example(Context& context, Array gradients, std::string host_name) {
    if (Group* group = context.group()) {
        all_reduce(context.exec(), *group, gradients);
        const std::vector<std::string> hosts = all_gather(*group, host_name);
    }
}

void inline_list_example(std::span<const Slot> slots, std::size_t count, Array (*array_of)(const Slot&)) {
    InlineList<Array, 4> inputs;
    inputs.reserve(count);
    for (const Slot& slot : slots) inputs.emplace_back(array_of(slot));
}

void loss_example(const Model& model, optim::GradientAccumulator& accumulator, Tensor logits, Tensor targets,
                  Tensor ids, Tensor x, Tensor y) {
    const Loss loss = cross_entropy(logits, targets);
    backward(loss.mean());
    accumulator.accumulate([&] { return model.loss(ids, targets); });
    Loss mine(sum(abs(x - y)), static_cast<double>(x.numel()));
    Loss both = mse_loss(x, y) + 0.5 * mine;
}

void named_array_example(Parameters& parameters) {
    for (const NamedArray& entry : parameters.state_dict().arrays) {
        fmt::print("{} {}\n", entry.name, entry.array.shape().to_string());
    }
}

void nearest_example() { nearest("--layer", {"--layers", "--lr", "--data"}, 1); }

namespace op_example {
struct Square {
    static constexpr OpInfo info{.name = "square", .cost = Cost::cheap};
    struct Attrs {};
    struct Saved {
        Array x;
    };
    static OpResult<Saved, Array> forward(Exec& exec, const Attrs&, const Array& x);
    static void backward(Exec& exec, const Attrs&, const Saved& saved, Array dy, GradSink sink);
    static std::vector<Sample<Attrs>> samples();
};
Tensor square(const Tensor& x) { return apply<Square>({}, x); }

OpResult<Square::Saved, Array> Square::forward(Exec&, const Attrs&, const Array& x) { return {{x}, x}; }
void Square::backward(Exec&, const Attrs&, const Saved&, Array, GradSink) {}
std::vector<Sample<Square::Attrs>> Square::samples() { return {}; }
}  // namespace op_example

void op_timer_example(Context& context) {
    OpTimer timer(context);
    train(context, 4);
    for (const OpTimes& op : timer.take()) fmt::print("{} s\n", op.forward.front());
}

void parameters_example(Context& context, const Initializer& initializer) {
    Parameters parameters(context);
    Parameters critic(context, {.name = "critic"});
    Tensor weight = parameters.create("up.weight", {512, 128}, initializer);
    parameters.freeze("up.**");
    for (const Parameter& p : parameters.all()) fmt::print("{} {}\n", p.path, p.tensor.shape());
    std::vector<float> values = parameters.at("up.weight").tensor.to_vector<float>();
    parameters.set("up.weight", values);
}

void recomputed_example(Context& context, const Model& lower, Tensor x0) {
    Tensor x = recomputed(context, "encoder.lower", [&] { return gelu(lower(x0)); });
}

void recorded_program_example(const Profile& profile, void (*program)(Context&)) {
    for (const RecordedOp& op : rehearse(profile, program).program.ops) fmt::print("{} {}\n", op.path, op.name);
}

void rehearsal_example(Context& context, Context& dry) {
    const Rehearsal rehearsal = rehearse(context.profile(), [](Context& dry) { train(dry, 8); });
    fmt::print("{} bytes, at {}\n", rehearsal.peak.allocated, rehearsal.peak.purpose);
    for (SteadyState steps(dry); !steps.reached();) step();
}

void scalar_example(Tensor x) {
    Tensor affine(Tensor x, Scalar factor, Scalar offset);
    Tensor y = affine(x, 2, 0.5);
}

void scratch_budget_example() {
    Profile profile = Profile::gpu(141'000'000'000);
    profile.compute.scratch_budget = fit_scratch_budget(profile, [](Context& rehearsal) { train(rehearsal, 2); });
    Context context = Context::cuda(0, {.compute = profile.compute});
}

void state_counter_example(StateValues values, std::int64_t& steps_) { steps_ = state_counter(values, "adamw.steps"); }

namespace state_dict_example {
struct MovingAverage {
    Tensor loss;         // not shown
    std::int64_t n = 0;  // not shown
    StateDict state_dict() { return {{{"average.loss", loss.array()}}, {{"average.count", fmt::to_string(n)}}}; }
    void restore(const StateValues& values) { n = state_value<std::int64_t>(values, "average.count"); }
};
}  // namespace state_dict_example

void policy_example(Context& context) {
    context.policy("blocks.*", recompute_all());
    context.policy("blocks.*.attention", keep_all());
    context.policy("", Policy({{.path = "blocks.3.mlp", .op = "gelu", .ordinal = 1, .answer = Answer::recompute}}));
    context.policy("**.mlp", [](const Candidate& op) {
        return op.pinned_bytes == 0 && op.bytes > 1'000'000 ? Answer::recompute : Answer::inherit;
    });
}

void record_example(Record& record, Exec& exec, std::span<const Array> inputs, Array* outputs, Array* saved) {
    record.op->forward(exec, record.attrs, inputs, outputs, saved);
}

void tape_example(Tape& tape, const OpTable& table, ops::Arange::Attrs attrs, std::span<Tensor> inputs,
                  std::span<Tensor> outputs, std::span<const Tensor> losses, std::span<const double> seeds) {
    tape.apply(table, &attrs, inputs, outputs);
    tape.backward(losses, seeds);
}

void value_example(Tensor x) {
    Tensor y = gelu(x);
    Tensor z = mul(y, y);
    EXPECT_EQ(y.value()->users, 1u);  // not shown
    EXPECT_EQ(y.value()->pins, 2u);   // not shown
}

void tensor_example() {
    Context context = Context::cpu();
    Tensor x = context.from_host(std::vector<float>{1, 2, 3, 4, 5, 6}, {2, 3}).requires_grad_();
    Tensor loss = sum(square(x.transpose(0, 1)));
    backward(loss);
    std::vector<float> gradient = x.grad().to_vector<float>();
}

void tensor_index_example(Tensor x) {
    x[3];
    x[Slice(1, 5)];
    x[{Slice(), 0}];
    x[{Ellipsis, Slice(0, -1, 2)}];
}

void transfer_example(Exec& exec, std::vector<float> values, Shape shape, Array array) {
    std::vector<double> doubles(values.size());
    upload(exec, contiguous_view(values.data(), Dtype::f32, shape), array);
    const WorkPoint uploaded(exec);
    download(exec, array, contiguous_view(doubles.data(), Dtype::f64, array.shape()));
    download(exec, array, contiguous_view(values.data(), Dtype::f32, shape), &uploaded);
}

namespace types_example {
Tensor zeros(Context& context, const Shape& shape, Dtype dtype = Dtype::f32);
}  // namespace types_example

TEST(HeaderExamples, OfCoreRun) {
    Context context = Context::cpu({.threads = 1, .seed = 1});
    const auto x = [&](const Shape& shape) { return randn(context, shape); };
    array_example(context.exec(), {});
    category_example();
    context_example();
    format_example(x({3}));
    gradcheck_example(context);
    nearest_example();
    parameters_example(context, nn::init::ones());
    recomputed_example(context, {}, x({3}));
    rehearsal_example(context, context);
    scalar_example(x({3}));
    policy_example(context);
    tensor_example();
    tensor_index_example(x({4, 3}));
    value_example(x({3}).detach().requires_grad_());
    transfer_example(context.exec(), std::vector<float>(6), {2, 3}, x({2, 3}).array());
}

}  // namespace header_examples_core_test
}  // namespace header_examples
