// fill, arange and causal_mask.
#include <headroom/kernels/fill/fill.hpp>

#include <cmath>
#include <cstdint>
#include <functional>

#include <headroom/tests/kernels/kernel_table.hpp>
#include <headroom/tests/kernels/sample.hpp>

namespace headroom::kernels {
namespace fill_devices_test {

using namespace test;

Trial fill_trial(const Variant& v, Random&, const Shape& shape) {
    Trial trial;
    Output &y = trial.output(v, shape), &mask = trial.output(v, shape.rank() == 2 ? shape : Shape{1, 1});
    Output &count = trial.output(v, {shape.numel()}), &down = trial.output(v, {shape.numel()});
    for (std::int64_t i = 0; i < shape.numel(); ++i) {
        y.expect(stored(v.dtype, 113.7), 0);
        count.expect(stored(v.dtype, static_cast<double>(7 + i)), 0);
        down.expect(stored(v.dtype, 1000 - 0.25 * static_cast<double>(i)), 0);
    }
    const Shape& square = mask.array.view().shape;
    for (std::int64_t i = 0; i < square.numel(); ++i) {
        mask.expect(i % square[1] <= i / square[1] + square[1] - square[0] ? 1 : 0, 0);
    }
    trial.call = [](Device& device, const Views&, const Views& out) {
        device.run([&](auto& stream) {
            fill(stream, 113.7, out[0]), causal_mask(stream, out[1]);
            arange(stream, 7, 1, out[2]), arange(stream, 1000, -0.25, out[3]);
        });
    };
    return trial;
}

Cases cases() {
    Cases result;
    for (const Shape& shape :
         {Shape{}, Shape{1}, Shape{7}, Shape{16}, Shape{33}, Shape{1025}, Shape{1, 1}, Shape{33, 33}, Shape{32, 64},
          Shape{64, 48}, Shape{1, 80}, Shape{65, 3}, Shape{2, 3, 4, 5, 6}, Shape{40001}, Shape{3, 0}}) {
        result.add(to_name(shape), fill_trial, shape).only(kAllDtypes, layouts_for(shape));
    }
    return result;
}

const bool rows = add_rows("FillRows", cases());

using FillParts = DeviceTest;

TEST_P(FillParts, BeginAndEndAnywhere) {
    Sample sample;
    const auto check = [&](const TestArray& y, const std::function<View(const View&)>& part, bool mask) {
        if (!sample.takes_next()) return;
        TestArray expected(y), result(y);
        const View to = part(expected), out = device().put(y), of_out = part(out);
        for (std::int64_t i = 0; i < to.numel(); ++i) {
            const double value = !mask ? 3 : i % to.size(1) <= i / to.size(1) + to.size(1) - to.size(0) ? 1 : 0;
            store_one(value, to.at(offset_of(to, i)), to.dtype);
        }
        device().run([&](auto& stream) { mask ? causal_mask(stream, of_out) : fill(stream, 3.0, of_out); });
        device().get(out, result);
        EXPECT_EQ(result.memory(), expected.memory()) << describe(to);
    };
    for (const Dtype dtype : {Dtype::u8, Dtype::bf16, Dtype::f32, Dtype::i64}) {
        for (std::int64_t start = 0; start < 17; ++start) {
            for (const std::int64_t count : {1, 2, 15, 16, 17, 33, 60}) {
                check(
                    {dtype, {80}}, [&](const View& y) { return contiguous_view(y.at(start), dtype, {count}); }, false);
            }
            for (const std::int64_t columns : {3, 16, 32}) {
                const auto part = [&](const View& y) { return View{y.at(start), dtype, {4, 3, columns}, y.strides}; };
                check({dtype, {4, 3, 64}}, part, false);
            }
        }
    }
    for (const std::int64_t pitch : {70, 72, 80}) {
        for (const std::int64_t start : {0, 1, 8}) {
            check(
                {Dtype::bf16, {20, pitch}},
                [&](const View& y) {
                    return View{y.at(start), Dtype::bf16, {20, 48}, y.strides};
                },
                true);
        }
    }
}

TEST_P(FillParts, MayBeEmpty) {
    const View empty = contiguous_view(nullptr, Dtype::f32, {0, 3});
    device().run([&](auto& stream) {
        fill(stream, 1.0, empty), causal_mask(stream, empty);
        arange(stream, 1.0, 1.0, contiguous_view(nullptr, Dtype::f32, {0}));
    });
}

INSTANTIATE_TEST_SUITE_P(Devices, FillParts, testing::ValuesIn(kPlaces), place_name);

}  // namespace fill_devices_test
}  // namespace headroom::kernels
