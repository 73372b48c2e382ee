// Trains a multi-layer perceptron on MNIST's images in IDX files, compressed or not.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>

#include <fmt/format.h>

#include <headroom/core/ops/cast.hpp>
#include <headroom/core/ops/compare.hpp>
#include <headroom/core/ops/cross_entropy.hpp>
#include <headroom/core/ops/reduce.hpp>
#include <headroom/core/ops/unary.hpp>
#include <headroom/data/data_loader.hpp>
#include <headroom/data/dataset.hpp>
#include <headroom/data/feed.hpp>
#include <headroom/data/idx.hpp>
#include <headroom/examples/program/interrupt.hpp>
#include <headroom/examples/program/outcome.hpp>
#include <headroom/examples/program/output_file.hpp>
#include <headroom/examples/program/progress.hpp>
#include <headroom/examples/program/ranges.hpp>
#include <headroom/examples/program/recent.hpp>
#include <headroom/examples/program/summary.hpp>
#include <headroom/kernels/random/philox.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/nn/dropout.hpp>
#include <headroom/nn/linear.hpp>
#include <headroom/nn/sequential.hpp>
#include <headroom/nn/state_hash.hpp>
#include <headroom/optim/adamw.hpp>
#include <headroom/optim/gradient_accumulator.hpp>
#include <headroom/optim/schedule.hpp>

namespace headroom::mnist {
namespace {

using Images = data::MemoryDataset<std::int32_t>;
using Clock = std::chrono::steady_clock;

struct Flags {
    std::string data;
    std::int64_t hidden = 512;
    std::int64_t batch = 100;
    std::int64_t epochs = 30;
    std::int64_t shift = 2;  ///< pixels
    std::int64_t validation = 1000;
    double lr = 1e-3;
    double dropout = 0.3;
    double weight_decay = 0.05;
    std::uint64_t seed = 1337;
    std::string device = "cpu";
    std::size_t memory_limit = 0;
    int threads = 0;
    std::string json;
};

void add_flags(CLI::App& app, Flags& flags) {
    const auto count = program::whole(1, 1 << 20);
    app.add_option("--data", flags.data, "folder with the images and labels")->required();
    app.add_option("--hidden", flags.hidden, "width of the two hidden layers")->check(count)->capture_default_str();
    app.add_option("--batch", flags.batch, "images in a step")->check(count)->capture_default_str();
    app.add_option("--epochs", flags.epochs, "passes over the images")->check(count)->capture_default_str();
    app.add_option("--shift", flags.shift, "shift training images by up to this many pixels each way")
        ->check(CLI::Range(0, 27))
        ->capture_default_str();
    app.add_option("--validation", flags.validation, "images kept for validation")->check(count)->capture_default_str();
    app.add_option("--lr", flags.lr, "peak learning rate")->check(program::real(0, 1e30))->capture_default_str();
    app.add_option("--dropout", flags.dropout, "probability")->check(program::real(0, 0.99))->capture_default_str();
    app.add_option("--weight-decay", flags.weight_decay, "of matrices")
        ->check(program::real(0, 1e30))
        ->capture_default_str();
    app.add_option("--seed", flags.seed, "of initialisation and data order")
        ->check(program::natural())
        ->capture_default_str();
    app.add_option("--device", flags.device, "cpu, cuda, or dry: predict the memory without computing")
        ->check(CLI::IsMember({"cpu", "cuda", "dry"}))
        ->capture_default_str();
    app.add_option("--memory-limit", flags.memory_limit,
                   "limit of the memory that is taken from the device, in bytes; 0: all of it")
        ->check(program::natural());
    app.add_option("--threads", flags.threads, "0: one per processor")->check(program::whole(0, 1024));
    app.add_option("--json", flags.json, "file for the figures of the run");
}

constexpr std::int64_t kSide = 28;
constexpr data::PixelScale kScale{.mean = 0.1307f, .deviation = 0.3081f};

/// Moves each image by its own random offset, rows and columns each within [-most, most]; what comes in is background.
void shift(std::vector<float>& images, std::int64_t rows, std::int64_t most, const kernels::RandomKey& key) {
    const auto span = static_cast<std::uint32_t>(2 * most + 1);
    std::vector<float> moved(kSide * kSide);
    for (std::int64_t row = 0; row < rows; ++row) {
        const kernels::PhiloxBlock random = kernels::philox(key, static_cast<std::uint64_t>(row));
        const std::int64_t down = static_cast<std::int64_t>(random[0] % span) - most;
        const std::int64_t right = static_cast<std::int64_t>(random[1] % span) - most;
        float* image = images.data() + row * kSide * kSide;
        std::fill(moved.begin(), moved.end(), -kScale.mean / kScale.deviation);
        for (std::int64_t y = std::max<std::int64_t>(0, down); y < std::min(kSide, kSide + down); ++y) {
            const std::int64_t first = std::max<std::int64_t>(0, right);
            const std::int64_t last = std::min(kSide, kSide + right);
            const float* source = image + (y - down) * kSide - right;
            std::copy(source + first, source + last, moved.begin() + y * kSide + first);
        }
        std::copy(moved.begin(), moved.end(), image);
    }
}

/// 784 -> hidden -> hidden -> 10 with ReLU and dropout.
auto make_model(const nn::Path& path, const Flags& flags) {
    const auto activate = [](Tensor x) { return relu(std::move(x)); };
    return nn::sequential(nn::Linear(path / "fc1", kSide * kSide, flags.hidden), activate,
                          nn::Dropout(path / "drop1", flags.dropout),
                          nn::Linear(path / "fc2", flags.hidden, flags.hidden), activate,
                          nn::Dropout(path / "drop2", flags.dropout), nn::Linear(path / "fc3", flags.hidden, 10));
}

class Session {
  public:
    Session(Context& context, const Flags& flags, const Images& images)
        : context_(context),
          parameters_(context),
          model_(make_model(nn::Path(parameters_), flags)),
          optimizer_(parameters_, {.weight_decay = flags.weight_decay}),
          accumulator_(parameters_, optimizer_, {.stop_when_diverged = true, .kept_results = kKeptResults}),
          training_(images.slice(0, images.size() - flags.validation)),
          validation_(images.slice(images.size() - flags.validation, flags.validation)),
          loader_(training_, data::Sampler::shuffled(training_.size(), flags.batch, flags.seed, {.drop_last = true})),
          feed_(context),
          batch_(flags.batch),
          shift_(flags.shift),
          steps_(flags.epochs * loader_.sampler().batches()),
          schedule_{.decay = optim::Decay::cosine, .peak = flags.lr, .warmup_steps = 20, .decay_steps = steps_} {}

