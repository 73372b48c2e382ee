// Whole loads are strict, partial ones report, and what does not fit changes nothing.
#include <vector>

#include <gtest/gtest.h>

#include <headroom/core/ops/reduce.hpp>
#include <headroom/core/ops/unary.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/nn/checkpoint.hpp>
#include <headroom/nn/initializers.hpp>
#include <headroom/nn/linear.hpp>
#include <headroom/tests/data/scratch.hpp>

namespace headroom {
namespace {

using headroom::testing::ScratchFolder;
using headroom::testing::throws;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// Two layers and a running statistic.
struct Model {
    Model(Context& context, std::int64_t width, Dtype dtype = Dtype::f32)
        : parameters(context, dtype),
          up(At(parameters) / "up", 3, width),
          down(At(parameters) / "down", width, 2),
          mean(parameters.create_buffer("mean", {3}, init::zeros())) {
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
    Linear up, down;
    Tensor mean;
};

class Checkpoint : public ::testing::Test {
  protected:
    Context first = Context::cpu({.threads = 1, .seed = 1});
    Context second = Context::cpu({.threads = 1, .seed = 2});
    ScratchFolder folder;
    std::filesystem::path path = folder.path() / "model.safetensors";
};

TEST_F(Checkpoint, AWholeModelComesBackBitForBitWithItsBuffersAndExtras) {
    Model saved(first, 5), loaded(second, 5);
    saved.mean.array().view().as<float>()[1] = 42;
    const Tensor extra = first.from_host(std::vector<double>{1.0 / 3, 2}, {2});
    const Tensor room = second.from_host(std::vector<double>{0, 0}, {2});
    ASSERT_NE(saved.values(), loaded.values());
    save_parameters(path, saved.parameters, {{"moment", extra.array()}}, {{"step", "7"}});
    const SafetensorsFile file(path);
    const LoadReport report = load_parameters(file, loaded.parameters, {.extra = {{"moment", room.array()}}});
    EXPECT_EQ(loaded.values(), saved.values());
    EXPECT_EQ(room.to_vector<double>(), extra.to_vector<double>());
    EXPECT_EQ(file.metadata().at("step"), "7");
    EXPECT_THAT(report.loaded, ElementsAre("up.weight", "up.bias", "down.weight", "down.bias", "mean", "moment"));
    EXPECT_THAT(report.missing, IsEmpty());
    EXPECT_THAT(report.left_over, IsEmpty());
}

TEST_F(Checkpoint, AStrictLoadRefusesMissingAndLeftOverTensorsAndChangesNothing) {
    Model saved(first, 5), loaded(second, 5);
    const auto before = loaded.values();
    const Tensor room = second.scalar(3);
    save_parameters(path, saved.parameters);
    EXPECT_THAT(
        [&] {
            load_parameters(SafetensorsFile(path), loaded.parameters, {.extra = {{"moment", room.array()}}});
        },
        throws<Error>(path.string(), "lacks moment", "another model"));
    save_parameters(path, saved.parameters, {{"moment", first.scalar(1).array()}});
    EXPECT_THAT([&] { load_parameters(SafetensorsFile(path), loaded.parameters); },
                throws<Error>(path.string(), "holds moment", "another model"));
    EXPECT_EQ(loaded.values(), before);
    EXPECT_EQ(room.item(), 3);
}

TEST_F(Checkpoint, ALongListOfNamesIsShortened) {
    Model saved(first, 5), loaded(second, 5);
    std::vector<NamedArray> many;
    for (int i = 0; i < 100; ++i) many.push_back({"extra" + std::to_string(i), first.scalar(i).array()});
    save_parameters(path, saved.parameters, many);
    EXPECT_THAT([&] { load_parameters(SafetensorsFile(path), loaded.parameters); }, throws<Error>("and 96 more"));
}

TEST_F(Checkpoint, APartialLoadFillsWhatIsThereAndReportsTheRest) {
    Parameters part(first);
    const Linear up(At(part) / "up", 3, 5), other(At(part) / "other", 2, 2);
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
                    throws<ShapeError>(path.string(), "up.weight", "[6, 3]", "[5, 3]"));
    }
    EXPECT_EQ(loaded.values(), before);
}

TEST_F(Checkpoint, FloatingDtypesConvertOthersAreRefusedAndChangeNothing) {
    Model saved(first, 5), loaded(second, 5, Dtype::f64);
    save_parameters(path, saved.parameters);
    load_parameters(SafetensorsFile(path), loaded.parameters);
    EXPECT_EQ(loaded.values(), saved.values());

    std::vector<NamedArray> arrays = named_arrays(saved.parameters);
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

TEST_F(Checkpoint, LoadingMakesAPendingBackwardStale) {
    Model saved(first, 5), loaded(second, 5);
    save_parameters(path, saved.parameters);
    const Tensor loss = sum(square(loaded.up.weight));
    load_parameters(SafetensorsFile(path), loaded.parameters);
    EXPECT_THROW(backward(loss), Error);
}

}  // namespace
}  // namespace headroom
