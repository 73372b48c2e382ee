// Files of BERT in the forms that people have them: old names of norms, no prefix, no head, a head of their own.
#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <headroom/memory/error.hpp>
#include <headroom/nn/bert_names.hpp>
#include <headroom/tests/data/scratch.hpp>
#include <headroom/tests/nn/reference_bert.hpp>

namespace headroom::nn {
namespace bert_names_test {

using headroom::test::throws;
using ::testing::ElementsAre, ::testing::IsEmpty;

std::string replaced(std::string text, const std::string& what, const std::string& by) {
    const std::size_t at = text.find(what);
    return at == std::string::npos ? text : text.replace(at, what.size(), by);
}

class BertNames : public ::testing::Test {
  protected:
    using Rename = std::function<std::string(const std::string&)>;

    /// The reference's tensors, renamed; without those of an empty name; and `more`.
    std::filesystem::path variant(const Rename& rename, std::vector<NamedArray> more = {}) {
        const files::SafetensorsFile file(reference_bert_file());
        for (const files::SafetensorsEntry& entry : file.entries()) {
            if (rename(entry.name).empty()) continue;
            const Array array = context.exec().empty(entry.shape, entry.dtype);
            file.copy_to(entry, context, array);
            more.push_back({rename(entry.name), array});
        }
        files::write_safetensors(path, context, std::move(more));
        return path;
    }
    Array read(const std::string& name) {
        const files::SafetensorsFile file(reference_bert_file());
        const files::SafetensorsEntry* const entry = file.find(name);
        const Array array = context.exec().empty(entry->shape, entry->dtype);
        file.copy_to(*entry, context, array);
        return array;
    }
    static std::vector<double> values(Parameters& of) {
        std::vector<double> all;
        for (const Parameter& parameter : of.all()) {
            const auto part = parameter.tensor.to_vector<double>();
            all.insert(all.end(), part.begin(), part.end());
        }
        return all;
    }
    /// That the file is the reference in another form.
    void expect_same(const std::filesystem::path& file, const std::string& prefix = "") {
        const BertOptions sizes = bert_sizes(file);
        EXPECT_EQ((std::vector{sizes.vocabulary, sizes.block, sizes.layers, sizes.width, sizes.hidden}),
                  (std::vector{kReferenceBert.vocabulary, kReferenceBert.block, kReferenceBert.layers,
                               kReferenceBert.width, kReferenceBert.hidden}));
        Parameters own(context, {.name = "own"});
        const BertForMaskedLm other(own, kReferenceBert);
        const files::LoadReport report = load_bert(file, own);
        EXPECT_EQ(report.prefix, prefix);
        EXPECT_THAT(report.missing, IsEmpty());
        EXPECT_EQ(values(own), values(parameters));
    }