    /// Only queues the step: what came of it, `results` says.
    void step() {
        const Images::Batch* batch = loader_.next();
        if (!batch) batch = loader_.next();
        std::vector<float> pixels = batch->features;
        if (shift_ > 0) {
            const auto step = static_cast<std::uint64_t>(done_);
            shift(pixels, batch->rows, shift_, kernels::random_key(context_.seed(), kernels::RandomDomain::data, step));
        }
        accumulator_.accumulate([&] {
            const auto [images, labels] = upload(pixels, *batch);
            return cross_entropy(model_(images), labels);
        });
        accumulator_.step(schedule_(done_++));
    }

    /// Of how many steps `results` can tell, and would.
    static constexpr std::int64_t kKeptResults = 100;
    std::int64_t unread() const { return accumulator_.unread(); }
    /// Of the steps since the last call but the last `leave` ones. Waits for the device to have done them.
    std::vector<optim::StepResult> results(std::int64_t leave) {
        std::int64_t step = done_ - accumulator_.unread();
        const std::vector<optim::StepResult> results = accumulator_.results(leave);
        for (const optim::StepResult& result : results) {
            ++step;
            if (!result.diverged) continue;
            throw Error(fmt::format("step {}: loss or gradient is not finite; try a lower --lr", step));
        }
        return results;
    }

    struct Score {
        double loss = 0;
        double accuracy = 0;
    };
    Score evaluate() {
        NoGradGuard no_grad(context_);
        parameters_.train(false);
        data::DataLoader<Images> loader(validation_, data::Sampler::sequential(validation_.size(), batch_),
                                        {.epochs = 1});
        Score score;
        while (const Images::Batch* batch = loader.next()) {
            const auto [images, labels] = upload(batch->features, *batch);
            const Tensor logits = model_(images);
            score.loss += cross_entropy(logits, labels).sum().item();
            const Tensor right = eq(argmax(logits, -1), cast(labels, Dtype::i64));
            score.accuracy += sum(cast(right, Dtype::f32)).item();
        }
        parameters_.train(true);
        const auto total = static_cast<double>(validation_.size());
        return {score.loss / total, score.accuracy / total};
    }

    std::string state_sha256() { return nn::state_sha256(context_, {parameters_, optimizer_}); }
    std::int64_t steps() const { return steps_; }
    std::int64_t steps_done() const { return done_; }
    std::int64_t parameters() const { return parameters_.count(); }

  private:
    /// Images and their labels.
    std::array<Tensor, 2> upload(const std::vector<float>& pixels, const Images::Batch& batch) {
        return feed_.upload({{pixels, {batch.rows, kSide * kSide}}, {batch.targets, {batch.rows}}});
    }

