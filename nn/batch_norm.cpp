#include <headroom/nn/batch_norm.hpp>

#include <algorithm>

#include <headroom/core/ops/batch_norm.hpp>
#include <headroom/core/ops/checks.hpp>
#include <headroom/kernels/channel_norm/channel_norm.hpp>
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
    context().after_backward([mean = mean.array(), variance = variance.array(), running_mean = running_mean.array(),
                              running_var = running_var.array(), batches = num_batches_tracked.array(),
                              correction = values / (values - 1),
                              momentum = options.momentum.value_or(-1)](Exec& exec, const Array* loss) mutable {
        const kernels::RunningStatistics running{running_mean.view(), running_var.view(), batches.view(), momentum};
        const View loss_view = loss ? loss->view() : View{};
        exec.launch([&](auto& stream) {
            kernels::update_running(stream, mean.view(), variance.view(), correction, loss ? &loss_view : nullptr,
                                    running);
        });
        for (Array* changed : {&running_mean, &running_var, &batches}) changed->buffer.bump_version();
    });
}

bool takes_batch_statistics(const Parameters& parameters) {
    return std::ranges::any_of(parameters.all(), [](const Parameter& parameter) {
        return parameter.path.ends_with("num_batches_tracked");  // frozen layers count nothing
    });
}

}  // namespace headroom::nn
