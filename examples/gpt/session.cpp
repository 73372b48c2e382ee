#include <headroom/examples/gpt/session.hpp>

#include <algorithm>
#include <cmath>
#include <span>

#include <fmt/format.h>

#include <headroom/data/utf8.hpp>
#include <headroom/memory/error.hpp>

namespace headroom::gpt {

Session::Session(Context& context, const GptFlags& flags, const data::TextCorpus& corpus)
    : context_(context),
      flags_(flags),
      corpus_(corpus),
      parameters_(context),
      model_(nn::Path(parameters_), flags.model(corpus.vocabulary().size())),
      optimizer_(parameters_, {.beta1 = 0.9, .beta2 = flags.beta2, .weight_decay = flags.weight_decay}),
      accumulator_(parameters_, optimizer_,
                   {.clip = flags.clip,
                    .scale = flags.dtype == "f16" ? optim::LossScale::dynamic() : optim::LossScale(),
                    .stop_when_diverged = true,
                    .kept_results = kKeptResults}),
      schedule_{.decay = optim::Decay::cosine,
                .peak = flags.lr,
                .floor = flags.floor(),
                .warmup_steps = flags.warmup,
                .decay_steps = flags.steps},
      training_(corpus.split().train, flags.block, data::WindowStart::every_token),
      validation_(corpus.split().validation, flags.block, data::WindowStart::every_block),
      loader_(training_, data::Sampler::with_replacement(training_.size(), flags.batch, flags.seed)),
      feed_(context) {
    const std::string recomputed = flags.recomputed();
    if (recomputed == "blocks") context.policy("blocks.*", recompute_all());
    if (recomputed == "cheap" || recomputed == "mlp") context.policy("blocks.*", recompute_cheap());
    if (recomputed == "mlp") context.policy("blocks.*.mlp", recompute_all());
}

Loss Session::loss(const data::TokenBatch& batch) {
    const Shape shape{batch.rows, batch.length};
    const auto [inputs, targets] = feed_.upload({{batch.inputs, shape}, {batch.targets, shape}});
    Autocast autocast(context_, flags_.autocast());
    return model_.loss(inputs, targets);
}

void Session::step() {
    unread_.push_back({loader_.state(), context_.random_counter()});
    if (unread_.size() > static_cast<std::size_t>(kKeptResults)) unread_.pop_front();
    for (std::int64_t i = 0; i < flags_.accumulate; ++i) {
        const data::TokenBatch& batch = *loader_.next();
        accumulator_.accumulate([&] { return loss(batch); });
    }
    accumulator_.step(schedule_(steps_done_));
    ++steps_done_;
}

std::vector<optim::StepResult> Session::results(std::int64_t leave) {
    const std::int64_t first = steps_done_ - accumulator_.unread() + 1;
    std::vector<optim::StepResult> results = accumulator_.results(leave);
    for (std::size_t i = 0; i < results.size(); ++i) {
        if (results[i].diverged) explain_not_finite(first + static_cast<std::int64_t>(i), results[i], unread_[i]);
    }
    unread_.erase(unread_.begin(), unread_.begin() + static_cast<std::ptrdiff_t>(results.size()));
    return results;
}

/// Runs the step's batches once more with every module's output checked; nothing was updated in between.
void Session::explain_not_finite(std::int64_t step, const optim::StepResult& result, const Start& start) {
    const std::string what =
        fmt::format("step {}: the {} not finite", step, std::isfinite(result.loss) ? "gradient is" : "loss is");
    data::DataLoader<data::TextWindows> again(training_, loader_.sampler());
    again.restore(start.order);
    context_.set_random_counter(start.random_counter);
    context_.find_non_finite(true);
    for (std::int64_t i = 0; i < flags_.accumulate && !context_.first_non_finite(); ++i) loss(*again.next());
    context_.find_non_finite(false);
    const std::optional<std::string>& path = context_.first_non_finite();
    const std::string where =
        !path ? "every module's output was finite, so it arose in backward"
              : fmt::format("the first output that was not finite is that of {}", path->empty() ? "the model" : *path);
    throw Error(fmt::format("{}; {}; try a lower --lr, a longer --warmup or --dtype f32", what, where));
}

double Session::evaluate() {
    NoGradGuard no_grad(context_);
    parameters_.train(false);
    data::DataLoader<data::TextWindows> loader(validation_, validation_.in_order(flags_.batch), {.epochs = 1});
    double total = 0;
    double terms = 0;
    while (const data::TokenBatch* batch = loader.next()) {
        const Loss loss = this->loss(*batch);
        total += loss.sum().item();
        terms += loss.terms();
    }
    parameters_.train(true);
    return total / terms;
}

std::string Session::sample(std::int64_t tokens) {
    const data::TokenView text = corpus_.split().validation;
    std::vector<std::int32_t> prompt(static_cast<std::size_t>(std::min(text.size(), flags_.block / 2 + 1)));
    text.copy(0, prompt);
    Autocast autocast(context_, flags_.autocast());
    const auto all = nn::generate(model_, prompt, tokens, {.temperature = flags_.temperature, .top_k = flags_.top_k});
    return data::printable(corpus_.vocabulary().decode(std::span(all).subspan(prompt.size())));
}

std::size_t Session::resident_bytes() const {
    const auto& by_category = context_.memory().statistics().allocated_by_category;
    const auto of = [&](Category category) { return by_category[static_cast<std::size_t>(category)]; };
    return of(Category::parameters) + of(Category::optimizer_state);
}

}  // namespace headroom::gpt
