#include <headroom/examples/cli/model_flags.hpp>

#include <headroom/examples/cli/options.hpp>
#include <headroom/training/options.hpp>

namespace headroom::cli {

void add_model_flags(App& app, const std::string& batch, models::Sizes& sizes, std::string& dtype,
                     std::string& optimizer) {
    const auto size = whole(1, 1 << 24);
    add_option(app, batch, sizes.batch, "samples in a step; sizes that are not given are usual ones").check(size);
    add_option(app, "--height", sizes.height, "of images").check(size);
    add_option(app, "--width", sizes.width, "of images; of gpt, of its layers").check(size);
    add_option(app, "--block", sizes.block, "tokens of a sequence").check(size);
    add_option(app, "--classes", sizes.classes, "of images or pixels; of gpt, lstm and gru, kinds of tokens")
        .check(size);
    add_option(app, "--layers", sizes.layers, "of gpt, and hidden ones of mlp").check(size);
    add_option(app, "--dtype", dtype, "of products").check(one_of({"f32", "bf16", "f16"})).show_default();
    add_option(app, "--optimizer", optimizer, "adamw, or sgd with momentum")
        .check(one_of(training::optimizer_names()))
        .show_default();
}

}  // namespace headroom::cli
