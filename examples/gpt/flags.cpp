#include <headroom/examples/gpt/flags.hpp>

#include <fmt/format.h>

#include <headroom/examples/gpt/history_file.hpp>
#include <headroom/examples/program/ranges.hpp>

namespace headroom::gpt {

std::optional<Dtype> GptFlags::autocast() const {
    if (dtype == "bf16") return Dtype::bf16;
    if (dtype == "f16") return Dtype::f16;
    return std::nullopt;
}

nn::GptOptions GptFlags::model(std::int64_t vocabulary) const {
    return {
        .vocabulary = vocabulary, .block = block, .layers = layers, .heads = heads, .width = width, .dropout = dropout};
}

void add_flags(CLI::App& app, GptFlags& flags) {
    const auto count = program::whole(1, 1 << 20);
    const auto none_or_more = program::whole(0, std::int64_t{1} << 40);
    const auto not_negative = program::real(0, 1e30);
    app.add_option("--data", flags.data, "text file to train on")->required();
    app.add_option("--layers", flags.layers, "number of blocks")
        ->check(program::whole(1, 10'000))
        ->capture_default_str();
    app.add_option("--heads", flags.heads, "attention heads; divide the width")->check(count)->capture_default_str();
    app.add_option("--width", flags.width, "width of the model")->check(count)->capture_default_str();
    app.add_option("--block", flags.block, "length of a sequence in tokens")->check(count)->capture_default_str();
    app.add_option("--batch", flags.batch, "sequences in a micro-batch")->check(count)->capture_default_str();
    app.add_option("--accumulate", flags.accumulate, "micro-batches in a step")->check(count)->capture_default_str();
    app.add_option("--steps", flags.steps, "optimizer steps")->check(none_or_more)->capture_default_str();
    app.add_option("--lr", flags.lr, "peak learning rate")->check(not_negative)->capture_default_str();
    app.add_option("--min-lr", flags.min_lr, "learning rate at the end (a tenth of --lr)")->check(not_negative);
    app.add_option("--warmup", flags.warmup, "steps of linear warm-up")->check(none_or_more)->capture_default_str();
    app.add_option("--weight-decay", flags.weight_decay, "of matrices")->check(not_negative)->capture_default_str();
    app.add_option("--beta2", flags.beta2, "of AdamW")->check(program::real(0, 0.999999))->capture_default_str();
    app.add_option("--clip", flags.clip, "largest gradient norm; 0: none")->check(not_negative)->capture_default_str();
    app.add_option("--dropout", flags.dropout, "probability")->check(program::real(0, 0.99))->capture_default_str();
    app.add_option("--seed", flags.seed, "of initialisation, data order and sampling")
        ->check(program::natural())
        ->capture_default_str();
    app.add_option("--device", flags.device, "cpu, cuda, or dry: predict the memory of a step without computing")
        ->check(CLI::IsMember({"cpu", "cuda", "dry"}))
        ->capture_default_str();
    app.add_option("--gpu-memory", flags.gpu_memory,
                   "with --device dry: predict for a GPU with so many bytes, instead of this machine's processor")
        ->check(program::natural());
    app.add_option("--dtype", flags.dtype, "of matrix products")
        ->check(CLI::IsMember({"f32", "bf16", "f16"}))
        ->capture_default_str();
    app.add_option("--recompute", flags.recompute,
                   "what backward computes again: none, cheap (norms and the like), mlp (the feed-forward part "
                   "as well), blocks (all but the borders of each block)")
        ->check(CLI::IsMember({"none", "cheap", "mlp", "blocks"}))
        ->capture_default_str();
    app.add_flag("--checkpoint", flags.checkpoint, "the same as --recompute blocks");
    app.add_option("--memory-limit", flags.memory_limit,
                   "limit of the memory that is taken from the device, in bytes; 0: all of it")
        ->check(program::natural());
    app.add_option("--memory-history", flags.memory_history,
                   "file for the memory's history: .html, a page; .pickle, for PyTorch's memory viewer; .json, for "
                   "Perfetto")
        ->check(history_file_problem);
    app.add_option("--save", flags.save, "file to save the training to at the end");
    app.add_option("--resume", flags.resume, "file to continue from");
    app.add_option("--stop-after", flags.stop_after, "end after this many steps, as Ctrl-C does")->check(none_or_more);
    app.add_option("--sample", flags.sample, "tokens of text to print at the end")->check(none_or_more);
    app.add_option("--temperature", flags.temperature, "of sampling; 0: the likeliest")
        ->check(not_negative)
        ->capture_default_str();
    app.add_option("--top-k", flags.top_k, "sample from the k likeliest; 0: from all")->check(none_or_more);
    app.add_option("--threads", flags.threads, "0: one per processor")->check(program::whole(0, 1024));
    app.add_flag("--bytes", flags.bytes, "tokens are bytes, of any file");
    app.add_option("--json", flags.json, "file for the figures of the run");
    app.callback([&flags] {
        if (flags.gpu_memory > 0 && flags.device != "dry") {
            throw CLI::ValidationError(
                "--gpu-memory is for --device dry; a real GPU's memory is limited by --memory-limit");
        }
        if (flags.width % flags.heads == 0) return;
        throw CLI::ValidationError(fmt::format("--heads {} does not divide --width {}", flags.heads, flags.width));
    });
}

}  // namespace headroom::gpt
