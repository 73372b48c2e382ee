// Three training steps of a small BERT against Hugging Face's BertForMaskedLM and BertForSequenceClassification:
// losses, first gradients, weights.
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <headroom/core/ops/cross_entropy.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/nn/bert_names.hpp>
#include <headroom/optim/gradient_accumulator.hpp>
#include <headroom/optim/sgd.hpp>
#include <headroom/tests/data/scratch.hpp>
#include <headroom/tests/nn/reference_bert.hpp>
#include <headroom/tests/support/reference.hpp>
#include <headroom/tests/support/source_path.hpp>

namespace headroom::nn {
namespace bert_reference_test {

class BertReference : public ::testing::Test {
  protected:
    Tensor of(const std::string& name, std::size_t step) {
        const test::ReferenceTensor& all = reference.at(name);
        Shape shape = all.shape;
        shape.erase(0);
        const auto begin = all.values.begin() + static_cast<std::ptrdiff_t>(step) * shape.numel();
        return context.from_host(std::vector<std::int64_t>(begin, begin + shape.numel()), shape);
    }
    /// Of packed queries, keys and values, one after the other, as here.
    std::vector<double> values_of(const std::string& group, const std::string& name) {
        std::vector<double> all;
        const std::size_t query = name.find("query");
        for (const char* const part : {"query", "key", "value"}) {
            std::string path = group + "/" + name;
            if (query != std::string::npos) path.replace(group.size() + 1 + query, 5, part);
            const std::vector<double>& values = reference.at(path).values;
            all.insert(all.end(), values.begin(), values.end());
            if (query == std::string::npos) break;
        }
        return all;
    }

    /// Gradients pass some 40 ops with sums of up to 39 terms; f64 is thus within 1e-12.
    void expect_near(const std::vector<double>& got, const std::vector<double>& want, Dtype dtype,
                     const std::string& name) {
        EXPECT_LE(test::error_in_epsilons(got, want, epsilon(dtype)), 512) << name;
    }

    /// Three steps of SGD with momentum.
    void expect_agrees(Parameters& own, const std::string& group, const std::function<Loss(std::size_t)>& loss) {
        optim::Sgd optimizer(own, {.momentum = 0.9});
        optim::GradientAccumulator accumulator(own, optimizer, {.keep_gradients = true});
        for (std::size_t step = 0; step < 3; ++step) {
            accumulator.accumulate([&] { return loss(step); });
            accumulator.step(0.1);
            const optim::StepResult result = accumulator.result();
            expect_near({result.loss}, {reference.at(group + "/losses").values[step]}, own.dtype(), "loss");
            for (const Parameter& parameter : own.all()) {
                if (step != 0) break;
                std::vector<double> got = parameter.tensor.grad().to_vector<double>();
                for (double& value : got) value *= result.multiplier;
                const std::string name = bert_name(path_below(own, parameter));
                expect_near(got, values_of(group + "/gradient", name), own.dtype(), "gradient of " + name);
            }
        }
        for (const Parameter& parameter : own.all()) {
            const std::string name = bert_name(path_below(own, parameter));
            expect_near(parameter.tensor.to_vector<double>(), values_of(group + "/trained", name), own.dtype(), name);
        }
    }
    static std::string path_below(const Parameters& own, const Parameter& parameter) {
        return own.name().empty() ? parameter.path : parameter.path.substr(own.name().size() + 1);
    }

