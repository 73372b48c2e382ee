#include <headroom/nn/batch_norm.hpp>

#include <algorithm>
#include <limits>

#include <headroom/core/ops/batch_norm.hpp>
#include <headroom/core/ops/checks.hpp>
#include <headroom/kernels/channel_norm/channel_norm.hpp>
#include <headroom/kernels/copy/copy.hpp>
#include <headroom/kernels/fill/fill.hpp>
#include <headroom/nn/initializers.hpp>

namespace headroom::nn {

BatchNorm2d::BatchNorm2d(const Path& path, std::int64_t channels, BatchNorm2dOptions options_)
    : Module(path), options(options_) {
    if (options.momentum) check_range("batch_norm", "momentum", *options.momentum, 0, 1);
    const Dtype dtype = path.parameters().dtype();
    const auto vector = [&](const char* name, const Initializer& initializer) {
        if (options.frozen) return path.buffer(name, {channels}, initializer, dtype);
        return path.parameter(name, {channels}, initializer);
    };
    if (options.affine) {
        weight = vector("weight", init::ones());
        bias = vector("bias", init::zeros());
    }
    running_mean = path.buffer("running_mean", {channels}, init::zeros(), dtype);
    running_var = path.buffer("running_var", {channels}, init::ones(), dtype);
    if (!options.frozen) num_batches_tracked = path.buffer("num_batches_tracked", {}, init::zeros(), Dtype::i64);
}

namespace {

/// The buffers of a layer.
struct Running {
    Array mean, variance, batches;
    double momentum;

    /// `work` changes them.
    template <class Work>
    void change(const Work& work) const {
        work(kernels::RunningStatistics{mean.view(), variance.view(), batches.view(), momentum});
        for (Array changed : {mean, variance, batches}) changed.buffer.bump_version();
    }
};

/// Of a micro-batch: [C] each, and one f64 for the loss.
struct Moments {
    Array mean, variance;
    double correction;
    Array loss;
};

/// Takes in the moments of all ranks' micro-batches, in their order. Null: this rank has none.
void take_in_all(Exec& exec, Context& context, const Moments* own, const Running& running) {
    Group& group = *context.group();
    const std::int64_t channels = running.mean.numel();
    const Array moments = exec.empty({group.ranks(), 2, channels}, running.mean.dtype, Category::workspace);
    const Array numbers = exec.empty({group.ranks(), 2}, Dtype::f64, Category::workspace);
    const auto row = [](const Array& rows, std::int64_t i, const Shape& shape) {
        Array one = rows;
        one.geometry = Geometry::contiguous(shape);
        one.geometry.offset = rows.geometry.offset + i * shape.numel();
        return one.view();
    };
    const std::int64_t place = 2 * group.rank();
    exec.launch([&](auto& stream) {
        if (!own) {  // what is not finite is not taken in
            kernels::fill(stream, 0.0, moments.view());
            kernels::fill(stream, std::numeric_limits<double>::quiet_NaN(), row(numbers, place, {}));
            return kernels::fill(stream, 1.0, row(numbers, place + 1, {}));
        }
        kernels::copy(stream, own->mean.view(), row(moments, place, {channels}));
        kernels::copy(stream, own->variance.view(), row(moments, place + 1, {channels}));
        kernels::copy(stream, own->loss.view(), row(numbers, place, {}));
        kernels::fill(stream, own->correction, row(numbers, place + 1, {}));
    });
    all_gather_rows(exec, group, moments);
    all_gather_rows(exec, group, numbers);
    context.tape().in_order_of_ranks([=](Exec& on, int rank) {
        running.change([&](const kernels::RunningStatistics& statistics) {
            on.launch([&](auto& stream) {
                const View loss = row(numbers, 2 * rank, {});
                kernels::update_running(stream, row(moments, 2 * rank, {channels}),
                                        row(moments, 2 * rank + 1, {channels}), row(numbers, 2 * rank + 1, {}), &loss,
                                        statistics);
            });
        });
    });
}

}  // namespace

Tensor BatchNorm2d::forward(Tensor x, Tensor residual) const {
    const BatchNormOptions how{options.epsilon, options.relu, std::move(residual)};
    if (options.frozen || !training()) {
        return frozen_batch_norm(std::move(x), running_mean, running_var, weight, bias, how);
    }
    check_defined("batch_norm", {{"x", x}});
    const auto elements = static_cast<double>(x.numel());
    BatchNormResult result = batch_norm(std::move(x), weight, bias, how);
    check_same_shape("batch_norm", {"the mean of x", result.mean}, {"running_mean", running_mean});
    take_in(result.mean, result.variance,
            elements / static_cast<double>(std::max<std::int64_t>(1, result.mean.numel())));
    return std::move(result.y);
}

/// `values`: of each channel.
void BatchNorm2d::take_in(const Tensor& mean, const Tensor& variance, double values) const {
    // Arrays, not tensors: a handle would keep the records of results that the program has dropped.
    const Running running{running_mean.array(), running_var.array(), num_batches_tracked.array(),
                          options.momentum.value_or(-1)};
    Context* const of = context().group() ? &context() : nullptr;
    const auto update = [of, running, mean = mean.array(), variance = variance.array(),
                         correction = values / (values - 1)](Exec& exec, const Array* loss) {
        if (of && loss) {
            const Moments own{mean, variance, correction, *loss};
            return take_in_all(exec, *of, &own, running);
        }
        const View loss_view = loss ? loss->view() : View{};
        running.change([&](const kernels::RunningStatistics& statistics) {
            exec.launch([&](auto& stream) {
                kernels::update_running(stream, mean.view(), variance.view(), correction, loss ? &loss_view : nullptr,
                                        statistics);
            });
        });
    };
    if (!of) return context().after_backward(update);
    context().after_backward(update, [of, running](Exec& exec) { take_in_all(exec, *of, nullptr, running); });
}

}  // namespace headroom::nn
