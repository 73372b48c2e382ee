// What stands beside a file of weights: config.json, else what convert_pth has kept.
#include <gtest/gtest.h>

#include <headroom/files/model_config.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/tests/data/scratch.hpp>

namespace headroom::files {
namespace model_config_test {

using headroom::test::throws;

class ModelConfigs : public ::testing::Test {
  protected:
    ModelConfig with(const std::string& json) {
        folder.write("config.json", json);
        return ModelConfig(file({}));
    }
    SafetensorsFile file(const Metadata& metadata) {
        write_safetensors(folder.path() / "x.safetensors", context, {}, metadata);
        return SafetensorsFile(folder.path() / "x.safetensors");
    }
    Context context = Context::cpu({.threads = 1});
    test::ScratchFolder folder;
};

TEST_F(ModelConfigs, ValuesAreThoseOfConfigJson) {
    const ModelConfig config =
        with(R"({"n_head": 3, "act": "gelu_new", "bias": false, "eps": 1e-05, "none": null, "list": [1]})");
    EXPECT_EQ(config.source(), (folder.path() / "config.json").string());
    EXPECT_EQ(config.count("n_head"), 3);
    EXPECT_EQ(config.value("act"), "gelu_new");
    EXPECT_EQ(config.value("bias"), "false");
    for (const char* const name : {"none", "list", "missing"}) {
        EXPECT_EQ(config.value(name), std::nullopt) << name;
        EXPECT_EQ(config.count(name), std::nullopt) << name;
    }
}

TEST_F(ModelConfigs, WithoutItTheFilesOwnWordsCount) {
    const SafetensorsFile kept = file({{"model_args", R"({"n_head": 6})"}});
    EXPECT_EQ(ModelConfig(kept).count("n_head"), 6);
    EXPECT_THAT(ModelConfig(kept).source(), ::testing::HasSubstr("x.safetensors, model_args"));
    EXPECT_EQ(ModelConfig(file({})).count("n_head"), std::nullopt);
    folder.write("config.json", R"({"n_head": 3})");
    EXPECT_EQ(ModelConfig(kept).count("n_head"), 3);
}

TEST_F(ModelConfigs, WhatContradictsTheWeightsIsRefused) {
    const ModelConfig config =
        with(R"({"n_embd": 12, "act": "swish", "eps": 1e-05, "heads": "three", "none": 0, "part": 1.5})");
    EXPECT_NO_THROW(config.expect_count("n_embd", 12));
    EXPECT_NO_THROW(config.expect_count("missing", 12));
    EXPECT_THAT([&] { config.expect_count("n_embd", 13); },
                throws<FileError>("config.json: \"n_embd\" is 12, but the weights have 13"));
    EXPECT_NO_THROW(config.expect("eps", {"1e-5"}));
    EXPECT_NO_THROW(config.expect("missing", {"1e-5"}));
    EXPECT_THAT([&] { config.expect("eps", {"1e-6"}); },
                throws<FileError>("\"eps\" is 1e-05, but this model supports only 1e-6"));
    EXPECT_THAT([&] { config.expect("act", {"gelu", "relu"}); }, throws<FileError>("swish", "gelu or relu"));
    for (const char* const name : {"heads", "none", "part"})
        EXPECT_THAT([&] { (void)config.count(name); },
                    throws<FileError>("config.json", name, "must be a whole number"));
    EXPECT_THAT([&] { with("[1]"); }, throws<FileError>("config.json: a model's configuration must be a JSON object"));
    EXPECT_THAT([&] { with("version https"); },
                throws<FileError>("config.json: a model's configuration must be a JSON object"));
}

}  // namespace model_config_test
}  // namespace headroom::files