    test::Reference reference{test::source_path("tests/reference/bert_steps.safetensors")};
    Context context = Context::cpu({.threads = 2});
    Parameters parameters{context, {.dtype = Dtype::f64}};
    BertForMaskedLm model{parameters, kReferenceBert};
};

TEST_F(BertReference, StepsOfWordsAgree) {
    for (const Dtype dtype : {Dtype::f64, Dtype::f32}) {
        SCOPED_TRACE(name(dtype));
        Parameters own(context, {.name = "words", .dtype = dtype});
        const BertForMaskedLm words(own, kReferenceBert);
        EXPECT_EQ(load_bert(reference_bert_file(), own).missing.size(), 0u);
        expect_agrees(own, "words", [&](std::size_t step) {
            return words.loss(of("ids", step), of("targets", step), {.lengths = of("lengths", step)},
                              of("types", step));
        });
    }
}

TEST_F(BertReference, StepsOfClassesAgree) {
    for (const Dtype dtype : {Dtype::f64, Dtype::f32}) {
        SCOPED_TRACE(name(dtype));
        Parameters own(context, {.name = "classes", .dtype = dtype});
        const BertForClassification judge(own, 3, kReferenceBert);
        for (const std::string& path : load_bert(reference_bert_file(), own, /*partial=*/true).missing) {
            const auto head = std::find_if(own.all().begin(), own.all().end(), [&](const Parameter& parameter) {
                return bert_name(path_below(own, parameter)) == path;
            });
            ASSERT_NE(head, own.all().end()) << path;
            own.set(head->path, reference.at("classes/initial/" + path).values);
        }
        expect_agrees(own, "classes", [&](std::size_t step) {
            const AttentionMask mask{.lengths = of("lengths", step)};
            return cross_entropy(judge(of("ids", step), mask, of("types", step)), of("classes/targets", step));
        });
    }
}

TEST_F(BertReference, FilesOfHuggingFaceAreReadAndWritten) {
    load_bert(reference_bert_file(), parameters);
    const test::ScratchFolder folder;
    const BertOptions sizes = bert_sizes(reference_bert_file());
    EXPECT_EQ((std::vector{sizes.vocabulary, sizes.block, sizes.types, sizes.layers, sizes.width, sizes.hidden}),
              (std::vector{kReferenceBert.vocabulary, kReferenceBert.block, kReferenceBert.types, kReferenceBert.layers,
                           kReferenceBert.width, kReferenceBert.hidden}));
    EXPECT_THROW(bert_sizes(test::source_path("tests/reference/bert_steps.safetensors")), FileError);
    save_bert(folder.path() / "mine.safetensors", parameters);
    const files::SafetensorsFile theirs(reference_bert_file()), mine(folder.path() / "mine.safetensors");
    ASSERT_EQ(mine.entries().size(), theirs.entries().size());
    for (std::size_t i = 0; i < mine.entries().size(); ++i) {
        EXPECT_EQ(mine.entries()[i].name, theirs.entries()[i].name);
        EXPECT_EQ(mine.entries()[i].shape, theirs.entries()[i].shape);
    }
    Parameters own(context, {.name = "again", .dtype = Dtype::f64});
    const BertForMaskedLm again(own, kReferenceBert);
    load_bert(mine.path(), own);
    for (std::size_t i = 0; i < own.all().size(); ++i)
        EXPECT_EQ(own.all()[i].tensor.to_vector<double>(), parameters.all()[i].tensor.to_vector<double>());
}

/// A model for classes from one for words: its own head stays as it was, and is named.
TEST_F(BertReference, ClassificationBeginsWithAModelOfWords) {
    Parameters own(context, {.name = "judge", .dtype = Dtype::f64});
    const BertForClassification judge(own, 3, kReferenceBert);
    EXPECT_THROW(load_bert(reference_bert_file(), own), Error);
    const files::LoadReport report = load_bert(reference_bert_file(), own, /*partial=*/true);
    EXPECT_EQ(report.missing, (std::vector<std::string>{"bert.pooler.dense.weight", "bert.pooler.dense.bias",
                                                        "classifier.weight", "classifier.bias"}));
    load_bert(reference_bert_file(), parameters);
    const Tensor ids = of("ids", 0), lengths = of("lengths", 0);
    const AttentionMask mask{.lengths = lengths};
    EXPECT_EQ(judge.bert(ids, mask).to_vector<double>(), model.bert(ids, mask).to_vector<double>());
    EXPECT_EQ(judge(ids).shape(), (Shape{3, 3}));
}

TEST_F(BertReference, RefusesWhatItCannotTake) {
    EXPECT_THROW(model(of("lengths", 0)), ShapeError);
    EXPECT_THROW(model(context.from_host(std::vector<std::int64_t>(20, 1), {2, 10})), ShapeError);
    EXPECT_THROW(bert_name("bert.encoder.layers.0.mlp.middle.weight"), Error);
}

}  // namespace bert_reference_test
}  // namespace headroom::nn
