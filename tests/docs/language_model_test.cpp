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
#include <headroom/nn/low_rank.hpp>
#include <headroom/tests/support/source_path.hpp>

namespace headroom {
namespace language_model_test {

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

TEST(Guide, LowRankAdapters) {
    Context context = Context::cpu({.threads = 1, .seed = 1});
    Parameters parameters(context, {.name = "whole"}), adapted_parameters(context);
    const nn::Gpt model(parameters, {.vocabulary = 11, .block = 8, .layers = 2, .heads = 1, .width = 64});
    const fs::path gpt2_file = fs::path(testing::TempDir()) / "headroom_guide_low_rank.safetensors";
    nn::save_gpt2(gpt2_file, model);

    nn::Gpt adapted(adapted_parameters, nn::gpt2_sizes(gpt2_file));
    adapted_parameters.freeze("**");
    for (std::size_t i = 0; i < adapted.blocks.size(); ++i) {
        const nn::Path path = nn::Path(adapted_parameters) / "adapters" / i;
        nn::add_low_rank(adapted.blocks[i].attention.qkv, path, {.rank = 8, .alpha = 16});
    }
    nn::load_gpt2(gpt2_file, adapted);
    fs::remove(gpt2_file);

    const NoGradGuard no_grad(context);
    const Tensor ids = context.from_host(std::vector<std::int32_t>{1, 2, 3, 4}, {1, 4});
    const std::vector<float> want = model(ids).to_vector<float>(), got = adapted(ids).to_vector<float>();
    for (std::size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-5) << "B is zero";
    for (const GradientSegment& segment : adapted_parameters.segments()) {
        for (const std::size_t trained : segment.parameters)
            EXPECT_TRUE(nn::is_low_rank(adapted_parameters.all()[trained].path));
    }
    EXPECT_FALSE(adapted_parameters.segments().empty());
}

}  // namespace language_model_test
}  // namespace headroom
