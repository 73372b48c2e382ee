// A program with --graphs on a GPU: the training is the one without, in the memory that was predicted.
#include <headroom/examples/cli/program.hpp>

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <headroom/examples/cli/windows_task.hpp>
#include <headroom/kernels/device/cuda_device.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/nn/gpt.hpp>
#include <headroom/tests/data/scratch.hpp>
#include <headroom/tests/training/one_layer_task.hpp>

namespace headroom::cli {
namespace train_graphs_cuda_test {

using ::testing::HasSubstr;
using Words = std::vector<std::string>;

/// A small GPT on a text.
class GptTask final : public WindowsTask<data::TextWindows> {
  public:
    GptTask(Parameters& parameters, const TextFlags& flags, std::int64_t batch, const Corpus& corpus)
        : WindowsTask(parameters, next_tokens(corpus, flags, batch), flags),
          flags_(flags),
          corpus_(corpus),
          model_(nn::Path(parameters), {.vocabulary = corpus.vocabulary,
                                        .block = flags.block,
                                        .layers = flags.layers,
                                        .heads = flags.heads,
                                        .width = flags.width,
                                        .dropout = flags.dropout}) {}
    Loss loss(const Batch& batch) override { return model_.loss(batch[0], batch[1]); }
    std::string sample() override {
        if (flags_.sample == 0) return "";
        return corpus_.decode(nn::generate(model_, prompt(corpus_, flags_), flags_.sample, flags_.sampling()));
    }

  private:
    const TextFlags& flags_;
    const Corpus& corpus_;
    nn::Gpt model_;
};

class TrainGraphs : public ::testing::Test {
  protected:
    void SetUp() override {
        if (kernels::cuda_device_count() == 0) GTEST_SKIP() << "there is no GPU";
        std::ofstream text(folder_.path() / "text.txt");
        for (int i = 0; i < 150; ++i) text << "abcdefghij"[i * i % 7] << "klmno "[i * i * i % 5];
    }

    std::string path(const std::string& name) const { return folder_.path() / name; }

    /// Figures of a training with these flags, which count more than the usual ones.
    nlohmann::json train_gpt(Words given, const Words& more = {}) const {
        given.insert(given.end(), more.begin(), more.end());
        for (const auto& [name, value] : Pairs{{"--data", path("text.txt")},
                                               {"--layers", "1"},
                                               {"--heads", "2"},
                                               {"--width", "16"},
                                               {"--block", "8"},
                                               {"--batch", "3"},
                                               {"--steps", "3"},
                                               {"--threads", "1"},
                                               {"--device", "cuda"},
                                               {"--json", path("figures.json")}}) {
            if (std::find(given.begin(), given.end(), name) == given.end()) given.insert(given.end(), {name, value});
        }
        App app("", "train_gpt");
        TextFlags flags;
        flags.trainer.recomputes = nn::Gpt::recompute_ways();
        flags.trainer.recompute = "mlp";
        add_text_data(app, flags);
        add_text_sizes(app, flags);
        add_text_sampling(app, flags);
        add_flags(app, flags);
        app.parse(given);
        const Corpus corpus = read_corpus(flags);
        train(flags, [&] {
            Program program;
            program.units = flags.block;
            program.task = [&](Parameters& parameters, std::int64_t batch) {
                return std::make_unique<GptTask>(parameters, flags, batch, corpus);
            };
            return program;
        });
        return nlohmann::json::parse(std::ifstream(flags.json));
    }

    static void expect_predicted(const nlohmann::json& figures) {
        EXPECT_EQ(figures["peak_bytes_allocated"], figures["peak_bytes_predicted"]);
        EXPECT_EQ(figures["peak_bytes_reserved"], figures["peak_bytes_reserved_predicted"]);
    }

