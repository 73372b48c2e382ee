// Mask R-CNN against torchvision's in f64; what it does without objects; its memory and its bits.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <headroom/core/ops/cast.hpp>
#include <headroom/core/ops/create.hpp>
#include <headroom/core/ops/unary.hpp>
#include <headroom/files/checkpoint.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/nn/mask_rcnn.hpp>
#include <headroom/optim/gradient_accumulator.hpp>
#include <headroom/optim/sgd.hpp>
#include <headroom/tests/data/scratch.hpp>
#include <headroom/tests/nn/rcnn_training.hpp>
#include <headroom/tests/support/parameters.hpp>
#include <headroom/tests/support/reference.hpp>
#include <headroom/tests/support/source_path.hpp>

namespace headroom::nn {
namespace mask_rcnn_test {

using headroom::test::throws;
using test::RcnnSetting;
using test::RcnnTraining;

std::vector<double> numbers(const Tensor& x) { return x.to_vector<double>(); }

class MaskRcnnReference : public ::testing::Test {
  protected:
    /// One of the file's tensors, without its first axis where a step is named.
    template <class T>
    Tensor of(const std::string& name, std::optional<std::int64_t> step = {}) {
        const headroom::test::ReferenceTensor& all = reference.at(name);
        Shape shape = all.shape;
        if (step) shape.erase(0);
        const auto begin = all.values.begin() + static_cast<std::ptrdiff_t>(step.value_or(0) * shape.numel());
        return context.from_host(std::vector<T>(begin, begin + shape.numel()), shape);
    }
    /// The model with the file's parameters, and its inputs, in a dtype.
    struct Model {
        explicit Model(MaskRcnnReference& test_, Dtype dtype)
            : test(test_), parameters(test.context, {.dtype = dtype}), model(parameters, test::reference_options()) {
            const files::SafetensorsFile file(
                headroom::test::source_path("tests/reference/mask_rcnn_initial.safetensors"));
            EXPECT_EQ(files::load_parameters(file, parameters).loaded.size(), file.entries().size());
        }
        Tensor images(std::int64_t step) const {
            return cast(test.of<double>("images", step) * (1.0 / 64) - 2.0, parameters.dtype());
        }
        DetectionLosses losses(std::int64_t step) const {
            return model.losses(images(step), test.of<double>("boxes", step), test.of<std::int64_t>("labels", step),
                                test.of<std::uint8_t>("masks", step));
        }
        MaskRcnnReference& test;
        Parameters parameters;
        MaskRcnn model;
    };
    void expect_steps(Dtype dtype, double errors);

