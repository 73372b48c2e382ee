// The examples of files and dist headers: each is compiled as the header shows it.
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <headroom/data/data_loader.hpp>
#include <headroom/data/text_windows.hpp>
#include <headroom/dist/nccl.hpp>
#include <headroom/dist/tcp.hpp>
#include <headroom/dist/threads.hpp>
#include <headroom/dist/world.hpp>
#include <headroom/files/checkpoint.hpp>
#include <headroom/files/model_config.hpp>
#include <headroom/files/safetensors.hpp>
#include <headroom/files/safetensors_dtypes.hpp>
#include <headroom/files/state_hash.hpp>
#include <headroom/files/text_file.hpp>
#include <headroom/optim/adamw.hpp>
#include <headroom/optim/gradient_accumulator.hpp>

namespace header_examples {
namespace header_examples_files_test {

using namespace headroom;

void train(Context&) {}

void checkpoint_example(Context& context, Parameters& parameters, optim::GradientAccumulator& accumulator,
                        optim::AdamW& optimizer, data::DataLoader<data::TextWindows>& loader,
                        const files::SafetensorsFile& file) {
    const files::CheckpointParts parts{parameters, optimizer, accumulator, loader};
    files::save_checkpoint("run.safetensors", context, parts, {{"best", "1.75"}});
    const StateValues mine = files::load_checkpoint("run.safetensors", context, parts);
    files::save_parameters("gpt.safetensors", parameters);
    files::load_parameters(files::SafetensorsFile("gpt.safetensors"), parameters);
    const files::LoadReport report = files::load_parameters(file, parameters, {.partial = true});
    for (const std::string& name : report.missing) fmt::print("kept as initialised: {}\n", name);
    files::load_parameters(files::SafetensorsFile("resnet50.safetensors"), parameters, {.skip_other_shapes = true});
}

void model_config_example(const files::SafetensorsFile& file, std::int64_t width) {
    const files::ModelConfig config(file);
    const std::optional<std::int64_t> heads = config.count("n_head");
    config.expect_count("n_embd", width);
    config.expect("activation_function", {"gelu_new"});
}

void safetensors_example(Context& context, Tensor weight) {
    files::write_safetensors("model.safetensors", context, {{"weight", weight.array()}}, {{"made_by", "me"}});
    files::SafetensorsFile file("model.safetensors");
    const files::SafetensorsEntry* entry = file.find("weight");
    file.copy_to(*entry, context, weight.array());
}

void safetensors_dtypes_example() {
    files::safetensors_name(Dtype::bf16);
    files::safetensors_dtype("F8_E4M3");
    files::safetensors_bits("F8_E4M3");
}

void state_hash_example(Context& context, Parameters& parameters, optim::AdamW& optimizer) {
    std::string hash = files::state_sha256(context, {parameters, optimizer});
}

void text_file_example(const std::string& text) { files::write_text("figures.json", "the summary", text); }

void nccl_example(std::shared_ptr<Group> hosts) {
    std::shared_ptr<Group> group = dist::over_nccl(hosts);
    Context context = Context::cuda(0, {.group = group});
}

void tcp_example() {
    std::shared_ptr<Group> group = dist::hosts_over_tcp({.rank = 1, .ranks = 4, .address = "node0:29500"});
    Context context = Context::cpu({.group = group});
}

void threads_example() {
    dist::run_ranks(3, [](const std::shared_ptr<Group>& group) {
        Context context = Context::cpu({.threads = 1, .group = group});
        train(context);
    });
}

void world_example() {
    dist::World world = dist::World::join();
    Context context = world.context({.seed = 1337});
    if (world.rank() == 0) fmt::print("{} processes\n", world.ranks());
}

TEST(HeaderExamples, OfFilesAndDistRun) {
    Context context = Context::cpu({.threads = 1, .seed = 1});
    Parameters parameters(context);
    optim::AdamW optimizer(parameters);
    safetensors_dtypes_example();
    state_hash_example(context, parameters, optimizer);
    threads_example();
    world_example();
}

}  // namespace header_examples_files_test
}  // namespace header_examples
