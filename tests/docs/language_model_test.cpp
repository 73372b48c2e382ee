// What docs/guide.md shows of language models.
#include <cmath>
#include <filesystem>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <headroom/data/data_loader.hpp>
#include <headroom/data/text.hpp>
#include <headroom/data/text_windows.hpp>
#include <headroom/nn/gpt.hpp>
#include <headroom/nn/gpt2_names.hpp>
#include <headroom/tests/support/source_path.hpp>

namespace headroom {
namespace {

namespace fs = std::filesystem;

TEST(Guide, LanguageModel) {
    Context context = Context::cpu({.threads = 1, .seed = 1});
    const fs::path file = test::source_path("LICENSE");
    const data::TextCorpus corpus = data::TextCorpus::characters(file, {.block = 32});
    const data::TextWindows windows(corpus.split().train, 32, data::WindowStart::every_token);
    data::DataLoader loader(windows, data::Sampler::with_replacement(windows.size(), /*batch=*/4, /*seed=*/1));

    const std::int64_t vocabulary = corpus.vocabulary().size();
    Parameters parameters(context);
    nn::Gpt model(parameters, {.vocabulary = vocabulary, .block = 32, .layers = 2, .heads = 2, .width = 64});

    const data::TokenBatch& batch = *loader.next();
    const Shape shape{batch.rows, batch.length};
    const Loss loss = model.loss(context.from_host(batch.inputs, shape), context.from_host(batch.targets, shape));

    const std::vector<std::int32_t> prompt = corpus.vocabulary().encode("the ");
    const auto text = nn::generate(model, prompt, /*count=*/40, {.temperature = 0.8, .top_k = 20});
    fmt::print("{}\n", corpus.vocabulary().decode(text));

    const double mean = loss.sum().item() / static_cast<double>(shape.numel());
    EXPECT_NEAR(mean, std::log(static_cast<double>(vocabulary)), 0.5) << "as likely as any other character";
    EXPECT_EQ(text.size(), prompt.size() + 40);

    const fs::path path = fs::path(testing::TempDir()) / "headroom_guide_gpt2.safetensors";
    nn::save_gpt2(path, model);
    nn::load_gpt2(path, model);
    fs::remove(path);
}

}  // namespace
}  // namespace headroom
