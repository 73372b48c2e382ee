#include <headroom/training/metrics.hpp>

#include <cmath>

#include <gtest/gtest.h>

#include <headroom/core/context.hpp>
#include <headroom/core/ops/create.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/training/say.hpp>

namespace headroom::training {
namespace {

using Labels = std::vector<std::int32_t>;
using Classes = std::vector<std::int64_t>;

TEST(Accuracy, CountsWhatHasALabel) {
    Context context = Context::cpu();
    Accuracy accuracy;
    EXPECT_EQ(accuracy.value(), 0);
    const std::vector<float> logits{0, 2, 1, /**/ 5, 4, 3, /**/ 1, 2, 9, /**/ 7, 8, 1};  // 1, 0, 2, 1
    accuracy.add(context.from_host(logits, {4, 3}), context.from_host(Labels{1, 2, 2, -100}, {4}));
    EXPECT_DOUBLE_EQ(accuracy.value(), 2.0 / 3);
    accuracy.add(context.from_host(logits, {2, 2, 3}), context.from_host(Labels{1, 0, -1, -1}, {2, 2}));
    EXPECT_DOUBLE_EQ(accuracy.value(), 4.0 / 5);
    const Metric metric = accuracy.metric();
    EXPECT_EQ(metric.name, "accuracy");
    EXPECT_EQ(metric.key, "val_accuracy");
    EXPECT_EQ(metric.value, accuracy.value());
}

TEST(MeanLossTest, IsOverAllTerms) {
    Context context = Context::cpu();
    MeanLoss mean;
    EXPECT_TRUE(std::isnan(mean.value()));
    mean.add(Loss(context.scalar(6), 3));
    mean.add(Loss(context.scalar(4), 1));
    EXPECT_DOUBLE_EQ(mean.value(), 10.0 / 4);
}

TEST(ConfusionMatrixTest, MeanIouIsOverClassesThatOccur) {
    ConfusionMatrix confusion(4);
    EXPECT_EQ(confusion.mean_iou(), 0);
    EXPECT_EQ(confusion.accuracy(), 0);
    confusion.add(Classes{0, 0, 1, 1}, Labels{0, 1, 1, 1});
    EXPECT_DOUBLE_EQ(confusion.mean_iou(), (1.0 / 2 + 2.0 / 3) / 2);
    confusion.add(Classes{2, 3, 1}, Labels{0, -100, -100});  // these two do not count
    EXPECT_DOUBLE_EQ(confusion.mean_iou(), (1.0 / 3 + 2.0 / 3 + 0) / 3);
    EXPECT_DOUBLE_EQ(confusion.accuracy(), 3.0 / 5);
    EXPECT_EQ(confusion.count(1, 0), 1);
    EXPECT_EQ(confusion.count(0, 1), 0);
    EXPECT_EQ(confusion.count(0, 2), 1);
}

TEST(ConfusionMatrixTest, RefusesWhatIsNoClass) {
    ConfusionMatrix confusion(2);
    EXPECT_THROW(confusion.add(Classes{0}, Labels{0, 1}), ShapeError);
    EXPECT_THROW(confusion.add(Classes{2}, Labels{0}), ShapeError);
    EXPECT_THROW(confusion.add(Classes{-1}, Labels{0}), ShapeError);
    EXPECT_THROW(confusion.add(Classes{0}, Labels{2}), ShapeError);
    EXPECT_EQ(confusion.accuracy(), 0);
}

TEST(ClassesSeen, AreNamedWhereThereIsOneAlone) {
    ClassesSeen classes(3);
    EXPECT_FALSE(classes.any());
    EXPECT_EQ(classes.note(), "no class occurs in it");
    classes.add(std::vector<std::int32_t>{2, -100, 2});
    EXPECT_EQ(classes.note(), "only class 2 occurs in it");
    EXPECT_EQ(classes.note({"cat", "dog", "owl"}), "only class owl occurs in it");
    EXPECT_EQ(classes.note({"cat"}), "only class 2 occurs in it");
    classes.add(std::vector<std::int32_t>{0});
    EXPECT_EQ(classes.note(), "");
    EXPECT_TRUE(classes.any());
}

TEST(SizeText, HasBothForms) {
    EXPECT_EQ(size_text(9'999), "9999 B");
    EXPECT_EQ(size_text(24'612'345), "24.6 MB (24612345 bytes)");
}

}  // namespace
}  // namespace headroom::training
