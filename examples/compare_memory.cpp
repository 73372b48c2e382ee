// Trains the same GPT for a few steps once per way of recomputing, and draws the memory of all of them to one scale in
// one HTML page. The trainings are real; their losses are the same to the last bit, which it checks. With --device dry
// they are rehearsed.
#include <cstdio>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <headroom/core/rehearsal.hpp>
#include <headroom/examples/gpt/program.hpp>
#include <headroom/examples/program/options.hpp>
#include <headroom/examples/program/outcome.hpp>
#include <headroom/examples/program/output_file.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/memory/history/html_report.hpp>
#include <headroom/training/say.hpp>
#include <headroom/training/session.hpp>

namespace headroom {
namespace {

constexpr std::size_t kEvents = 1'000'000;

struct Run {
    memory::MemorySnapshot snapshot;
    double loss = 0;
};

Run train(const program::Flags& flags, const program::Program& program) {
    Run run;
    const auto steps = [&](Context& context) {
        context.memory().start_history(kEvents);
        training::Session session(context, program.task, program::trainer_options(flags, program));
        for (std::int64_t i = 0; i < flags.steps; ++i) session.step();
        for (const optim::StepResult& result : session.results()) run.loss = result.loss;
        run.snapshot = context.memory().snapshot();
    };
    rehearse(program::profile_of(flags), steps);
    if (flags.device == "dry") return run;
    Context context = program::make_context(flags);
    steps(context);
    return run;
}

void main_program(gpt::GptFlags flags, const std::vector<std::string>& techniques, const std::string& out) {
    program::expect_writable("--out", out);
    const program::Program program = gpt::text_program(flags);
    program::expect_apart({{"--out", out}}, program.reads);
    program::expect_apart({{"--out", out}}, {{"--resume", flags.resume()}});
    std::vector<Run> runs;
    for (const std::string& technique : techniques) {
        flags.recompute = technique;
        const Run& run = runs.emplace_back(train(flags, program));
        const MemoryStatistics& memory = run.snapshot.statistics;
        fmt::print("--recompute {:<7} peak {}, reserved {}{}\n", technique, training::size_text(memory.peak_allocated),
                   training::size_text(memory.peak_reserved),
                   flags.device == "dry" ? "" : fmt::format(", loss {:.6f}", run.loss));
        std::fflush(stdout);
        if (run.loss != runs.front().loss) {
            throw Error(fmt::format("--recompute {} changed the loss to {:.9f} from {:.9f}, which it must not",
                                    technique, run.loss, runs.front().loss));
        }
    }
    std::vector<memory::NamedSnapshot> named;
    for (std::size_t i = 0; i < techniques.size(); ++i) {
        named.push_back({"--recompute " + techniques[i], &runs[i].snapshot});
    }
    memory::write_html_report(named, out);
    training::say("written to {}", out);
}

}  // namespace
}  // namespace headroom

int main(int argc, char** argv) {
    CLI::App app("Draws the memory of a GPT's training for several ways of recomputing.", "compare_memory");
    headroom::gpt::GptFlags flags;
    flags.steps = 3;
    headroom::gpt::add_flags(app, flags);
    for (const char* other : {"--recompute",   "--checkpoint",  "--validate-every", "--sample",
                              "--temperature", "--top-k",       "--memory-history", "--save-every",
                              "--save",        "--best",        "--stop-after",     "--json",
                              "--log",         "--tensorboard", "--pictures",       "--keep-batch",
                              "--split-batch", "--explain",     "--save-plan",      "--plan",
                              "--budget"}) {
        app.remove_option(app.get_option(other));
    }
    std::vector<std::string> techniques{"none", "mlp", "blocks"};
    std::string out;
    headroom::program::add_option(app, "--out", out, "file for the page")->required();
    headroom::program::add_option(app, "--techniques", techniques, "values of --recompute, separated by commas")
        ->delimiter(',')
        ->check(headroom::program::one_of({"none", "cheap", "mlp", "blocks"}))
        ->capture_default_str();
    return headroom::program::run(app, argc, argv, [&] { headroom::main_program(flags, techniques, out); });
}
