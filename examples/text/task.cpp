#include <headroom/examples/text/task.hpp>

namespace headroom::text {

program::Program text_program(const ModelFlags& flags) {
    const auto corpus =
        std::make_shared<const Corpus>(flags.masked() ? read_special_corpus(flags) : read_corpus(flags));
    expect_vocabulary(flags, *corpus, "name the vocab.txt of that model with --vocabulary");
    expect_length(flags, [&] {
        flags.masked() ? expect_masked_windows(flags, *corpus) : expect_recurrent_windows(flags, *corpus);
    });
    return {.data = corpus->what,
            .unit = "tokens",
            .units = flags.block,
            .reads = flags.reads(),
            .task = [&flags, corpus](Parameters& parameters, std::int64_t batch) {
                return flags.masked() ? masked_task(parameters, flags, batch, *corpus)
                                      : recurrent_task(parameters, flags, batch, *corpus);
            }};
}

}  // namespace headroom::text
