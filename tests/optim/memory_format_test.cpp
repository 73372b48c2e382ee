// A parameter whose axes stand in memory in another order is trained, saved and loaded as if they did not.
#include <fstream>
#include <iterator>

#include <gtest/gtest.h>

#include <headroom/core/ops/binary.hpp>
#include <headroom/core/ops/reduce.hpp>
#include <headroom/core/ops/unary.hpp>
#include <headroom/files/checkpoint.hpp>
#include <headroom/files/state_hash.hpp>
#include <headroom/nn/initializers.hpp>
#include <headroom/optim/adamw.hpp>
#include <headroom/optim/moving_average.hpp>
#include <headroom/tests/data/scratch.hpp>
#include <headroom/tests/support/parameters.hpp>

namespace headroom::optim {
namespace memory_format_test {

/// The kernel of a convolution [O, I, kh, kw], and a bias.
struct Model {
    explicit Model(MemoryFormat format)
        : kernel(parameters.create("kernel", {4, 3, 2, 3}, nn::init::normal(0.0, 0.5), format)),
          bias(parameters.create("bias", {5}, nn::init::normal(0.0, 0.5))) {
        parameters.materialize();
    }
    void step() {
        backward(sum(square(tanh(kernel) - 0.25)) + sum(square(bias)));
        optimizer.step(0.01);
        average.update();
        parameters.zero_grad();
    }

    Context context = Context::cpu({.threads = 1, .seed = 4});
    Parameters parameters{context};
    Tensor kernel, bias;
    AdamW optimizer{parameters, {.weight_decay = 0.1}};
    MovingAverage average{parameters, {.decay = 0.9}};
};

std::string bytes_of(const std::filesystem::path& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

/// Of values, moments and averages, as a file has them.
std::string hash_of(Model& model) {
    return files::state_sha256(model.context, {model.parameters, model.optimizer, model.average});
}

TEST(MemoryFormatOfParameters, ChangesNeitherATrainingNorAFile) {
    Model rows(MemoryFormat::contiguous), images(MemoryFormat::channels_last), fresh(MemoryFormat::channels_last);
    ASSERT_EQ(images.kernel.strides(), (Strides{18, 1, 9, 3}));
    EXPECT_EQ(hash_of(rows), hash_of(images));
    for (int i = 0; i < 3; ++i) rows.step(), images.step();
    EXPECT_EQ(hash_of(rows), hash_of(images));

    const headroom::test::ScratchFolder folder;
    const auto one = folder.path() / "rows.safetensors", other = folder.path() / "images.safetensors";
    files::save_parameters(one, rows.parameters);
    files::save_parameters(other, images.parameters);
    EXPECT_EQ(bytes_of(one), bytes_of(other));
    files::load_parameters(files::SafetensorsFile(one), fresh.parameters);
    EXPECT_EQ(test::values_of(fresh.parameters), test::values_of(rows.parameters));
    test::copy_training(rows.parameters, rows.optimizer, fresh.parameters, fresh.optimizer);
    rows.step(), fresh.step();
    EXPECT_EQ(test::values_of(fresh.parameters), test::values_of(rows.parameters));
}

}  // namespace memory_format_test
}  // namespace headroom::optim
