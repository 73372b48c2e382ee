#include <headroom/examples/cli/flags.hpp>

#include <algorithm>

#include <fmt/format.h>

#include <headroom/examples/cli/options.hpp>
#include <headroom/examples/cli/processes.hpp>
#include <headroom/examples/cli/sizes.hpp>
#include <headroom/training/history_file.hpp>

namespace headroom::cli {

namespace {

/// Of a process that is not the first, which writes the files of all.
void leave_out_files(Flags& flags) {
    for (std::string* file : {&flags.json, &flags.trainer.log, &flags.trainer.memory_history,
                              &flags.trainer.tensorboard, &flags.pictures, &flags.save_plan})
        file->clear();
}

void add_device(App& app, Flags& flags) {
    add_option(app, "--device", flags.device, "cpu, cuda, or dry, which predicts the memory without computing")
        .check(one_of({"cpu", "cuda", "dry"}))
        .show_default();
    flags.gpu.add(app);
    add_option(app, "--threads", flags.threads,
               "CPU threads; 0: one per processor, divided among the processes of a machine")
        .check(whole(0, 1024));
    add_option(
        app, "--ranks", flags.ranks,
        "with --device dry: predict the memory of each of this many processes, which share a step's micro-batches")
        .check(whole(1, 1 << 20));
    add_timeouts(app, flags.timeouts);
    add_option(app, "--memory-limit", flags.memory_limit,
               "largest amount of device memory to take, such as 512MiB or 1.5GB; 0: all of it")
        .check(bytes());
    const Option budget = add_option(app, "--budget", flags.trainer.budget,
                                     "memory that the training may reserve, such as 512MiB or 6GB; a plan chooses the "
                                     "micro-batch and what backward recomputes, for the fastest step that fits")
                              .check(bytes())
                              .excludes("--memory-limit");
    add_option(app, "--plan", flags.plan, "plan file that --save-plan wrote for the same training").excludes(budget);
    add_flag(app, "--explain", flags.explain, "print what the plan keeps and what it recomputes, module by module");
    add_option(app, "--save-plan", flags.save_plan, "file to save the plan to");
    const Option costs =
        add_option(app, "--costs", flags.costs, "file that --calibrate wrote; its measurements predict times");
    add_option(app, "--calibrate", flags.calibrate,
               "before training, time each op in a few steps and write the times to this file; a plan then uses them")
        .excludes(costs);
    add_flag(app, "--keep-batch", flags.keep_batch,
             "the plan keeps the micro-batch; without --budget it may use all of a GPU's memory");
    add_flag(app, "--split-batch", flags.split_batch,
             "the plan may use smaller micro-batches, even where layers normalise by the statistics of one; without "
             "--budget it may use all of a GPU's memory")
        .excludes("--keep-batch");
}

void add_tuning(App& app, Flags& flags) {
    add_flag(app, "--fit-scratch", flags.trainer.fit_scratch,
             "on a GPU, rehearse to find a larger --scratch-budget that does not raise the peak; a resumed training "
             "keeps it");
    add_flag(app, "--graphs", flags.compute.graphs,
             "on a GPU, launch each micro-batch and each step as one CUDA graph: faster for small models, with the "
             "same bits");
    add_option(app, "--tune", flags.tuning_file,
               "on a GPU, try several algorithms for each product and attention; a file, if given, keeps the choices "
               "for later runs")
        .type_name("[FILE]")
        .value_optional();
    add_flag(app, "--libraries", flags.libraries,
             "on a GPU, print at the end which library computed products and attention, and what it refused");
}

/// Others give other bits: a training that is resumed has the same.
void add_compute(App& app, Flags& flags) {
    add_flag(app, "--tf32", flags.compute.tf32, "on a GPU, compute f32 products in TF32, which is faster");
    add_flag(
        app, "--nondeterministic", [&flags] { flags.compute.deterministic = false; },
        "on a GPU, allow bits to differ between runs; gradients of attention then take less scratch");
    add_option(app, "--scratch-budget", flags.compute.scratch_budget,
               "scratch memory that an op may take to run faster")
        .check(bytes())
        .show_default();
}

void add_step(App& app, Flags& flags) {
    training::TrainerOptions& trainer = flags.trainer;
    const auto count = whole(1, 1 << 20);
    const auto none_or_more = whole(0, std::int64_t{1} << 40);
    const auto not_negative = real(0, 1e30);
    add_option(app, "--seed", flags.seed, "seed of initialisation, data order and all other random numbers")
        .check(natural())
        .show_default();
    add_option(app, "--dtype", flags.dtype, "dtype of matrix products")
        .check(one_of({"f32", "bf16", "f16"}))
        .show_default();
    add_option(app, "--batch", trainer.batch, "samples in a micro-batch").check(count).show_default();
    add_option(app, "--accumulate", trainer.accumulate, "micro-batches in a step").check(count).show_default();
    add_option(app, "--shard", flags.shard,
               "what is sharded across processes: nothing, the optimizer's state, or the gradients as well, which "
               "gives the same bits with any number of processes")
        .check(one_of({"none", "state", "gradients"}))
        .show_default();
    add_option(app, "--lr", trainer.schedule.peak, "peak learning rate").check(not_negative).show_default();
    add_option(app, "--min-lr", flags.min_lr,
               fmt::format("learning rate at the end ({})",
                           flags.min_lr < 0 ? "a tenth of --lr" : fmt::to_string(flags.min_lr)))
        .check(not_negative);
    add_option(app, "--warmup", trainer.schedule.warmup_steps, "steps of linear warm-up")
        .check(none_or_more)
        .show_default();
    add_option(app, "--weight-decay", flags.weight_decay, "weight decay of matrices")
        .check(not_negative)
        .show_default();
    add_option(app, "--optimizer", flags.optimizer, "adamw or sgd")
        .check(one_of(training::optimizer_names()))
        .show_default();
    add_option(app, "--beta2", flags.beta2, "second beta of AdamW").check(real(0, 0.999999)).show_default();
    add_option(app, "--momentum", flags.momentum, "momentum of SGD").check(real(0, 0.999999)).show_default();
    add_option(app, "--max-grad-norm", trainer.clip, "clip gradient norms above this; 0: no clipping")
        .check(not_negative)
        .show_default();
    add_option(
        app, "--ema-decay", trainer.average,
        "decay of a moving average of the weights, such as 0.999, which validation uses instead of them; 0: no average")
        .check(real(0, 0.999999));
    add_option(app, "--validate-every", trainer.validate_every, "validate every this many steps, not only at the end")
        .check(none_or_more);
    add_option(app, "--patience", trainer.patience,
               "stop after this many validations in a row without a lower loss; 0: never")
        .check(none_or_more)
        .needs("--validate-every");
}

void add_recompute(App& app, Flags& flags) {
    std::string what = "what backward recomputes";
    std::vector<std::string> names;
    for (const nn::RecomputeWay& each : flags.trainer.recomputes) {
        what += fmt::format("{} {} ({})", names.empty() ? ":" : ",", each.name, each.what);
        names.push_back(each.name);
    }
    add_option(app, "--recompute", flags.trainer.recompute, what).check(one_of(names)).show_default();
    refuse_old(app, "--checkpoint", "--recompute " + names.back());
}

void add_files(App& app, Flags& flags) {
    training::TrainerOptions& trainer = flags.trainer;
    add_option(app, "--memory-history", trainer.memory_history,
               "file for the memory history: .html for a page, .pickle for PyTorch's memory viewer, .json for Perfetto")
        .check({training::history_file_problem});
    const Option save = add_option(app, "--save", trainer.save, "checkpoint file to write at the end");
    add_option(app, "--save-every", trainer.save_every, "also save every this many steps")
        .check(whole(0, std::int64_t{1} << 40))
        .needs(save);
    add_option(app, "--best", trainer.best,
               "checkpoint file to write whenever the validation loss is the lowest so far");
    add_option(app, "--stop-after", trainer.stop_after, "stop after this many steps, as Ctrl-C does")
        .check(whole(0, std::int64_t{1} << 40));
    add_option(app, "--json", flags.json, "JSON file for the results of the run");
    add_option(app, "--log", trainer.log, "file for the figures of every step, one JSON object per line");
    add_option(app, "--tensorboard", trainer.tensorboard, "folder for the same figures as TensorBoard event files");
    add_flag(app, "--changed-data", trainer.changed_data,
             "resume even if the number of samples has changed; the training continues in the same epoch")
        .needs("--resume");
    add_option(app, "--pictures", flags.pictures,
               "folder for pictures: the losses as SVG, the program's drawings as PNG");
}

}  // namespace

std::optional<Dtype> Flags::autocast() const {
    if (dtype == "bf16") return Dtype::bf16;
    if (dtype == "f16") return Dtype::f16;
    return std::nullopt;
}

void Flags::note(const std::string& line) const {
    if (std::ranges::find(*notes, line) == notes->end()) notes->push_back(line);
}

void add_flags(App& app, Flags& flags) {
    flags.trainer.name = app.name();
    flags.stored = StoredFlags::add(app);
    add_step(app, flags);
    add_compute(app, flags);
    if (flags.trainer.recomputes.size() > 1) add_recompute(app, flags);
    const std::size_t of_training = app.options().size();
    add_device(app, flags);
    add_tuning(app, flags);
    add_files(app, flags);
    const std::vector<Option> all = app.options();
    for (std::size_t i = of_training; i < all.size(); ++i) all[i].of_this_run();
    app.when_parsed([&app, &flags] {
        flags.compute.tune = app.given("--tune");
        if (world().rank() > 0) leave_out_files(flags);
        flags.gpu.check(app, flags.device);
        if (flags.device == "dry" && !flags.calibrate.empty())
            throw WrongUsage("--calibrate measures, but --device dry computes nothing");
        if (app.given("--ranks") && flags.device != "dry")
            throw WrongUsage("--ranks is for --device dry; mpirun -np N starts N processes");
        if (world().ranks() > 1 && flags.device == "dry")
            throw WrongUsage("--device dry is for one process, which predicts --ranks N without mpirun");
        if ((world().ranks() > 1 || flags.ranks > 1) && flags.compute.graphs)
            throw WrongUsage(
                "--graphs is for one process: several exchange data within a step, which a graph can't do");
        if (world().ranks() > 1 && !flags.calibrate.empty())
            throw WrongUsage("--calibrate works in one process; give its file to several by --costs");
        for (const auto& [name, given] :
             {std::pair{"--fit-scratch", flags.trainer.fit_scratch}, {"--graphs", flags.compute.graphs}})
            if (given && flags.device != "cuda" && !flags.gpu.described())
                throw WrongUsage(fmt::format("{} is for --device cuda, or dry with --gpu or --gpu-memory", name));
        flags.recompute_given = flags.trainer.recomputes.size() > 1 && flags.stored->given("recompute");
        for (const char* name : {"--budget", "--plan", "--keep-batch", "--split-batch"}) {
            if (!app.given(name)) continue;
            if (flags.trainer.budget == 0 && name == std::string_view("--budget"))
                throw WrongUsage("--budget 0 leaves no memory to train in");
            // A training that is resumed brings the way that it was begun with, which the plan replaces.
            if (flags.recompute_given)
                throw WrongUsage(fmt::format("{} excludes --recompute: the plan decides what is recomputed", name));
            flags.trainer.recompute = flags.trainer.recomputes.front().name;
        }
        const bool gpu = flags.device == "cuda" || flags.gpu.described();
        for (const auto& [name, given] :
             {std::pair{"--keep-batch", flags.keep_batch}, {"--split-batch", flags.split_batch}})
            if (given && flags.trainer.budget == 0 && !gpu)
                throw WrongUsage(fmt::format("{} needs --budget, except on a GPU", name));
        for (const auto& [name, given] :
             {std::pair{"--explain", flags.explain}, {"--save-plan", !flags.save_plan.empty()}})
            if (given && flags.trainer.budget == 0 && !flags.keep_batch && !flags.split_batch)
                throw WrongUsage(
                    fmt::format("{} needs --budget, --keep-batch or --split-batch, which make a plan", name));
        if (flags.libraries && flags.device != "cuda") throw WrongUsage("--libraries is for --device cuda");
        if (flags.floor() > flags.trainer.schedule.peak)
            throw WrongUsage(fmt::format("--min-lr {} is above --lr {}; the learning rate falls from --lr to --min-lr",
                                         flags.min_lr, flags.trainer.schedule.peak));
    });
}

void add_workers(App& app, int& workers, const std::string& what) {
    add_option(app, "--workers", workers, what).check(whole(0, 1024)).show_default().of_this_run();
}

void add_from(App& app, std::string& from, const std::string& what) {
    add_option(app, "--from", from, what).excludes("--resume").of_this_run();
}

Context make_context(const Flags& flags, std::size_t gpu_in_use) {
    const ContextOptions options{.threads = flags.threads,
                                 .memory_limit = flags.memory_limit,
                                 .gpu_reserve = flags.gpu.reserve,
                                 .gpu_in_use = gpu_in_use,
                                 .seed = flags.seed,
                                 .compute = flags.compute,
                                 .tuning_file = flags.tuning_file};
    return flags.device == "cuda" ? world().cuda(options) : world().context(options);
}

Profile profile_of(const Flags& flags) {
    if (!flags.gpu.described()) {
        Profile profile = make_context(flags).profile();
        if (flags.ranks > 1) profile.ranks = flags.ranks;
        return profile;
    }
    Profile profile = flags.gpu.profile();
    profile.memory_limit = flags.memory_limit;
    profile.seed = flags.seed;
    profile.compute = flags.compute;
    if (flags.ranks > 1) profile.ranks = flags.ranks;
    return profile;
}

}  // namespace headroom::cli
