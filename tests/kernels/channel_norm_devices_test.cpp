// channel_norm: batch_norm, group_norm and instance_norm, channels-last and row-major.
#include <headroom/kernels/channel_norm/channel_norm.hpp>

#include <cmath>
#include <string>
#include <vector>

#include <headroom/tests/kernels/kernel_table.hpp>

namespace headroom::kernels {
namespace channel_norm_devices_test {

using namespace test;

constexpr double kEpsilon = 1e-3;

/// An image as it lies in memory, and how it is normalised.
struct Images {
    std::int64_t images, channels, height, width;
    std::int64_t groups = 0;  ///< 0: over the batch
    bool last = true;         ///< channels-last; false: row-major

    Shape memory() const {
        return last ? Shape{images, height, width, channels} : Shape{images, channels, height, width};
    }
    std::int64_t plane() const { return height * width; }
    std::int64_t numel() const { return images * channels * plane(); }
    Shape statistics() const { return groups == 0 ? Shape{channels} : Shape{images, groups}; }
    std::int64_t channel(std::int64_t i) const { return last ? i % channels : i / plane() % channels; }
    std::int64_t set(std::int64_t i) const {
        const std::int64_t image = i / (channels * plane());
        return groups == 0 ? channel(i) : image * groups + channel(i) / (channels / groups);
    }
    std::int64_t sets() const { return statistics().numel(); }
    double count() const { return static_cast<double>(numel() / sets()); }
    /// [N, C, H, W], whatever lies how in memory.
    View seen(View x) const {
        if (!last) return x;
        x.shape = {x.shape[0], x.shape[3], x.shape[1], x.shape[2]};
        x.strides = {x.strides[0], x.strides[3], x.strides[1], x.strides[2]};
        return x;
    }
    std::string name() const {
        return to_name(memory()) + (last ? "/last" : "/rows") +
               (groups == 0 ? "" : "/groups_" + std::to_string(groups));
    }
};

struct Statistics {
    Statistics(const Images& of, const TestArray& x) : mean(index(of.sets())), variance(mean), magnitude(mean) {
        for (std::int64_t i = 0; i < of.numel(); ++i) mean[index(of.set(i))] += x.get(i) / of.count();
        for (std::int64_t i = 0; i < of.numel(); ++i) {
            const std::size_t s = index(of.set(i));
            variance[s] += std::pow(x.get(i) - mean[s], 2) / of.count();
            magnitude[s] = std::max(magnitude[s], std::abs(x.get(i)));
        }
    }
    static std::size_t index(std::int64_t i) { return static_cast<std::size_t>(i); }
    static Fill fill(const std::vector<double>& values) {
        return [values](TestArray& y) {
            for (std::int64_t i = 0; i < y.numel(); ++i) y.set(i, values[index(i)]);
        };
    }
    std::vector<double> mean, variance, magnitude;
};

Trial moments_trial(const Variant& v, Random& random, const Images& of) {
    Trial trial;
    const TestArray& x = trial.input(v, of.memory(), normal(random, 2, 3));
    Output& mean = trial.output(compute_dtype(v.dtype), of.statistics(), Layout::contiguous);
    Output& variance = trial.output(compute_dtype(v.dtype), of.statistics(), Layout::contiguous);
    const Statistics expected(of, x);
    const double unit = epsilon(compute_dtype(v.dtype));
    for (std::size_t s = 0; s < expected.mean.size(); ++s) {
        const double scale = expected.variance[s] + std::sqrt(expected.variance[s]) * expected.magnitude[s];
        mean.expect(expected.mean[s], 64 * unit * expected.magnitude[s]);
        variance.expect(expected.variance[s], 64 * unit * scale);
    }
    trial.call = [=](Device& device, const Views& in, const Views& out) {
        device.run<ChannelMomentsPlan>(of.seen(in[0]), out[0], out[1]);
    };
    return trial;
}

constexpr Dtype kSame = Dtype::boolean;  // as x

struct Options {
    bool affine = true, relu = false, residual = false, constant = false;
    Dtype result = kSame;  ///< of y and dy
    Dtype parameters = kSame;
    bool x = true;   ///< x is there for the gradient, and that of weight is wanted
    bool y = false;  ///< y is given as the mask
    std::string name() const {
        std::string name;
        if (!affine) name += "/plain";
        if (relu) name += "/relu";
        if (residual) name += "/residual";
        if (constant) name += "/constant";
        if (!x) name += "/without_x";
        if (y) name += "/with_y";
        if (result != kSame) name += "/to_" + std::string(kernels::name(result));
        if (parameters != kSame) name += "/parameters_in_" + std::string(kernels::name(parameters));
        return name;
    }
};

/// in: x, mean, variance, weight, bias.
ChannelNorm norm_of(const Views& in, const Options& options) {
    return {.mean = in[1],
            .variance = in[2],
            .epsilon = kEpsilon,
            .weight = options.affine ? &in[3] : nullptr,
            .bias = options.affine ? &in[4] : nullptr,
            .relu = options.relu};
}

/// The inputs of forward and gradient, and the value of each element before residual and mask.
struct Normalized {
    Normalized(Trial& trial, const Variant& v, Random& random, const Images& of, const Options& options)
        : x(trial.input(v, of.memory(), normal(random, 2, 3))) {
        const Dtype wide = compute_dtype(v.dtype),
                    parameters = options.parameters == kSame ? v.dtype : options.parameters;
        const Statistics statistics(of, x);
        const TestArray& mean =
            trial.input(wide, of.statistics(), Layout::contiguous, Statistics::fill(statistics.mean));
        const TestArray& variance =
            trial.input(wide, of.statistics(), Layout::contiguous, Statistics::fill(statistics.variance));
        const TestArray& w = trial.input(parameters, {of.channels}, v.in, normal(random, 1, 0.5));
        const TestArray& b = trial.input(parameters, {of.channels}, v.in, normal(random));
        for (std::int64_t i = 0; i < of.numel(); ++i) {
            const std::int64_t c = of.channel(i), s = of.set(i);
            rstd.push_back(1 / std::sqrt(variance.get(s) + kEpsilon));
            h.push_back((x.get(i) - mean.get(s)) * rstd.back());
            weight.push_back(options.affine ? w.get(c) : 1);
            bias.push_back(options.affine ? b.get(c) : 0);
            value.push_back(h.back() * weight.back() + bias.back());
        }
    }
    const TestArray& x;
    std::vector<double> rstd, h, weight, bias, value;
};

Trial forward_trial(const Variant& v, Random& random, const Images& of, const Options& options) {
    Trial trial;
    const Normalized from(trial, v, random, of, options);
    const Dtype result = options.result == kSame ? v.dtype : options.result;
    const TestArray* residual = nullptr;
    if (options.residual) residual = &trial.input(result, of.memory(), v.in, normal(random));
    Output& y = trial.output(result, of.memory(), v.out);
    if (result == v.dtype) y.over = options.residual ? 5 : 0;
    const double unit = epsilon(compute_dtype(v.dtype));
    for (std::int64_t i = 0; i < of.numel(); ++i) {
        const auto at = static_cast<std::size_t>(i);
        const double added = residual ? residual->get(i) : 0, value = from.value[at] + added;
        const double parts = std::abs(from.h[at] * from.weight[at]) + std::abs(from.bias[at]) + std::abs(added);
        y.expect(options.relu ? std::max(value, 0.0) : value, 8 * unit * parts);
    }
    trial.call = [=](Device& device, const Views& in, const Views& out) {
        const ChannelNorm norm = norm_of(in, options);
        const View x = of.seen(in[0]), y = of.seen(out[0]), added = of.seen(in[options.residual ? 5 : 0]);
        device.run([&](auto& stream) { channel_norm(stream, x, norm, options.residual ? &added : nullptr, y); });
    };
    return trial;
}

/// in, behind those of forward: dy, and y if it is given. out: dx, dx added to what is there; weight's added, bias's,
/// the residual's.
Trial backward_trial(const Variant& v, Random& random, const Images& of, const Options& options) {
    Trial trial;
    const Normalized from(trial, v, random, of, options);
    const Dtype result = options.result == kSame ? v.dtype : options.result;
    const auto size = static_cast<std::size_t>(of.numel());
    std::vector<double> sign(size, 1);  // of y
    std::normal_distribution<double> added(0, 1);
    for (std::size_t i = 0; i < size && options.relu; ++i) sign[i] = from.value[i] + (options.y ? added(random) : 0);
    const TestArray& dy = trial.input(result, of.memory(), v.in, [&](TestArray& d) {
        d.fill(random);
        for (std::size_t i = 0; i < size; ++i)  // no gradient where the mask depends on rounding
            if (std::abs(sign[i]) < 1e-3) d.set(static_cast<std::int64_t>(i), 0);
    });
    if (options.y) trial.input(result, of.memory(), v.in, Statistics::fill(sign));
    Output &dx = trial.output(v, of.memory()), &sum = trial.output(Dtype::f32, of.memory(), v.out, all(3));
    Output& dweight = trial.output(Dtype::f32, {of.channels}, v.out, all(2));
    Output& dbias = trial.output(v, {of.channels});
    Output& dresidual = trial.output(result, of.memory(), v.out);
    if (result == v.dtype) dx.over = 5;
    const auto sets = static_cast<std::size_t>(of.sets()), channels = static_cast<std::size_t>(of.channels);
    std::vector<double> g(size), mean(sets), product(sets), mean_size(sets), product_size(sets);
    std::vector<double> weights(channels), biases(channels), weight_size(channels), bias_size(channels);
    for (std::size_t i = 0; i < size; ++i) {
        const auto at = static_cast<std::int64_t>(i);
        const auto s = static_cast<std::size_t>(of.set(at)), c = static_cast<std::size_t>(of.channel(at));
        g[i] = sign[i] > 0 ? dy.get(at) : 0;
        const double gw = g[i] * from.weight[i] / of.count(), gh = g[i] * from.h[i];
        mean[s] += gw, product[s] += gw * from.h[i];
        mean_size[s] += std::abs(gw), product_size[s] += std::abs(gw * from.h[i]);
        weights[c] += gh, biases[c] += g[i], weight_size[c] += std::abs(gh), bias_size[c] += std::abs(g[i]);
    }
    const double unit = epsilon(compute_dtype(v.dtype));
    for (std::size_t i = 0; i < size; ++i) {
        const auto s = static_cast<std::size_t>(of.set(static_cast<std::int64_t>(i)));
        const double gw = g[i] * from.weight[i], h = from.h[i];
        const double value = from.rstd[i] * (options.constant ? gw : gw - mean[s] - h * product[s]);
        const double parts = std::abs(gw) + mean_size[s] + std::abs(h) * product_size[s];
        dx.expect(value, 128 * unit * from.rstd[i] * parts), sum.expect(3 + value, 128 * unit * from.rstd[i] * parts);
        dresidual.expect(g[i], 0);
    }
    for (std::size_t c = 0; c < channels; ++c) {
        dweight.expect(options.x ? 2 + weights[c] : 2, options.x ? 128 * unit * weight_size[c] : 0);
        dbias.expect(biases[c], 128 * unit * bias_size[c]);
    }
    trial.call = [=](Device& device, const Views& in, const Views& out) {
        const ChannelNorm norm = norm_of(in, options);
        const View x = of.seen(in[0]), y = of.seen(in[options.y ? 6 : 5]), to_x = of.seen(out[0]),
                   to_sum = of.seen(out[1]), to_residual = of.seen(out[4]);
        const ChannelNormInputs inputs{.x = options.x ? &x : nullptr,
                                       .dy = of.seen(in[5]),
                                       .y = options.y ? &y : nullptr,
                                       .constant = options.constant};
        device.run<ChannelNormGradientPlan>(inputs, norm, ChannelNormGradients{.x = {&to_sum, 1}});
        ChannelNormGradients to{.x = &to_x, .bias = &out[3], .residual = &to_residual};
        if (options.x) to.weight = {&out[2], 1};
        device.run<ChannelNormGradientPlan>(inputs, norm, to);
    };
    return trial;
}

Cases cases() {
    static constexpr Dtype kHalf[] = {Dtype::bf16};
    Cases result;
    const auto add = [&](const Images& of, const Options& options, std::span<const Dtype> dtypes,
                         std::span<const Layouts> layouts, bool moves = false) {
        const std::string name = of.name() + options.name();
        result.add("forward/" + name, forward_trial, of, options).only(dtypes, layouts).moves = moves;
        result.add("backward/" + name, backward_trial, of, options).only(dtypes, layouts).moves = moves;
    };
    // Channels that a GPU takes eight at a time or one by one; tiles, and several blocks of lines; one column.
    const Images all_images[] = {{3, 16, 5, 4},   {2, 5, 3, 7},      {2, 72, 1, 3},    {4, 1, 3, 3},
                                 {1, 2, 1, 40},   {5, 24, 1, 1},     {3, 12, 4, 5, 4}, {2, 16, 3, 3, 2},
                                 {2, 6, 5, 1, 6}, {1, 264, 2, 2, 33}};
    for (Images of : all_images) {
        // Where arrays are moved to matters where channels are taken by eights; and for some others' offsets.
        const bool moves = of.channels == 16 || of.channels == 5 || of.channels == 6;
        for (const bool last : {true, false}) {
            if (!last && of.channels > 16) continue;  // a row is a column by itself: more of them are nothing new
            of.last = last;
            const std::span<const Layouts> layouts = moves && last ? layouts_for(of.memory()) : kFewLayouts;
            result.add("moments/" + of.name(), moments_trial, of).only(kFloating, layouts).moves = moves && last;
            add(of, {}, kFloating, layouts, moves && last);
            add(of, {.relu = true}, kF32, kContiguous);
        }
    }
    const Images image{3, 16, 5, 4}, rows{3, 6, 5, 4, 0, false}, odd{2, 5, 3, 7}, grouped{2, 16, 3, 3, 2};
    for (const Images& of : {image, rows, odd, grouped}) {
        add(of, {.affine = false}, kFloating, kFewLayouts);
        add(of, {.relu = true, .residual = true, .y = true}, kFloating, kFewLayouts, of.channels == 16);
        add(of, {.residual = true}, kF32, kFewLayouts);
        add(of, {.constant = true}, kFloating, kFewLayouts);
        add(of, {.relu = true, .constant = true, .x = false, .y = true}, kFloating, kFewLayouts);
        add(of, {.relu = true, .result = Dtype::bf16}, kF32, kFewLayouts);
        add(of, {.relu = true, .result = Dtype::f32}, kHalf, kFewLayouts);
        add(of, {.relu = true, .parameters = Dtype::f32}, kHalf, kFewLayouts);
    }
    // Lines of several pieces, tiles beside each other, parts that are joined.
    static constexpr Dtype kTwo[] = {Dtype::f32, Dtype::f64};
    for (const Images& of : {Images{1, 3, 50, 60, 0, false}, Images{9, 1, 30, 70}, Images{2, 1040, 3, 3},
                             Images{2, 1040, 3, 3, 4}, Images{2, 20, 40, 30}, Images{2, 3, 41, 37, 3, false}}) {
        result.add("moments/" + of.name(), moments_trial, of).only(kTwo);
        add(of, {.relu = true}, kTwo, kContiguous);
    }
    add({1, 1040, 2, 1, 104}, {}, kTwo, kContiguous);  // a tile of the processor begins within a group
    const Images large{2, 64, 70, 64};
    result.add("moments/" + large.name(), moments_trial, large).only(kHalf).large = true;
    result.add("backward/" + large.name(), backward_trial, large, Options{.relu = true}).only(kHalf).large = true;
    return result;
}

const bool registered = add_rows("ChannelNormRows", cases());

using ChannelNormTest = DeviceTest;

TEST_P(ChannelNormTest, KeepsItsDigitsWhenTheMeanIsLarge) {
    for (const bool last : {true, false}) {
        const Images of{4, 8, 20, 20, 0, last};
        TestArray x(Dtype::f32, of.memory()), mean(Dtype::f32, {8}), variance(Dtype::f32, {8});
        x.fill(random, 10000, 1);
        const View in = of.seen(device().put(x)), to_mean = device().put(mean), to_variance = device().put(variance);
        device().run<ChannelMomentsPlan>(in, to_mean, to_variance);
        device().get(to_variance, variance);
        const Statistics expected(of, x);
        // Means of blocks are off by 10000 epsilon, and the variance by that times their distances, which are below 1.
        for (std::int64_t c = 0; c < 8; ++c)
            EXPECT_NEAR(variance.get(c) / expected.variance[static_cast<std::size_t>(c)], 1,
                        10000 * epsilon(Dtype::f32));
    }
}

TEST_P(ChannelNormTest, EqualNumbersHaveTheirMeanAndNoVarianceToTheBit) {
    for (const Images& of : {Images{3, 5, 7, 9}, Images{3, 5, 7, 9, 0, false}, Images{2, 300, 11, 13},
                             Images{2, 6, 61, 67, 0, false}, Images{3, 12, 9, 7, 4}, Images{3, 12, 33, 7, 3, false}}) {
        for (const Dtype dtype : kWide) {
            TestArray x(dtype, of.memory()), mean(dtype, of.statistics()), variance(dtype, of.statistics());
            for (std::int64_t i = 0; i < x.numel(); ++i) x.set(i, (static_cast<double>(of.set(i)) - 1.1) * 997 / 3);
            const View in = device().put(x), to = device().put(mean), spread = device().put(variance);
            device().run<ChannelMomentsPlan>(of.seen(in), to, spread);
            device().get(to, mean), device().get(spread, variance);
            for (std::int64_t i = 0; i < x.numel(); ++i) ASSERT_EQ(mean.get(of.set(i)), x.get(i)) << of.name();
            for (const double value : variance.values()) ASSERT_EQ(value, 0) << of.name();
        }
    }
}

TEST_P(ChannelNormTest, NothingToNormaliseLeavesParametersWithoutGradients) {
    TestArray x(Dtype::f32, {0, 2, 3, 3}), statistics(Dtype::f32, {2}), dweight(Dtype::f32, {2}),
        dbias(Dtype::f32, {2});
    dweight.set(0, 5), dweight.set(1, 6);
    const View in = device().put(x), number = device().put(statistics), weight = device().put(dweight),
               bias = device().put(dbias);
    const ChannelNorm norm{.mean = number, .variance = number};
    device().run([&](auto& stream) { channel_norm(stream, in, norm, nullptr, in); });
    device().run<ChannelNormGradientPlan>(ChannelNormInputs{.x = &in, .dy = in, .constant = true}, norm,
                                          ChannelNormGradients{.x = &in, .weight = {&weight, 1}, .bias = &bias});
    device().get(weight, dweight), device().get(bias, dbias);
    EXPECT_EQ(dweight.values(), (std::vector<double>{5, 6}));
    EXPECT_EQ(dbias.values(), (std::vector<double>{0, 0}));
}

TEST_P(ChannelNormTest, ReluKeepsNan) {
    const Images of{2, 8, 1, 1};
    TestArray x(Dtype::f32, of.memory()), one(Dtype::f32, {8}), y(Dtype::f32, of.memory());
    x.fill(random), one.fill(random, 1, 0), x.set(3, NAN);
    const View in = of.seen(device().put(x)), number = device().put(one), out = device().put(y);
    device().run([&](auto& stream) {
        channel_norm(stream, in, {.mean = number, .variance = number, .relu = true}, nullptr, of.seen(out));
    });
    device().get(out, y);
    EXPECT_TRUE(std::isnan(y.get(3)));
    EXPECT_FALSE(std::isnan(y.get(2)));
}

/// As PyTorch's layer and group norm: zeros would hide that a training has diverged.
TEST_P(ChannelNormTest, ASetWhoseVarianceOverflowsIsNan) {
    for (const Images& of : {Images{3, 8, 5, 5}, Images{3, 8, 5, 5, 0, false}, Images{3, 8, 5, 5, 4},
                             Images{3, 8, 5, 5, 4, false}, Images{2, 300, 3, 3}}) {
        TestArray x(Dtype::f32, of.memory()), statistics(Dtype::f32, of.statistics());
        x.fill(random);
        for (std::int64_t i = 0; i < x.numel(); ++i)
            if (of.set(i) == 1) x.set(i, x.get(i) > 0 ? 1e20 : -1e20);
        const View in = of.seen(device().put(x)), mean = device().put(statistics), variance = device().put(statistics),
                   out = device().put(x);
        device().run<ChannelMomentsPlan>(in, mean, variance);
        device().run([&](auto& stream) {
            channel_norm(stream, in, {.mean = mean, .variance = variance}, nullptr, of.seen(out));
        });
        device().get(out, x);
        for (std::int64_t i = 0; i < x.numel(); ++i) ASSERT_EQ(std::isnan(x.get(i)), of.set(i) == 1) << of.name();
    }
}

struct Running {
    explicit Running(Device& device)
        : mean(Dtype::f32, {300}), variance(Dtype::f32, {300}), batches(Dtype::i64, {}), device(device) {
        for (std::int64_t i = 0; i < 300; ++i) mean.set(i, 1), variance.set(i, 2);
        batches.set(0, 4);
        views = {device.put(mean), device.put(variance), device.put(batches)};
    }
    void update(const TestArray& m, const TestArray& v, double correction, const TestArray* loss, double momentum) {
        const View to_mean = device.put(m), to_variance = device.put(v), at = loss ? device.put(*loss) : View{};
        const RunningStatistics running{views[0], views[1], views[2], momentum};
        device.run([&](auto& stream) {
            update_running(stream, to_mean, to_variance, correction, loss ? &at : nullptr, running);
        });
        device.get(views[0], mean), device.get(views[1], variance), device.get(views[2], batches);
    }
    TestArray mean, variance, batches;
    Device& device;
    Views views;
};

TEST_P(ChannelNormTest, RunningStatisticsTakeInABatch) {
    TestArray mean(Dtype::f32, {300}), variance(Dtype::f32, {300}), loss(Dtype::f64, {});
    for (std::int64_t i = 0; i < 300; ++i) mean.set(i, static_cast<double>(i)), variance.set(i, 10);
    loss.set(0, 1);
    Running share(device()), average(device());
    share.update(mean, variance, 1.25, &loss, 0.1);
    average.update(mean, variance, 1.25, nullptr, -1);
    for (std::int64_t i = 0; i < 300; ++i) {
        EXPECT_NEAR(share.mean.get(i), 0.9 + 0.1 * static_cast<double>(i), 300 * epsilon(Dtype::f32));
        EXPECT_NEAR(average.mean.get(i), 0.8 + 0.2 * static_cast<double>(i), 300 * epsilon(Dtype::f32));
    }
    EXPECT_NEAR(share.variance.get(299), 0.9 * 2 + 0.1 * 12.5, 8 * epsilon(Dtype::f32));
    EXPECT_EQ(share.batches.get_integer(0), 5);
}

TEST_P(ChannelNormTest, RunningStatisticsStayWhereSomethingIsNotFinite) {
    TestArray mean(Dtype::f32, {300}), variance(Dtype::f32, {300}), loss(Dtype::f32, {});
    mean.fill(random), variance.fill(random), loss.set(0, 1);
    const auto expect_unchanged = [&] {
        Running running(device());
        running.update(mean, variance, 1, &loss, 0.5);
        EXPECT_EQ(running.mean.get(0), 1);
        EXPECT_EQ(running.mean.get(299), 1);
        EXPECT_EQ(running.variance.get(7), 2);
        EXPECT_EQ(running.batches.get_integer(0), 4);
    };
    loss.set(0, INFINITY);
    expect_unchanged();
    loss.set(0, 1), variance.set(299, NAN);
    expect_unchanged();
    variance.set(299, 1), mean.set(0, -INFINITY);
    expect_unchanged();
}

INSTANTIATE_TEST_SUITE_P(Devices, ChannelNormTest, testing::ValuesIn(kPlaces), place_name);

TEST(ChannelNormScratch, DependsOnTheShapeAndNotOnThreads) {
    const View x{nullptr, Dtype::bf16, {256, 64, 56, 56}, {64 * 56 * 56, 1, 64 * 56, 64}};
    const View mean = contiguous_view(nullptr, Dtype::f32, {64});
    // 64 channels are one tile of a GPU's block, which 528 parts share: three numbers for each.
    EXPECT_EQ(ChannelMomentsPlan(DryStream{.capability = 90}, x, mean, mean).scratch(), 528u * 64 * 3 * 4);
    EXPECT_EQ(ChannelMomentsPlan(DryStream{.threads = 1}, x, mean, mean).scratch(),
              ChannelMomentsPlan(DryStream{.threads = 7}, x, mean, mean).scratch());
}

}  // namespace channel_norm_devices_test
}  // namespace headroom::kernels
