#include <headroom/examples/cli/model_flags.hpp>

#include <headroom/examples/cli/options.hpp>
#include <headroom/training/options.hpp>

namespace headroom::cli {

void add_model_flags(App& app, const std::string& batch, models::Sizes& sizes, std::string& dtype,
                     std::string& optimizer) {
    const auto size = whole(1, 1 << 24);
    add_option(app, batch, sizes.batch, "samples in a step; every size has a usual default").check(size);
    add_option(app, "--height", sizes.height, "image height").check(size);
    add_option(app, "--width", sizes.width, "image width; for gpt, the width of its layers").check(size);
    add_option(app, "--block", sizes.block, "tokens in a sequence").check(size);
    add_option(app, "--classes", sizes.classes, "number of classes; for gpt, lstm and gru, the vocabulary size")
        .check(size);
    add_option(app, "--layers", sizes.layers, "layers of gpt, or hidden layers of mlp").check(size);
    add_option(app, "--dtype", dtype, "dtype of the products").check(one_of({"f32", "bf16", "f16"})).show_default();
    add_option(app, "--optimizer", optimizer, "adamw, or sgd with momentum")
        .check(one_of(training::optimizer_names()))
        .show_default();
}

}  // namespace headroom::cli