    Context context = Context::cpu({.threads = 1});
    Parameters parameters{context};
    BertForMaskedLm model{parameters, kReferenceBert};
    test::ScratchFolder folder;
    std::filesystem::path path = folder.path() / "bert.safetensors";
};

std::string old(const std::string& name) {
    return replaced(replaced(name, "LayerNorm.weight", "LayerNorm.gamma"), "LayerNorm.bias", "LayerNorm.beta");
}
std::string same(const std::string& name) { return name; }

TEST_F(BertNames, OldNamesOfNormsAndPrefixesOfWrappersAreRead) {
    load_bert(reference_bert_file(), parameters);
    ASSERT_NE(old("bert.embeddings.LayerNorm.weight"), "bert.embeddings.LayerNorm.weight");
    expect_same(variant(old, {{"bert.embeddings.position_ids", read("cls.predictions.bias")}}));
    expect_same(variant([](const std::string& name) { return "module." + name; }), "module.");
    expect_same(variant([](const std::string& name) { return "_orig_mod.module." + old(name); }), "_orig_mod.module.");
    // The bias of words once, under its other name.
    expect_same(variant([](const std::string& name) {
        return replaced(name, "cls.predictions.bias", "cls.predictions.decoder.bias");
    }));
}

TEST_F(BertNames, ABareModelLeavesTheHeadAsItWas) {
    load_bert(reference_bert_file(), parameters);
    const auto body = [](const std::string& name) { return name.starts_with("cls.") ? "" : name; };
    const auto bare = [&](const std::string& name) { return replaced(body(name), "bert.", ""); };
    for (const bool prefixed : {true, false}) {
        SCOPED_TRACE(prefixed);
        const auto file = prefixed ? variant(body)
                                   : variant(bare, {{"pooler.dense.bias", read("cls.predictions.bias")},
                                                    {"qa_outputs.bias", read("cls.predictions.bias")}});
        EXPECT_EQ(bert_sizes(file).layers, 2);
        Parameters own(context, {.name = prefixed ? "prefixed" : "bare"});
        const BertForMaskedLm other(own, kReferenceBert);
        const auto bias = other.bias.to_vector<float>(), transform = other.transform.weight.to_vector<float>();
        EXPECT_THAT([&] { load_bert(file, own); }, throws<Error>("lacks cls.predictions"));
        EXPECT_THAT(load_bert(file, own, /*partial=*/true).missing,
                    ElementsAre("cls.predictions.transform.dense.weight", "cls.predictions.transform.dense.bias",
                                "cls.predictions.transform.LayerNorm.weight",
                                "cls.predictions.transform.LayerNorm.bias", "cls.predictions.bias"));
        EXPECT_EQ(other.transform.weight.to_vector<float>(), transform);
        EXPECT_EQ(other.bias.to_vector<float>(), bias);
        const Tensor ids = context.from_host(std::vector<std::int64_t>{1, 2, 3, 4}, {2, 2});
        EXPECT_EQ(other.bert(ids).to_vector<float>(), model.bert(ids).to_vector<float>());
    }
    // Not the body: that some of it is missing is an error in any case.
    variant([](const std::string& name) { return name == "bert.encoder.layer.1.output.dense.bias" ? "" : name; });
    EXPECT_THAT([&] { load_bert(path, parameters, /*partial=*/true); },
                throws<Error>("lacks bert.encoder.layer.1.output.dense.bias"));
}

TEST_F(BertNames, ADecoderOfItsOwnIsRefused) {
    load_bert(reference_bert_file(), parameters);
    const char *const decoder = "cls.predictions.decoder.weight", *const bias = "cls.predictions.decoder.bias";
    const Array table = read("bert.embeddings.word_embeddings.weight"), words = read("cls.predictions.bias");
    expect_same(variant(same, {{decoder, table}, {bias, words}}));
    const Array other = read("bert.embeddings.word_embeddings.weight"), others = read("cls.predictions.bias");
    other.view().as<double>()[3] += 1;
    others.view().as<double>()[3] += 1;
    const auto before = values(parameters);
    for (const bool partial : {false, true}) {
        variant(same, {{decoder, other}});
        EXPECT_THAT([&] { load_bert(path, parameters, partial); },
                    throws<Error>(decoder, "differs from bert.embeddings.word_embeddings.weight",
                                  "use a file with tied weights"));
        variant(same, {{bias, others}});
        EXPECT_THAT([&] { load_bert(path, parameters, partial); }, throws<Error>(bias, "differs from"));
    }
    EXPECT_EQ(values(parameters), before);
    Parameters own(context, {.name = "judge"});
    const BertForClassification judge(own, 3, kReferenceBert);
    variant(same, {{decoder, other}});
    EXPECT_EQ(load_bert(path, own, /*partial=*/true).missing.size(), 4u) << "a model without a head for words";
}

TEST_F(BertNames, ConfigJsonSaysTheNumberOfHeadsAndMustFit) {
    const auto at = variant(same);
    const auto with = [&](const std::string& json) {
        folder.write("config.json", json);
        return [&] { return bert_sizes(at); };
    };
    EXPECT_EQ(bert_heads(at), std::nullopt);
    EXPECT_EQ(bert_sizes(at).heads, 1);
    const std::string fits =
        R"({"model_type": "bert", "num_attention_heads": 2, "hidden_size": 8, "num_hidden_layers": 2)";
    EXPECT_EQ(with(fits + R"(, "hidden_act": "gelu", "layer_norm_eps": 1e-12})")().heads, 2);
    EXPECT_EQ(bert_heads(at), 2);
    for (const char* const odd : {R"("hidden_act": "gelu_new")", R"("layer_norm_eps": 1e-5)", R"("is_decoder": true)",
                                  R"("position_embedding_type": "relative_key")"})
        EXPECT_THAT(with(fits + ", " + odd + "}"), throws<FileError>("config.json", std::string(odd).substr(0, 9)))
            << odd;
    EXPECT_THAT(with(R"({"num_attention_heads": 2, "model_type": "roberta"})"), throws<FileError>("roberta"));
    EXPECT_THAT(with(R"({"num_attention_heads": 2, "hidden_size": 768})"), throws<FileError>("is 768", "have 8"));
    EXPECT_THAT(with(R"({"num_attention_heads": 2, "num_hidden_layers": 12})"), throws<FileError>("is 12", "have 2"));
}

}  // namespace bert_names_test
}  // namespace headroom::nn
