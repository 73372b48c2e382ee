#include <headroom/examples/cli/gpu_flags.hpp>

#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <headroom/examples/cli/options.hpp>
#include <headroom/examples/cli/sizes.hpp>
#include <headroom/memory/error.hpp>

namespace headroom::cli {

namespace {

Check known_gpu() {
    const auto problem = [](std::string& name) -> std::string {
        try {
            gpu_model(name);
            return "";
        } catch (const Error& error) {
            return error.what();
        }
    };
    return {problem, "NAME"};
}

/// "with --device dry: ...: RTX 2080 Ti, T4".
std::string with_names(const std::string& what) {
    std::vector<std::string> names;
    for (const GpuModel& model : kernels::gpu_models()) names.push_back(model.name);
    return fmt::format("{}: {}", what, fmt::join(names, ", "));
}

}  // namespace

void GpuFlags::add(App& app) {
    add_option(app, "--gpu", name, with_names("with --device dry: predict for this GPU, which need not be present"))
        .check(known_gpu());
    add_option(
        app, "--gpu-memory", memory,
        "with --device dry: predict for a GPU with this much memory, otherwise like that of --gpu, or like an H100")
        .check(bytes());
    add_gpu_reserve(app, reserve);
}

void add_gpu_names(App& app, std::vector<std::string>& names, const std::string& what) {
    add_option(app, "--gpu", names, with_names(what)).delimiter(',').check(known_gpu());
}

void add_gpu_reserve(App& app, std::size_t& reserve) {
    add_option(app, "--gpu-reserve", reserve,
               "GPU memory to leave to CUDA, its libraries and the code of kernels; a training plans with the rest")
        .check(bytes())
        .show_default();
}

void GpuFlags::check(const App& app, const std::string& device) const {
    for (const char* flag : {"--gpu", "--gpu-memory"}) {
        if (app.given(flag) && device != "dry")
            throw WrongUsage(
                fmt::format("{} is for --device dry; a real GPU's memory is limited by --memory-limit", flag));
    }
    if (app.given("--gpu-memory") && memory == 0)
        throw WrongUsage("--gpu-memory must be above 0; leave it out to predict for this machine's processor");
    if (app.given("--gpu-reserve") && device != "cuda" && !described())
        throw WrongUsage("--gpu-reserve is for --device cuda, or dry with --gpu or --gpu-memory");
}

Profile GpuFlags::profile() const {
    GpuModel model = name.empty() ? Profile::gpu(memory).model : gpu_model(name);
    if (memory > 0) model.memory_bytes = memory;
    Profile profile = Profile::gpu(model);
    profile.reserve = reserve;
    return profile;
}

}  // namespace headroom::cli