    Context& context_;
    Parameters parameters_;
    decltype(make_model(std::declval<nn::Path>(), std::declval<Flags>())) model_;
    optim::AdamW optimizer_;
    optim::GradientAccumulator accumulator_;
    Images training_;
    Images validation_;
    data::DataLoader<Images> loader_;
    data::Feed feed_;
    std::int64_t batch_;
    std::int64_t shift_;
    std::int64_t steps_;
    std::int64_t done_ = 0;
    optim::Schedule schedule_;
};

Images load(const Flags& flags) {
    const data::LabelledImages data = data::read_labelled_images(flags.data, "t10k", 10);
    if (data.images.rows != kSide || data.images.columns != kSide) {
        throw FileError(fmt::format("{}: images of 28 x 28 are wanted, these have {} x {}", flags.data,
                                    data.images.rows, data.images.columns));
    }
    if (data.images.count < flags.validation + flags.batch) {
        throw Error(fmt::format("--validation {} and --batch {} need more than the {} images in {}", flags.validation,
                                flags.batch, data.images.count, flags.data));
    }
    return Images::images(data.images.pixels, {kSide, kSide}, {data.labels.begin(), data.labels.end()}, kScale);
}

Context make_context(const Flags& flags) {
    const ContextOptions options{.threads = flags.threads, .memory_limit = flags.memory_limit, .seed = flags.seed};
    return flags.device == "cuda" ? Context::cuda(0, options) : Context::cpu(options);
}

void main_program(const Flags& flags) {
    program::expect_writable("--json", flags.json);
    const Clock::time_point begin = Clock::now();
    const Images images = load(flags);
    program::Summary summary;
    summary.rate_name = "samples_per_second";
    {
        Context dry = Context::dry(make_context(flags).profile());
        Session session(dry, flags, images);
        session.step();
        session.step();
        session.evaluate();
        summary.peak_bytes_predicted = dry.memory().statistics().peak_allocated;
        summary.peak_bytes_reserved_predicted = dry.memory().statistics().peak_reserved;
        summary.parameters = session.parameters();
    }
    fmt::print("{} parameters, {} images; predicted peak {} bytes\n", summary.parameters, images.size(),
               summary.peak_bytes_predicted);
    if (flags.device != "dry") {
        program::Interrupt interrupt;  // before the context's threads
        Context context = make_context(flags);
        Session session(context, flags, images);
        program::Progress progress(session.steps(), "images");
        program::Throughput throughput(session.steps());
        program::RecentMean loss(100);
        Clock::time_point start = Clock::now();
        const std::int64_t ahead = context.gpu() ? 1 : 0;  // what a GPU does meanwhile
        const auto look = [&](std::int64_t leave) {        // waits for the device
            const std::vector<optim::StepResult> results = session.results(leave);
            if (results.empty()) return;
            for (const optim::StepResult& result : results) loss.add(result.loss);
            const auto steps = static_cast<std::int64_t>(results.size());
            const auto images_done = static_cast<double>(flags.batch * steps);
            throughput.add(images_done, std::chrono::duration<double>(Clock::now() - start).count());
            summary.steps += steps;
            const MemoryStatistics memory = context.memory().statistics();
            progress.show({summary.steps, *loss.mean(), throughput.rate(), memory.allocated, memory.peak_allocated});
            start = Clock::now();
        };
        while (session.steps_done() < session.steps() && !interrupt.requested()) {
            session.step();
            const bool full = session.unread() == Session::kKeptResults;
            if (full || throughput.warming_up() || progress.due(session.steps_done() - ahead)) look(ahead);
        }
        if (summary.steps < session.steps_done()) look(0);
        progress.end();
        const auto score = session.evaluate();
        fmt::print("validation loss {:.4f}, accuracy {:.2f}%\n", score.loss, 100 * score.accuracy);
        summary.val_loss = score.loss;
        summary.val_accuracy = score.accuracy;
        summary.train_loss = loss.mean();
        summary.rate = throughput.rate();
        summary.state_sha256 = session.state_sha256();
        program::take_peaks(summary, context);
    }
    summary.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    if (!flags.json.empty()) program::write_summary(flags.json, summary);
}

}  // namespace
}  // namespace headroom::mnist

int main(int argc, char** argv) {
    CLI::App app("Trains a multi-layer perceptron on MNIST.", "train_mnist");
    headroom::mnist::Flags flags;
    headroom::mnist::add_flags(app, flags);
    return headroom::program::run(app, argc, argv, [&] { headroom::mnist::main_program(flags); });
}