  private:
    using Pairs = std::vector<std::pair<std::string, std::string>>;
    test::ScratchFolder folder_;
};

TEST_F(TrainGraphs, TheBitsAreThoseWithoutAndThePeakIsThePredictedOne) {
    for (const Words& flags :
         {Words{"--dropout", "0.1"},
          {"--accumulate", "4", "--steps", "1"},
          {"--accumulate", "2", "--steps", "3", "--dtype", "bf16", "--recompute", "blocks", "--dropout", "0.1"},
          {"--accumulate", "5", "--steps", "3", "--validate-every", "1"},
          {"--dtype", "f16", "--accumulate", "3", "--steps", "3", "--lr", "1e30", "--warmup", "1"},
          {"--recompute", "cheap", "--validate-every", "2", "--sample", "5"}}) {
        SCOPED_TRACE(::testing::PrintToString(flags));
        const nlohmann::json without = train_gpt(flags), with = train_gpt(flags, {"--graphs"});
        EXPECT_EQ(with["state_sha256"], without["state_sha256"]);
        EXPECT_EQ(with["val_loss"], without["val_loss"]);
        EXPECT_TRUE(with["graphs"]);
        EXPECT_FALSE(with.contains("graph_refusal"));
        expect_predicted(with);
    }
}

/// Graphs run no op by itself.
TEST_F(TrainGraphs, OpsAreMeasuredWithoutThem) {
    const nlohmann::json figures =
        train_gpt({"--batch", "1", "--steps", "1"}, {"--graphs", "--calibrate", path("costs.json")});
    EXPECT_EQ(figures["costs"], "measured");
    EXPECT_TRUE(figures["graphs"]);
}

TEST_F(TrainGraphs, AResumedTrainingMayHaveThemOrNot) {
    const Words flags{"--dropout", "0.1", "--accumulate", "2"};
    const nlohmann::json whole = train_gpt(flags);
    train_gpt(flags, {"--graphs", "--stop-after", "2", "--save", path("saved")});
    for (const Words& more : {Words{}, {"--graphs"}}) {
        const nlohmann::json resumed = train_gpt({"--resume", path("saved")}, more);
        EXPECT_EQ(resumed.contains("graphs"), !more.empty());
        EXPECT_EQ(resumed["state_sha256"], whole["state_sha256"]);
        expect_predicted(resumed);
    }
}

/// With the memory of the graphs, which is needed for that.
TEST_F(TrainGraphs, WhatWasNotFiniteIsFoundWithinTheLimit) {
    const Words flags{"--graphs", "--width", "32", "--batch", "64", "--steps", "2"};
    const auto limit = train_gpt(flags)["peak_bytes_reserved"].get<std::size_t>();
    try {
        train_gpt(flags, {"--lr", "1e30", "--warmup", "0", "--memory-limit", std::to_string(limit)});
        ADD_FAILURE() << "it trained";
    } catch (const Error& error) {
        EXPECT_THAT(error.what(), HasSubstr("step 2: the loss is not finite; the first output that is not finite is"));
    }
}

/// Between what is needed without graphs and with them.
TEST_F(TrainGraphs, AGraphThatDoesNotFitIsLeftOutAndSaysSo) {
    const Words flags{"--width", "32", "--batch", "64", "--steps", "2"};
    const nlohmann::json without = train_gpt(flags);
    const std::size_t limit = without["peak_bytes_reserved"].get<std::size_t>() + (std::size_t{2} << 20);
    ::testing::internal::CaptureStdout();
    const nlohmann::json with = train_gpt(flags, {"--graphs", "--memory-limit", std::to_string(limit)});
    EXPECT_THAT(::testing::internal::GetCapturedStdout(),
                HasSubstr("\nnot all work was done by graphs: out of memory on "));
    EXPECT_THAT(with["graph_refusal"], HasSubstr("do not fit into the limit"));
    EXPECT_EQ(with["state_sha256"], without["state_sha256"]);
    expect_predicted(with);
}

/// Counts the calls that a graph saves.
class CountingTask final : public test::OneLayerTask {
  public:
    CountingTask(Parameters& parameters, int& calls) : test::OneLayerTask(parameters), calls_(calls) {}
    Loss loss(const Batch& batch) override {
        if (!context_.dry()) ++calls_;
        return test::OneLayerTask::loss(batch);
    }

  private:
    int& calls_;
};

TEST_F(TrainGraphs, ALossIsComputedOnceWithoutAndOnceForItsGraph) {
    for (const bool graphs : {false, true}) {
        int calls = 0;
        Flags flags;
        flags.device = "cuda";
        flags.steps = 6;
        flags.trainer.accumulate = 4;
        flags.compute.graphs = graphs;
        train(flags, [&] {
            Program program;
            program.unit = "samples";
            program.task = [&](Parameters& parameters, std::int64_t) {
                return std::make_unique<CountingTask>(parameters, calls);
            };
            return program;
        });
        EXPECT_EQ(calls, graphs ? 2 * 2 : 6 * 4) << "the first micro-batch of a step, and further ones";
    }
}

}  // namespace train_graphs_cuda_test
}  // namespace headroom::cli
