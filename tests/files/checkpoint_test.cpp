// Whole loads are strict, partial ones report, and what does not fit changes nothing.
#include <vector>

#include <gtest/gtest.h>

#include <headroom/core/ops/reduce.hpp>
#include <headroom/core/ops/unary.hpp>
#include <headroom/files/checkpoint.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/nn/initializers.hpp>
#include <headroom/nn/linear.hpp>
#include <headroom/tests/data/scratch.hpp>

namespace headroom::files {
namespace checkpoint_test {

using headroom::test::ScratchFolder;
using headroom::test::throws;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// Two layers and a running statistic.
struct Model {
    Model(Context& context, std::int64_t width, Dtype dtype = Dtype::f32)
        : parameters(context, {.dtype = dtype}),
          up(nn::Path(parameters) / "up", 3, width),
          down(nn::Path(parameters) / "down", width, 2),
          mean(parameters.create_buffer("mean", {3}, nn::init::zeros())) {
        parameters.materialize();
    }
    std::vector<double> values() {
        std::vector<double> all;
        for (const Parameter& parameter : parameters.all()) {
            const auto part = parameter.tensor.to_vector<double>();
            all.insert(all.end(), part.begin(), part.end());
        }
        return all;
    }
    Parameters parameters;
    nn::Linear up, down;
    Tensor mean;
};

class Checkpoint : public ::testing::Test {
  protected:
    Context first = Context::cpu({.threads = 1, .seed = 1});
    Context second = Context::cpu({.threads = 1, .seed = 2});
    ScratchFolder folder;
    std::filesystem::path path = folder.path() / "model.safetensors";
};

TEST_F(Checkpoint, AWholeModelComesBackBitForBitWithItsBuffers) {
    Model saved(first, 5), loaded(second, 5);
    saved.mean.array().view().as<float>()[1] = 42;
    ASSERT_NE(saved.values(), loaded.values());
    save_parameters(path, saved.parameters, {{"step", "7"}});
    const SafetensorsFile file(path);
    const LoadReport report = load_parameters(file, loaded.parameters);
    EXPECT_EQ(loaded.values(), saved.values());
    EXPECT_EQ(file.metadata().at("step"), "7");
    EXPECT_THAT(report.loaded, ElementsAre("up.weight", "up.bias", "down.weight", "down.bias", "mean"));
    EXPECT_THAT(report.missing, IsEmpty());
    EXPECT_THAT(report.left_over, IsEmpty());
}

TEST_F(Checkpoint, AStrictLoadRefusesMissingAndLeftOverTensorsAndChangesNothing) {
    Model saved(first, 5), loaded(second, 5);
    const auto before = loaded.values();
    std::vector<NamedArray> arrays = saved.parameters.state_dict().arrays;
    const NamedArray mean = arrays.back();
    arrays.pop_back();
    write_safetensors(path, first, arrays);
    EXPECT_THAT([&] { load_parameters(SafetensorsFile(path), loaded.parameters); },
                throws<Error>(path.string(), "lacks mean", "differ: 1;", "another model"));
    arrays.push_back(mean);
    for (int i = 0; i < 100; ++i) arrays.push_back({"extra" + std::to_string(i), first.scalar(i).array()});
    write_safetensors(path, first, arrays);
    EXPECT_THAT([&] { load_parameters(SafetensorsFile(path), loaded.parameters); },
                throws<Error>(path.string(), "has extra0", "differ: 100;", "another model"));
    EXPECT_EQ(loaded.values(), before);
}

TEST_F(Checkpoint, APartialLoadFillsWhatIsThereAndReportsTheRest) {
    Parameters part(first);
    const nn::Linear up(nn::Path(part) / "up", 3, 5), other(nn::Path(part) / "other", 2, 2);
    save_parameters(path, part);
    Model loaded(second, 5);
    const auto down = loaded.down.weight.to_vector<float>();
    const LoadReport report = load_parameters(SafetensorsFile(path), loaded.parameters, {.partial = true});
    EXPECT_THAT(report.loaded, ElementsAre("up.weight", "up.bias"));
    EXPECT_THAT(report.missing, ElementsAre("down.weight", "down.bias", "mean"));
    EXPECT_THAT(report.left_over, ElementsAre("other.bias", "other.weight"));
    EXPECT_EQ(loaded.up.weight.to_vector<float>(), up.weight.to_vector<float>());
    EXPECT_EQ(loaded.down.weight.to_vector<float>(), down);
}

TEST_F(Checkpoint, AnotherShapeIsRefusedAlsoInPartAndChangesNothing) {
    Model saved(first, 6), loaded(second, 5);
    const auto before = loaded.values();
    save_parameters(path, saved.parameters);
    for (const bool partial : {false, true}) {
        EXPECT_THAT([&] { load_parameters(SafetensorsFile(path), loaded.parameters, {.partial = partial}); },
                    throws<ShapeError>(path.string(), "up.weight", "[6, 3]", "[5, 3]", "differ: 3;"));
    }
    EXPECT_EQ(loaded.values(), before);
}

/// A backbone for other classes.
TEST_F(Checkpoint, TensorsOfAnotherShapeAreSkippedWhereThatIsAskedFor) {
    Model saved(first, 6), loaded(second, 5);
    save_parameters(path, saved.parameters);
    const auto up = loaded.up.weight.to_vector<float>();
    const LoadReport report = load_parameters(SafetensorsFile(path), loaded.parameters, {.skip_other_shapes = true});
    EXPECT_THAT(report.loaded, ElementsAre("down.bias", "mean"));
    EXPECT_THAT(report.other_shape, ElementsAre("up.weight", "up.bias", "down.weight"));
    EXPECT_EQ(loaded.up.weight.to_vector<float>(), up);
    EXPECT_EQ(loaded.down.bias.to_vector<float>(), saved.down.bias.to_vector<float>());
}

TEST_F(Checkpoint, FloatingDtypesConvertOthersAreRefusedAndChangeNothing) {
    Model saved(first, 5), loaded(second, 5, Dtype::f64);
    save_parameters(path, saved.parameters);
    load_parameters(SafetensorsFile(path), loaded.parameters);
    EXPECT_EQ(loaded.values(), saved.values());

    std::vector<NamedArray> arrays = saved.parameters.state_dict().arrays;
    arrays.back().array = first.from_host(std::vector<std::int32_t>{1, 2, 3}, {3}).array();
    arrays.front().array = first.from_host(std::vector<float>(15, 1.0f), {5, 3}).array();
    write_safetensors(path, first, arrays);
    EXPECT_THAT([&] { load_parameters(SafetensorsFile(path), loaded.parameters); },
                throws<DtypeError>("mean is i32 in the file, f32 in the model"));
    EXPECT_EQ(loaded.values(), saved.values());

    const Tensor wide = second.from_host(std::vector<std::int64_t>{0, 0, 0}, {3});
    EXPECT_THAT(
        [&] {
            load_arrays(SafetensorsFile(path), second, {{"mean", wide.array()}}, {.partial = true});
        },
        throws<DtypeError>("mean is i32 in the file, i64 in the model"));
}

/// What a wrapper put before names is left out of weights, never of a training's names.
TEST_F(Checkpoint, ATrainingIsResumedUnderItsOwnNamesAlone) {
    Parameters saved(first, {.name = "net"}), loaded(second);
    const nn::Linear theirs(nn::Path(saved) / "up", 3, 5), mine(nn::Path(loaded) / "up", 3, 5);
    save_checkpoint(path, first, {saved});
    EXPECT_TRUE(is_checkpoint(SafetensorsFile(path)));
    EXPECT_THAT([&] { load_checkpoint(path, second, {loaded}); },
                throws<Error>("lacks up.weight; tensors that differ: 4; it belongs to another model or optimizer"));
    EXPECT_EQ(load_parameters(SafetensorsFile(path), loaded).prefix, "net.");
    EXPECT_EQ(mine.weight.to_vector<float>(), theirs.weight.to_vector<float>());
    save_parameters(path, saved);
    EXPECT_FALSE(is_checkpoint(SafetensorsFile(path)));
}

/// Of a checkpoint whose names all begin alike: without an optimizer's state.
TEST_F(Checkpoint, AParameterIsNotTakenForAStateOfItself) {
    Parameters saved(first), wanted(second);
    const nn::Linear up(nn::Path(saved) / "net" / "up", 3, 5), down(nn::Path(saved) / "net" / "down", 5, 2);
    const nn::Linear alone(nn::Path(wanted) / "net" / "up", 3, 5);
    save_checkpoint(path, first, {saved});
    EXPECT_THAT([&] { load_parameters(SafetensorsFile(path), wanted); },
                throws<Error>("has net.down.bias, which the model lacks; tensors that differ: 2"));
}

TEST_F(Checkpoint, LoadingMakesAPendingBackwardStale) {
    Model saved(first, 5), loaded(second, 5);
    save_parameters(path, saved.parameters);
    const Tensor loss = sum(square(loaded.up.weight));
    load_parameters(SafetensorsFile(path), loaded.parameters);
    EXPECT_THROW(backward(loss), Error);
}

}  // namespace checkpoint_test
}  // namespace headroom::files
