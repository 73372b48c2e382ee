// What a step takes on a GPU with its batch there already, with the batch copied in the order of the kernels, and with
// a feed, which copies it beside them. One JSON object on standard output.
//   uploads --megabytes 64 --products 8
#include <chrono>
#include <cstdio>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <headroom/core/context.hpp>
#include <headroom/core/ops/matmul.hpp>
#include <headroom/data/feed.hpp>
#include <headroom/kernels/device/cuda_device.hpp>

namespace {

using namespace headroom;

/// Milliseconds of one step, by the clock, over `steps` that are queued without a wait between them.
template <class Step>
double time(Context& context, int steps, Step step) {
    for (int i = 0; i < 3; ++i) step();
    context.gpu()->synchronize();
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < steps; ++i) step();
    context.gpu()->synchronize();
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count() / steps;
}

void run(std::int64_t megabytes, int products, int steps) {
    constexpr std::int64_t kWidth = 4096;
    const Shape shape{megabytes * (1 << 20) / (kWidth * static_cast<std::int64_t>(sizeof(float))), kWidth};
    const std::vector<float> batch(static_cast<std::size_t>(shape.numel()), 1.0f);
    Context context = Context::cuda();
    const NoGradGuard no_grad(context);
    const Tensor weight = context.from_host(std::vector<float>(kWidth * kWidth, 1e-4f), {kWidth, kWidth});
    const auto compute = [&](Tensor x) {
        for (int i = 0; i < products; ++i) x = matmul(x, weight);
    };
    const Tensor there = context.from_host(batch, shape);
    data::Feed feed(context);
    const double resident = time(context, steps, [&] { compute(there); });
    const double copies = time(context, steps, [&] { context.from_host(batch, shape); });
    const double in_order = time(context, steps, [&] { compute(context.from_host(batch, shape)); });
    const double fed = time(context, steps, [&] {
        auto [x] = feed.upload({{batch, shape}});
        compute(std::move(x));
    });
    const nlohmann::ordered_json result{{"megabytes", megabytes},
                                        {"products", products},
                                        {"milliseconds",
                                         {{"compute alone", resident},
                                          {"copy alone", copies},
                                          {"copy in the order of the kernels", in_order},
                                          {"copy by a feed", fed}}}};
    std::puts(result.dump().c_str());
}

}  // namespace

int main(int argc, char** argv) {
    std::int64_t megabytes = 64;
    int products = 8, steps = 50;
    CLI::App app("Times steps whose batches are copied to the GPU meanwhile, or not.", "uploads");
    app.add_option("--megabytes", megabytes, "megabytes in a batch")
        ->check(CLI::Range(1, 1 << 14))
        ->capture_default_str();
    app.add_option("--products", products, "matrix products in a step")
        ->check(CLI::Range(1, 1000))
        ->capture_default_str();
    app.add_option("--steps", steps)->check(CLI::Range(1, 100000))->capture_default_str();
    CLI11_PARSE(app, argc, argv);
    try {
        run(megabytes, products, steps);
    } catch (const std::exception& error) {
        std::fputs(fmt::format("uploads: {}\n", error.what()).c_str(), stderr);  // fmt::print would throw
        return 1;
    }
    return std::fflush(stdout) == 0 ? 0 : 1;
}
