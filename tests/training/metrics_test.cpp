#include <headroom/training/metrics.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>

#include <gtest/gtest.h>

#include <headroom/core/context.hpp>
#include <headroom/core/ops/create.hpp>
#include <headroom/dist/threads.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/training/say.hpp>

namespace headroom::training {
namespace metrics_test {

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

// Of seven batches, the last of them smaller; the sums of their losses have other bits in another order.
TEST(FiguresOfRanks, AreThoseOfOne) {
    constexpr std::array<float, 7> kSums{1e-9F, 1e9F, 3.7F, -1e9F, 0.3F, 1e-3F, 7e5F};
    struct Figures {
        MeanLoss mean;
        Accuracy accuracy;
        ClassesSeen classes{3};
        ConfusionMatrix confusion{3};
    };
    const auto add = [&](Context& context, Figures& figures, std::size_t batch) {
        const auto number = static_cast<std::int32_t>(batch);
        const Labels labels = batch == 6 ? Labels{2} : Labels{0, number % 2};
        const Classes predicted(labels.size(), number % 3);
        std::vector<float> logits;
        for (std::size_t i = 0; i < labels.size(); ++i)
            for (int label = 0; label < 3; ++label) logits.push_back(label == number % 3 ? 1.0F : 0.0F);
        figures.mean.add(Loss(context.scalar(kSums[batch]), static_cast<double>(labels.size())));
        figures.accuracy.add(context.from_host(logits, {static_cast<std::int64_t>(labels.size()), 3}),
                             context.from_host(labels, {static_cast<std::int64_t>(labels.size())}));
        figures.classes.add(labels);
        figures.confusion.add(predicted, labels);
    };
    Context alone = Context::cpu({.threads = 1});
    Figures one;
    for (std::size_t batch = 0; batch < kSums.size(); ++batch) add(alone, one, batch);
    for (const int ranks : {2, 3, 8}) {
        dist::run_ranks(ranks, [&](const std::shared_ptr<Group>& group) {
            Context context = Context::cpu({.threads = 1, .group = group});
            Figures figures;
            for (auto batch = static_cast<std::size_t>(group->rank()); batch < kSums.size();
                 batch += static_cast<std::size_t>(ranks))
                add(context, figures, batch);
            figures.mean.combine(*group);
            figures.accuracy.combine(*group);
            figures.classes.combine(*group);
            figures.confusion.combine(*group);
            EXPECT_EQ(figures.mean.value(), one.mean.value()) << ranks;
            EXPECT_EQ(figures.mean.terms(), 13) << ranks;
            EXPECT_EQ(figures.accuracy.value(), one.accuracy.value()) << ranks;
            EXPECT_EQ(figures.classes.note(), one.classes.note()) << ranks;
            for (int truth = 0; truth < 3; ++truth)
                for (int predicted = 0; predicted < 3; ++predicted)
                    EXPECT_EQ(figures.confusion.count(truth, predicted), one.confusion.count(truth, predicted));
        });
    }
}

TEST(SizeText, HasBothForms) {
    EXPECT_EQ(size_text(9'999), "9999 B");
    EXPECT_EQ(size_text(24'612'345), "24.6 MB (24612345 bytes)");
}

}  // namespace metrics_test
}  // namespace headroom::training
