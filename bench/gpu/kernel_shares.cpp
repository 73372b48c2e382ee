// How near each kernel comes to what the GPU can do: bytes that it must move, per second, as a share of a
// device-to-device copy measured in the same run; products, convolutions and attention beside the fastest large
// product. Sizes are those of models, well beyond the caches (`shares::Sizes`). One JSON object on standard output, a
// row of it as soon as it is measured, so that "]}" completes what was stopped; progress on standard error. --small is
// for tests: tiny arrays, each kernel once, no figures.
//   kernel_shares [--small] [PATTERN]
#include <cstdio>
#include <string>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <headroom/bench/gpu/kernel_shares/bench.hpp>
#include <headroom/kernels/matmul/matmul.hpp>

namespace headroom::shares {

namespace {

using namespace kernels;

Ceilings ceilings_of(Bench& bench, const Sizes& sizes) {
    const auto count = static_cast<std::size_t>(sizes.bytes_of_copy);
    std::byte *from = bench.bytes(count), *to = bench.bytes(count);
    const double copy_rate =
        bench.ceiling("device copy", 2.0 * static_cast<double>(count), [&] { bench.device().copy(from, to, count); });
    bench.forget();
    const std::int64_t side = sizes.side_of_product;
    const View a = bench.array(Dtype::bf16, {side, side}), b = bench.array(Dtype::bf16, {side, side}),
               c = bench.array(Dtype::bf16, {side, side});
    const double product_rate = bench.ceiling("large product bf16", 2.0 * static_cast<double>(side * side * side),
                                              planned<MatmulPlan>(bench, Matmul{.a = a, .b = b, .c = c}));
    bench.forget();
    return {copy_rate, product_rate};
}

/// What most of a step's time goes to comes first.
void run(const std::string& pattern, bool small) {
    const Sizes sizes(small);
    Bench bench(pattern, small);
    bench.begin(ceilings_of(bench, sizes));
    products(bench, sizes);
    convolutions(bench, sizes, Dtype::bf16);
    channel_norms(bench, sizes, Dtype::bf16);
    attention(bench, sizes, Dtype::bf16);
    recurrent(bench, sizes, Dtype::bf16);
    passes(bench, sizes, Dtype::bf16);
    casts(bench, sizes);
    embeddings(bench, sizes);
    optimizer(bench, sizes);
    passes(bench, sizes, Dtype::f32);
    attention(bench, sizes, Dtype::f32);
    bench.end();
}

}  // namespace

}  // namespace headroom::shares

int main(int argc, char** argv) {
    std::string pattern;
    bool small = false;
    CLI::App app("Measures kernels beside a copy and a large product.", "kernel_shares");
    app.add_option("PATTERN", pattern, "measure the kernels whose names contain this");
    app.add_flag("--small", small, "tiny arrays, for tests");
    CLI11_PARSE(app, argc, argv);
    try {
        headroom::shares::run(pattern, small);
    } catch (const std::exception& error) {
        std::fputs(fmt::format("kernel_shares: {}\n", error.what()).c_str(), stderr);  // fmt::print would throw
        return 1;
    }
    return std::fflush(stdout) == 0 ? 0 : 1;
}
