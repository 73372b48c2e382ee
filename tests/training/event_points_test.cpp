// The points that TensorBoard draws of a training: those of its steps and validations, each once, also where it ended
// later than its last save and was resumed.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <headroom/tests/data/scratch.hpp>
#include <headroom/tests/training/one_layer_task.hpp>
#include <headroom/training/event_file.hpp>
#include <headroom/training/trainer.hpp>

namespace headroom::training {
namespace event_points_test {

/// By tag: values by step.
using Points = std::map<std::string, std::map<std::int64_t, float>>;

/// Reads protocol buffers from the front.
class Message {
  public:
    explicit Message(std::string_view bytes) : bytes_(bytes) {}

    bool empty() const { return bytes_.empty(); }
    template <class Number>
    Number number() {
        Number value{};
        std::memcpy(&value, take(sizeof(value)).data(), sizeof(value));
        return value;
    }
    std::uint64_t varint() {
        std::uint64_t value = 0;
        for (int shift = 0;; shift += 7) {
            const auto byte = static_cast<unsigned char>(take(1)[0]);
            value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
            if (byte < 0x80) return value;
        }
    }
    std::string_view bytes() { return take(varint()); }
    std::string_view take(std::size_t count) {
        if (count > bytes_.size()) throw std::runtime_error("an event is cut");
        const std::string_view taken = bytes_.substr(0, count);
        bytes_.remove_prefix(count);
        return taken;
    }

  private:
    std::string_view bytes_;
};

/// As TensorBoard does: a restart takes away the points from its step on.
void add_event(Message event, Points& points) {
    std::int64_t step = 0;
    while (!event.empty()) {
        switch (const std::uint64_t key = event.varint()) {
            case 1 << 3 | 1:
                event.number<double>();
                break;  // wall_time
            case 2 << 3:
                step = static_cast<std::int64_t>(event.varint());
                break;
            case 3 << 3 | 2:
                EXPECT_EQ(event.bytes(), "brain.Event:2");
                break;
            case 5 << 3 | 2: {
                Message summary(event.bytes());
                EXPECT_EQ(summary.varint(), 1u << 3 | 2u);
                Message scalar(summary.bytes());
                EXPECT_EQ(scalar.varint(), 1u << 3 | 2u);
                const std::string tag(scalar.bytes());
                EXPECT_EQ(scalar.varint(), 2u << 3 | 5u);
                EXPECT_TRUE(points[tag].emplace(step, scalar.number<float>()).second) << tag << " twice at " << step;
                break;
            }
            case 7 << 3 | 2:
                EXPECT_EQ(event.bytes(), std::string_view("\x08\x01"));
                for (auto& [tag, values] : points) values.erase(values.lower_bound(step), values.end());
                break;
            default:
                FAIL() << "key " << key;
        }
    }
}

Points points_in(const std::filesystem::path& folder, std::ptrdiff_t runs) {
    std::vector<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) files.push_back(entry.path());
    EXPECT_EQ(std::ssize(files), runs);
    std::ranges::sort(files);
    Points points;
    for (const std::filesystem::path& path : files) {
        std::ifstream stream(path, std::ios::binary);
        const std::string bytes{std::istreambuf_iterator<char>(stream), {}};
        for (Message records(bytes); !records.empty();) {
            const std::string length(records.take(sizeof(std::uint64_t)));
            EXPECT_EQ(records.number<std::uint32_t>(), masked_crc32c(length));
            const std::string_view event = records.take(Message(length).number<std::uint64_t>());
            EXPECT_EQ(records.number<std::uint32_t>(), masked_crc32c(event));
            add_event(Message(event), points);
        }
    }
    return points;
}

/// What the file of lines says.
Points points_of(const std::filesystem::path& log) {
    Points points;
    std::ifstream stream(log);
    for (std::string line; std::getline(stream, line);) {
        const nlohmann::json figures = nlohmann::json::parse(line);
        for (const auto& [name, figure] : figures.items())
            if (name != "step") points[name][figures["step"].get<std::int64_t>()] = figure.get<float>();
    }
    return points;
}

/// Its validations have figures.
class Figured final : public test::OneLayerTask {
  public:
    Figured(Parameters& parameters, std::int64_t) : test::OneLayerTask(parameters) {}
    Validation validate(const ProgressCallback&) override {
        const double loss = this->loss(batch()).sum().item();
        return {.loss = loss, .metrics = {{"accuracy", "accuracy", 1 / (1 + loss * loss)}}};
    }
    std::int64_t validation_batches() const override { return 1; }
};

TEST(EventPoints, OfAResumedTrainingAreThoseOfAWholeOne) {
    const test::ScratchFolder folder;
    const auto path = [&](const char* name) { return (folder.path() / name).string(); };
    const auto run = [](const TrainerOptions& options) {
        Context context = Context::cpu({.threads = 1, .seed = 5});
        Trainer(task<Figured>(), options).run(context);
    };
    TrainerOptions options{.steps = 24,
                           .validate_every = 6,
                           .handle_signals = false,
                           .print = false,
                           .log = path("whole.jsonl"),
                           .tensorboard = path("whole")};
    run(options);
    const Points whole = points_in(options.tensorboard, 1);
    EXPECT_EQ(whole, points_of(options.log));
    ASSERT_EQ(whole.size(), 5u);
    EXPECT_EQ(whole.at("train/loss").size(), 24u);
    EXPECT_EQ(whole.at("validation/accuracy").size(), 4u);
    options.log = path("parts.jsonl");
    options.tensorboard = path("parts");
    options.save = path("saved");
    TrainerOptions first = options;  // gets to a step that its file does not have
    first.stop_after = 9;
    run(first);
    std::filesystem::copy_file(path("saved"), path("after 9"));
    TrainerOptions lost = options;
    lost.resume = path("after 9");
    lost.stop_after = 6;
    run(lost);
    TrainerOptions rest = options;
    rest.resume = path("after 9");
    run(rest);
    EXPECT_EQ(points_in(options.tensorboard, 3), whole);
    EXPECT_EQ(points_of(options.log), whole);
    // One that had ended is only validated again.
    TrainerOptions ended = options;
    ended.resume = path("saved");
    run(ended);
    EXPECT_EQ(points_in(options.tensorboard, 3), whole);
    EXPECT_EQ(points_of(options.log), whole);
    ended.log = path("other.jsonl");
    for (const std::int64_t steps : {0, 20}) {  // in folders that do not have that validation
        ended.tensorboard = path("other") + std::to_string(steps);
        if (steps > 0) {
            TrainerOptions part = ended;
            part.resume = part.save = "";
            part.stop_after = steps;
            run(part);
        }
        run(ended);
        const Points points = points_in(ended.tensorboard, steps > 0 ? 2 : 1);
        ASSERT_TRUE(points.contains("validation/accuracy")) << steps;
        EXPECT_EQ(points.at("validation/accuracy").at(24), whole.at("validation/accuracy").at(24));
        EXPECT_EQ(std::ssize(points.at("validation/loss")), 1 + steps / 6);
    }
    TrainerOptions anew = options;  // in the same folder
    run(anew);
    EXPECT_EQ(points_in(options.tensorboard, 4), whole);
}

}  // namespace event_points_test
}  // namespace headroom::training
