#include <headroom/kernels/triangle/triangle.hpp>

#include <headroom/tests/kernels/kernel_table.hpp>

namespace headroom::kernels {
namespace triangle_devices_test {

using namespace test;

Trial triangle_trial(const Variant& v, Random& random, const Shape& shape, const Triangle& part, float beta) {
    Trial trial;
    const TestArray& x = trial.input(v, shape, indices(random, 9));
    Output& y = trial.output(v, shape, beta == 0 ? Fill() : indices(random, 9));
    if (beta == 0) y.over = 0;
    const std::int64_t height = shape[shape.rank() - 2], width = shape.back();
    for (std::int64_t i = 0; i < shape.numel(); ++i) {
        const std::int64_t row = i / width % height, column = i % width;
        const bool inside = part.lower ? column - row <= part.diagonal : column - row >= part.diagonal;
        const double before = beta == 0 ? 0 : beta * y.before();
        y.expect(before + (inside ? x.get(i) : 0), 0);
    }
    trial.call = [=](Device& device, const Views& in, const Views& out) {
        device.run([&](auto& stream) { triangle(stream, in[0], part, beta, out[0]); });
    };
    return trial;
}

Cases cases() {
    static constexpr Dtype kNumbers[] = {Dtype::f32, Dtype::f16, Dtype::bf16, Dtype::f64,
                                         Dtype::i32, Dtype::i64, Dtype::u8};
    Cases result;
    for (const Shape& shape :
         {Shape{1, 1}, Shape{7, 7}, Shape{3, 33}, Shape{40, 5}, Shape{2, 3, 4, 5}, Shape{3, 1025}, Shape{0, 3}}) {
        for (const bool lower : {false, true}) {
            for (const std::int64_t diagonal : {-2, 0, 1, 50, -50}) {
                const std::string name = to_name(shape) + (lower ? "/lower_" : "/upper_") + std::to_string(diagonal);
                const Triangle part{lower, diagonal};
                result.add(name, triangle_trial, shape, part, 0.0f)
                    .only(diagonal == 0 ? std::span<const Dtype>(kAllDtypes) : kFloating, layouts_for(shape));
                if (diagonal == 1)
                    result.add(name + "/added", triangle_trial, shape, part, 1.0f).only(kNumbers, layouts_for(shape));
            }
        }
    }
    return result;
}

const bool rows = add_rows("TriangleRows", cases());

}  // namespace triangle_devices_test
}  // namespace headroom::kernels
