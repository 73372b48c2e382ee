#include <headroom/kernels/device/gpu_model.hpp>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <tuple>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <headroom/memory/error.hpp>

namespace headroom::kernels {

namespace {

constexpr double kTera = 1e12, kGiga = 1e9;

/// The total that CUDA reports, as messages of PyTorch quote it.
constexpr std::size_t gib(double count) { return static_cast<std::size_t>(count * (std::size_t{1} << 30)); }
constexpr std::size_t kib(std::size_t count) { return count << 10; }

/// Rates: NVIDIA's white papers "Turing GPU Architecture", "GA102 GPU Architecture", "Ada GPU Architecture", "A100
/// Tensor Core GPU Architecture", "H100 Tensor Core GPU Architecture", and the data sheets of T4 and H200. GeForce
/// cards sum products of halves in f32 at half the rate of sums in f16. Links: PCI Express 3, 4 and 5 with 16 lanes.
/// Shared memory: "CUDA C++ Programming Guide", table of technical specifications by compute capability.
const std::vector<GpuModel>& known() {
    static const std::vector<GpuModel> models{
        {"RTX 2080 Ti",
         gib(10.76),
         75,
         68,
         kib(64),
         {13.4 * kTera, 13.4 * kTera, 53.8 * kTera, 616 * kGiga, 16 * kGiga}},
        {"T4", gib(14.56), 75, 40, kib(64), {8.1 * kTera, 8.1 * kTera, 65 * kTera, 320 * kGiga, 16 * kGiga}},
        {"RTX 3060", gib(11.76), 86, 28, kib(99), {12.7 * kTera, 12.7 * kTera, 25.3 * kTera, 360 * kGiga, 32 * kGiga}},
        {"RTX 3090", gib(23.69), 86, 82, kib(99), {35.6 * kTera, 35.6 * kTera, 71 * kTera, 936 * kGiga, 32 * kGiga}},
        {"RTX 4090",
         gib(23.64),
         89,
         128,
         kib(99),
         {82.6 * kTera, 82.6 * kTera, 165.2 * kTera, 1008 * kGiga, 32 * kGiga}},
        {"A100 40GB",
         gib(39.39),
         80,
         108,
         kib(163),
         {19.5 * kTera, 156 * kTera, 312 * kTera, 1555 * kGiga, 32 * kGiga}},
        {"A100 80GB",
         gib(79.15),
         80,
         108,
         kib(163),
         {19.5 * kTera, 156 * kTera, 312 * kTera, 2039 * kGiga, 32 * kGiga}},
        {"H100", gib(79.10), 90, 132, kib(227), {67 * kTera, 494 * kTera, 989 * kTera, 3350 * kGiga, 64 * kGiga}},
        {"H200", gib(139.72), 90, 132, kib(227), {67 * kTera, 494 * kTera, 989 * kTera, 4800 * kGiga, 64 * kGiga}},
    };
    return models;
}

std::string plain(std::string_view name) {
    std::string result;
    for (const char c : name) {
        if (c != ' ' && c != '-' && c != '_') result += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
    return result;
}

}  // namespace

std::span<const GpuModel> gpu_models() { return known(); }

const GpuModel& gpu_model(std::string_view name) {
    std::vector<std::string> names;
    for (const GpuModel& model : known()) {
        if (plain(model.name) == plain(name)) return model;
        names.push_back(model.name);
    }
    throw Error(fmt::format("unknown GPU \"{}\"; the known ones are {}", name, fmt::join(names, ", ")));
}

const GpuModel& nearest_gpu(int capability, int multiprocessors, std::size_t memory_bytes) {
    const auto distance = [&](const GpuModel& model) {
        const auto bytes = std::minmax(model.memory_bytes, memory_bytes);
        return std::tuple(std::abs(model.capability - capability), std::abs(model.multiprocessors - multiprocessors),
                          bytes.second - bytes.first);
    };
    return *std::ranges::min_element(known(), {}, distance);
}

std::string capability_text(int capability) { return fmt::format("{}.{}", capability / 10, capability % 10); }

}  // namespace headroom::kernels