    headroom::test::Reference reference{headroom::test::source_path("tests/reference/mask_rcnn_steps.safetensors")};
    Context context = Context::cpu({.threads = 2});
};

/// Three steps of SGD with momentum, then the trained model's detections. `errors`: epsilons that one may be off by.
void MaskRcnnReference::expect_steps(Dtype dtype, double errors) {
    const auto expect_near = [&](const std::vector<double>& got, const std::vector<double>& want,
                                 const std::string& name) {
        EXPECT_LE(headroom::test::error_in_epsilons(got, want, epsilon(dtype)), errors) << name;
    };
    Model mine(*this, dtype);
    optim::Sgd optimizer(mine.parameters, {.momentum = 0.9});
    optim::GradientAccumulator accumulator(mine.parameters, optimizer, {.keep_gradients = true});
    for (std::int64_t step = 0; step < 3; ++step) {
        accumulator.accumulate([&] {
            const DetectionLosses got = mine.losses(step);
            const std::vector<double> want = numbers(of<double>("losses", step));
            std::size_t i = 0;
            for (const Tensor& loss : {got.objectness, got.rpn_box, got.classifier, got.box, got.mask}) {
                expect_near({loss.item()}, {want[i]}, "loss " + std::to_string(i));
                ++i;
            }
            return got.total(2);
        });
        accumulator.step(0.01);
        const double multiplier = accumulator.result().multiplier;
        for (const Parameter& parameter : mine.parameters.all()) {
            if (step != 0 || !parameter.trained) continue;
            std::vector<double> got = numbers(parameter.tensor.grad());
            for (double& value : got) value *= multiplier;
            expect_near(got, reference.at("gradient/" + parameter.path).values, "gradient of " + parameter.path);
        }
    }
    for (const Parameter& parameter : mine.parameters.all())
        expect_near(numbers(parameter.tensor), reference.at("trained/" + parameter.path).values, parameter.path);
    const Detections found = mine.model.detect(mine.images(0));
    EXPECT_EQ(numbers(found.labels), reference.at("found/labels").values);
    for (const auto& [name, got] : {std::pair("found/boxes", found.boxes), std::pair("found/scores", found.scores),
                                    std::pair("found/masks", found.masks)}) {
        expect_near(numbers(got), reference.at(name).values, name);
    }
}

/// Gradients pass some 60 ops with sums of up to 1,500 terms.
TEST_F(MaskRcnnReference, LossesGradientsWeightsAndDetectionsAgree) { expect_steps(Dtype::f64, 512); }

TEST_F(MaskRcnnReference, ThoseOfF32Agree) { expect_steps(Dtype::f32, 512); }

/// The four losses that both have, and torchvision's names.
TEST_F(MaskRcnnReference, FasterRcnnHasItsLosses) {
    Parameters parameters(context, {.dtype = Dtype::f64});
    const FasterRcnn model(parameters, test::reference_options().boxes);
    const files::SafetensorsFile file(headroom::test::source_path("tests/reference/mask_rcnn_initial.safetensors"));
    EXPECT_EQ(files::load_parameters(file, parameters, {.partial = true}).missing.size(), 0u);
    const DetectionLosses got =
        model.losses(of<double>("images", 0) * (1.0 / 64) - 2.0, of<double>("boxes", 0), of<std::int64_t>("labels", 0));
    const std::vector<double> want = numbers(of<double>("losses", 0));
    std::size_t i = 0;
    for (const Tensor& loss : {got.objectness, got.rpn_box, got.classifier, got.box})
        EXPECT_NEAR(loss.item(), want[i++], 1e-10);
}

TEST_F(MaskRcnnReference, FilesOfTorchvisionAreReadAndWritten) {
    Model model(*this, Dtype::f64);
    const headroom::test::ScratchFolder folder;
    files::save_parameters(folder.path() / "mine.safetensors", model.parameters);
    const files::SafetensorsFile mine(folder.path() / "mine.safetensors"),
        theirs(headroom::test::source_path("tests/reference/mask_rcnn_initial.safetensors"));
    ASSERT_EQ(mine.entries().size(), theirs.entries().size());
    for (std::size_t i = 0; i < mine.entries().size(); ++i) {
        EXPECT_EQ(mine.entries()[i].name, theirs.entries()[i].name);
        EXPECT_EQ(mine.entries()[i].shape, theirs.entries()[i].shape);
        EXPECT_EQ(mine.entries()[i].dtype, theirs.entries()[i].dtype);
    }
}

TEST_F(MaskRcnnReference, MasksArePastedAsTorchvisionPastesThem) {
    const auto floats = [&](const std::string& name) {
        const std::vector<double>& values = reference.at(name).values;
        return std::vector<float>(values.begin(), values.end());
    };
    const std::vector<float> masks = floats("found/masks"), boxes = floats("found/boxes");
    const std::vector<double>& want = reference.at("found/pasted").values;
    for (std::size_t i = 0; i < boxes.size() / 4; ++i) {
        const std::array<float, 4> box{boxes[4 * i], boxes[4 * i + 1], boxes[4 * i + 2], boxes[4 * i + 3]};
        const std::vector<std::uint8_t> got = paste_mask(std::span(masks).subspan(784 * i, 784), box, 64, 96);
        const auto begin = want.begin() + static_cast<std::ptrdiff_t>(i * got.size());
        EXPECT_EQ(std::vector<double>(got.begin(), got.end()),
                  std::vector<double>(begin, begin + static_cast<std::ptrdiff_t>(got.size())))
            << i;
    }
}

TEST(PasteMask, LeavesOutWhatIsOutsideOfTheImage) {
    const std::vector<float> ones(16, 1.0F);
    const auto count = [&](std::array<float, 4> box) {
        const std::vector<std::uint8_t> mask = paste_mask(ones, box, 10, 12);
        return std::count(mask.begin(), mask.end(), 1);
    };
    EXPECT_EQ(count({-100, -100, 200, 200}), 120);
    EXPECT_EQ(count({50, 50, 60, 60}), 0);
    EXPECT_THAT([&] { count({0, 0, NAN, 5}); }, throws<Error>("must be finite"));
    EXPECT_THAT(
        [&] {
            paste_mask(std::span(ones).first(15), {0, 0, 5, 5}, 10, 12);
        },
        throws<ShapeError>("got 15 for an image"));
}

Context cpu() { return Context::cpu({.threads = 2, .seed = 7}); }
Context dry() { return Context::dry({.threads = 2, .seed = 7}); }

const std::vector<RcnnSetting> kSettings{
    {"keep", {}},
    {"cheap", {{"**", recompute_cheap()}}},
    {"all", {{"**", recompute_all()}}},
    {"heads", {{"roi_heads.**", recompute_all()}, {"backbone.body.*.*", recompute_all()}}},
    {"keep_bf16", {}, Dtype::bf16},
    {"cheap_bf16", {{"**", recompute_cheap()}}, Dtype::bf16},
    {"frozen", {{"**", recompute_cheap()}}, {}, true, 3},
};

class MaskRcnnMemory : public ::testing::TestWithParam<RcnnSetting> {};
INSTANTIATE_TEST_SUITE_P(Settings, MaskRcnnMemory, ::testing::ValuesIn(kSettings),
                         [](const auto& info) { return info.param.name; });

TEST_P(MaskRcnnMemory, GradientsAreThoseOfKeepingEverythingBitForBit) {
    RcnnSetting keep = GetParam();
    keep.policies.clear();
    RcnnTraining kept(cpu, keep), recomputed(cpu, GetParam());
    for (const int objects : {3, 1}) {
        EXPECT_EQ(recomputed.step(objects), kept.step(objects));
        EXPECT_EQ(headroom::test::gradients_of(recomputed.parameters), headroom::test::gradients_of(kept.parameters));
    }
    EXPECT_EQ(headroom::test::values_of(recomputed.parameters), headroom::test::values_of(kept.parameters));
}

/// Steps with as many objects as there are places, with fewer and with none; detection.
MemoryStatistics whole_program(const std::function<Context()>& make, const RcnnSetting& setting) {
    RcnnTraining training(make, setting);
    for (const int objects : {3, 1, 0}) training.step(objects);
    const Autocast autocast(training.context, setting.autocast);
    training.model.detect(training.images());
    return training.context.memory().statistics();
}

TEST_P(MaskRcnnMemory, ADryProgramPeaksAsTheRealOneToTheByte) {
    const MemoryStatistics real = whole_program(cpu, GetParam()), rehearsed = whole_program(dry, GetParam());
    EXPECT_EQ(rehearsed.peak_allocated, real.peak_allocated);
    EXPECT_EQ(rehearsed.peak_reserved, real.peak_reserved);
    EXPECT_EQ(rehearsed.at_peak_by_category, real.at_peak_by_category);
    EXPECT_EQ(rehearsed.allocations, real.allocations);
}

TEST(MaskRcnn, LearnsABatch) {
    RcnnTraining training(cpu);
    const double before = training.step();
    double after = 0;
    for (int i = 0; i < 40; ++i) after = training.step();
    EXPECT_LT(after, 0.6 * before);
}

TEST(MaskRcnn, WithoutObjectsHasLossesOfTheBackgroundAlone) {
    RcnnTraining training(cpu);
    const DetectionLosses losses = training.losses(0);
    EXPECT_EQ(losses.rpn_box.item(), 0);
    EXPECT_EQ(losses.box.item(), 0);
    EXPECT_EQ(losses.mask.item(), 0);
    EXPECT_GT(losses.objectness.item(), 0);
    EXPECT_EQ(losses.total(2).terms(), 2);
    EXPECT_TRUE(std::isfinite(training.step(0)));
    for (const double gradient : headroom::test::gradients_of(training.parameters))
        ASSERT_TRUE(std::isfinite(gradient));
}

TEST(MaskRcnn, MarksPlacesWhereNothingWasFound) {
    RcnnTraining training(cpu);
    training.step();
    training.model.detector.options.least_score = 1;
    const Detections none = training.model.detect(training.images());
    ASSERT_EQ(none.masks.shape(), (Shape{2, 5, 28, 28}));
    EXPECT_EQ(none.labels.to_vector<std::int64_t>(), std::vector<std::int64_t>(10));
    EXPECT_EQ(none.scores.to_vector<double>(), std::vector<double>(10));
    EXPECT_EQ(none.boxes.to_vector<double>(), std::vector<double>(40));
    training.model.detector.options.least_score = 0;
    EXPECT_GT(training.model.detect(training.images()).labels.to_vector<std::int64_t>()[0], 0);
    EXPECT_TRUE(training.parameters.training());
}

TEST(MaskRcnn, DetectingLeavesTheModeAsItWas) {
    RcnnTraining training(cpu);
    const FasterRcnn& boxes = training.model.detector;
    const Tensor whole = zeros(training.context, {1, 3, 64, 64}, Dtype::i64);  // which no convolution takes
    for (const bool mode : {true, false}) {
        training.parameters.train(mode);
        boxes.detect(training.images());
        EXPECT_EQ(training.parameters.training(), mode);
        training.model.detect(training.images());
        EXPECT_EQ(training.parameters.training(), mode);
        EXPECT_THROW(boxes.detect(whole), Error);
        EXPECT_THROW(training.model.detect(whole), Error);
        EXPECT_EQ(training.parameters.training(), mode);
        EXPECT_TRUE(training.context.tape().recording());
    }
}

TEST(MaskRcnn, ConvertsNothingButPooledRegionsBeforeTheirLinearLayers) {
    RcnnTraining training(cpu);
    std::set<std::size_t> bytes;
    training.context.policy("**", [&](const Candidate& op) {
        if (std::string_view(op.info.name) == "contiguous") bytes.insert(op.bytes);
        return Answer::inherit;
    });
    training.step();
    EXPECT_EQ(bytes, std::set<std::size_t>{2 * 16 * 8 * 7 * 7 * sizeof(float)});
}

TEST(MaskRcnn, TakesImagesOfAnySize) {
    RcnnTraining training(cpu);
    const Detections found = training.model.detect(training.images().slice(2, 0, 50).slice(3, 0, 37));
    EXPECT_EQ(found.masks.shape(), (Shape{2, 5, 28, 28}));
    const std::vector<double> boxes = numbers(found.boxes);
    for (std::size_t i = 0; i < boxes.size(); ++i) {
        EXPECT_GE(boxes[i], 0);
        EXPECT_LE(boxes[i], i % 2 == 0 ? 37 : 50);
    }
}

TEST(MaskRcnn, TrainsTheLastStagesOfABodyThatIsGiven) {
    RcnnTraining training(cpu, {.name = "", .policies = {}, .frozen_norms = true, .trained_stages = 3});
    for (const Parameter& parameter : training.parameters.all()) {
        const std::string& path = parameter.path;
        const bool body = path.starts_with("backbone.body.");
        const bool late = path.starts_with("backbone.body.layer") && path[19] > '1';
        EXPECT_EQ(parameter.trained, !body || (late && !parameter.buffer)) << path;
    }
    EXPECT_EQ(training.parameters.find("backbone.body.bn1.num_batches_tracked"), nullptr);
}

TEST(MaskRcnn, RefusesWhatItCannotTake) {
    RcnnTraining training(cpu);
    Context& context = training.context;
    const Tensor images = training.images(),
                 boxes = context.from_host(std::vector<float>{4, 4, 40, 30, 10, 12, 50, 60}, {2, 1, 4});
    const Tensor labels = context.from_host(std::vector<std::int64_t>{0, 1}, {2, 1});
    const Tensor masks = context.from_host(std::vector<std::uint8_t>(2 * 64 * 64), {2, 1, 64, 64});
    const auto losses = [&](const Tensor& x, const Tensor& b, const Tensor& l, const Tensor& m) {
        return [&, x, b, l, m] { training.model.losses(x, b, l, m); };
    };
    EXPECT_THAT(losses(images[0], boxes, labels, masks), throws<ShapeError>("images [3, 64, 64] must be [N, 3, H, W]"));
    EXPECT_THAT(losses(images.slice(0, 0, 0), boxes, labels, masks),
                throws<ShapeError>("[0, 3, 64, 64]", "with pixels"));
    EXPECT_THAT(losses(images, boxes[0], labels, masks), throws<ShapeError>("boxes [1, 4] must be [2, M, 4]"));
    EXPECT_THAT(losses(images, boxes.slice(1, 0, 0), labels, masks),
                throws<ShapeError>("boxes [2, 0, 4] must be [2, M, 4], M at least 1"));
    EXPECT_THAT(losses(images, boxes, labels[0], masks), throws<ShapeError>("mask_rcnn: labels [1]"));
    EXPECT_THAT(losses(images, boxes, cast(labels, Dtype::f32), masks),
                throws<DtypeError>("labels must be i32 or i64"));
    EXPECT_THAT(losses(images, boxes, labels, masks.slice(3, 0, 32)), throws<ShapeError>("mask_rcnn: masks"));
    EXPECT_THAT([&] { training.model.detect(boxes); }, throws<ShapeError>("images [2, 1, 4] must be"));
    EXPECT_THAT(losses(images, boxes, labels + 4, masks), throws<ShapeError>("outside"));
    for (const std::vector<float>& box : {std::vector<float>{9, 9, 9, 20}, {9, 9, 20, 8}}) {  // no width; upside down
        std::vector<float> two{0, 0, 0, 0};                                                   // no object
        two.insert(two.end(), box.begin(), box.end());
        EXPECT_THAT(losses(images, context.from_host(two, {2, 1, 4}), labels, masks),
                    throws<Error>("mask_rcnn: object 0 of image 1 has a box without area, [9, 9,", "without area"));
    }
    EXPECT_THAT([&] { training.model.detector.body(images); },
                throws<Error>("resnet: the network was built without classes"));
    const auto made = [&](const std::function<void(MaskRcnnOptions&)>& change) {
        return [&context, change] {
            MaskRcnnOptions options = test::small_options();
            change(options);
            Parameters parameters(context, {.name = "other"});
            MaskRcnn(parameters, options);
        };
    };
    EXPECT_THAT(made([](auto& options) { options.boxes.classes = 1; }),
                throws<ShapeError>("classes must be at least 2, of which class 0 is the background, got 1"));
    EXPECT_THAT(made([](auto& options) { options.boxes.regions = 0; }), throws<ShapeError>("at least 1, got 0"));
    EXPECT_THAT(made([](auto& options) { options.boxes.regions = 3; }),
                throws<ShapeError>("a positive_fraction of 0.25 leaves no object among 3 regions"));
    EXPECT_THAT(made([](auto& options) { options.boxes.proposals.anchors = 1; }),
                throws<ShapeError>("among 1 anchors"));
    EXPECT_THAT(made([](auto& options) { options.hidden = 0; }), throws<ShapeError>("mask_rcnn: sizes"));
    EXPECT_THAT(made([](auto& options) { options.boxes.positive_fraction = 2; }), throws<Error>("positive_fraction"));
    EXPECT_THAT(made([](auto& options) { options.boxes.proposals.sizes[2] = 0; }), throws<Error>("size of anchors"));
    EXPECT_THAT(made([](auto& options) { options.boxes.proposals.ratios[0] = -1; }), throws<Error>("ratio of anchors"));
    EXPECT_THAT(made([](auto& options) { options.boxes.canonical_size = NAN; }), throws<Error>("canonical_size"));
    EXPECT_THAT(made([](auto& options) { options.boxes.trained_stages = 6; }), throws<Error>("trained_stages"));
}

TEST(FasterRcnn, HasTheLossesOfMaskRcnnWithoutMasks) {
    RcnnTraining training(cpu);
    Parameters parameters(training.context, {.name = "boxes"});
    const FasterRcnn model(parameters, test::small_options().boxes);
    const Tensor boxes = training.context.from_host(std::vector<float>{4, 4, 40, 30, 10, 12, 50, 60}, {2, 1, 4});
    const Tensor labels = training.context.from_host(std::vector<std::int32_t>{1, 3}, {2, 1});
    const DetectionLosses losses = model.losses(training.images(), boxes, labels);
    EXPECT_FALSE(losses.mask.defined());
    const double sum = losses.objectness.item() + losses.rpn_box.item() + losses.classifier.item() + losses.box.item();
    EXPECT_NEAR(losses.total(2).mean().item(), sum, 4 * 0x1p-23 * sum);
    EXPECT_FALSE(model.detect(training.images()).masks.defined());
}

}  // namespace mask_rcnn_test
}  // namespace headroom::nn
