#include <headroom/examples/cli/options.hpp>

#include <algorithm>
#include <charconv>
#include <sstream>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <headroom/core/nearest.hpp>

namespace headroom::cli {

namespace {

/// `kind`: of number, for messages.
template <class Number>
Check between(Number least, Number most, const char* kind) {
    const auto problem = [=](const std::string& text) {
        Number value{};
        // CLI::Range lets NaN through.
        const bool inside = CLI::detail::lexical_cast(text, value) && value >= least && value <= most;
        return inside ? std::string() : fmt::format("{} is not a {} in [{}, {}]", text, kind, least, most);
    };
    return {problem, fmt::format("in [{}, {}]", least, most)};
}

/// In our words, where CLI11's would puzzle.
std::string wrong_usage(const CLI::App& app, const CLI::ParseError& error) {
    const std::string what = error.what();
    if (dynamic_cast<const CLI::ArgumentMismatch*>(&error)) {
        const std::string option = what.substr(0, what.find(':'));
        return option + (what.find("At Most") == std::string::npos ? ": a value is missing" : " is given twice");
    }
    const bool extras = dynamic_cast<const CLI::ExtrasError*>(&error);
    const std::vector<std::string> words = app.remaining();
    if (words.empty() || !(extras || dynamic_cast<const CLI::RequiredError*>(&error))) return what;
    const std::string rest = extras ? "" : "; " + what;
    if (!words.front().starts_with("--")) return fmt::format("{} belongs to no option{}", words.front(), rest);
    std::vector<std::string> names;
    for (const CLI::Option* option : app.get_options())
        if (!option->get_group().empty()) names.push_back(option->get_name());  // those that help has
    return fmt::format("there is no {}; the nearest is {}{}", words.front(), nearest(words.front(), names, 1).front(),
                       rest);
}

/// CLI11 reads "config files" after the command line, and takes from them what that did not give.
class ValuesFrom final : public CLI::Config {
  public:
    explicit ValuesFrom(std::function<App::Values()> read) : read_(std::move(read)) {}
    std::string to_config(const CLI::App*, bool, bool, std::string) const override { return {}; }
    std::vector<CLI::ConfigItem> from_config(std::istream&) const override {
        std::vector<CLI::ConfigItem> items;
        for (const auto& [name, value] : read_()) items.push_back({{}, name, {value}});
        return items;
    }

  private:
    std::function<App::Values()> read_;
};

}  // namespace

Option Option::check(const Check& check) const {
    const CLI::Validator validator(check.problem, check.shown);
    check.converts ? option_->transform(validator) : option_->check(validator);
    return *this;
}
Option Option::required() const { return Option(option_->required()); }
Option Option::show_default() const { return Option(option_->capture_default_str()); }
Option Option::of_this_run() const { return Option(option_->configurable(false)->group("Of this run alone")); }
Option Option::excludes(const Option& other) const { return Option(option_->excludes(other.option_)); }
Option Option::excludes(const std::string& name) const { return Option(option_->excludes(name)); }
Option Option::needs(const Option& other) const { return Option(option_->needs(other.option_)); }
Option Option::needs(const std::string& name) const { return Option(option_->needs(name)); }
Option Option::delimiter(char between) const { return Option(option_->delimiter(between)); }
Option Option::type_name(const std::string& name) const { return Option(option_->type_name(name)); }
Option Option::description(const std::string& what) const { return Option(option_->description(what)); }
Option Option::value_optional() const { return Option(option_->expected(0, 1)); }

std::string Option::name() const { return option_->get_lnames().front(); }
bool Option::given() const { return option_->count() > 0; }
bool Option::stored() const { return option_->get_configurable(); }
bool Option::is_excluded() const {
    return !given() &&
           std::ranges::any_of(option_->get_excludes(), [](const CLI::Option* other) { return other->count() > 0; });
}
std::string Option::default_text() const { return option_->get_default_str(); }
std::string Option::value() const { return given() ? option_->results().back() : default_text(); }
void Option::set(const std::string& value) const {
    option_->add_result(value);
    option_->run_callback();
}

App::App(const std::string& what, const std::string& name) : app_(std::make_unique<CLI::App>(what, name)) {}
App::~App() = default;

std::string App::name() const { return app_->get_name(); }
void App::footer(const std::string& text) { app_->footer(text); }
void App::version(const std::string& text) { app_->set_version_flag("--version", text); }
void App::take_some() {
    app_->set_help_flag();
    app_->allow_extras();
}
void App::before_parse(std::function<void()> call) {
    app_->preparse_callback([call = std::move(call)](std::size_t) { call(); });
}
void App::when_parsed(std::function<void()> call) { app_->parse_complete_callback(std::move(call)); }
void App::callback(std::function<void()> call) { app_->callback(std::move(call)); }

void App::values_from(const std::string& name, const std::string& what, const std::function<void(std::string)>& open,
                      std::function<Values()> read) {
    const auto opened = [open](const std::string& file) {
        open(file);
        return std::string();
    };
    app_->set_config(name, "", what)->type_name("FILE")->check(opened);
    app_->config_formatter(std::make_shared<ValuesFrom>(std::move(read)));
}

std::vector<Option> App::options() const {
    std::vector<Option> all;
    for (CLI::Option* option : app_->get_options()) all.emplace_back(option);
    return all;
}
std::optional<Option> App::find(const std::string& name) const {
    CLI::Option* const option = app_->get_option_no_throw(name);
    return option ? std::optional(Option(option)) : std::nullopt;
}
Option App::option(const std::string& name) const {
    const CLI::App& app = *app_;
    return Option(const_cast<CLI::Option*>(app.get_option(name)));
}

void App::parse(std::vector<std::string> words) {
    try {
        std::ranges::reverse(words);
        app_->parse(std::move(words));
    } catch (const CLI::Success& asked) {
        std::ostringstream text;
        app_->exit(asked, text);
        throw TextAsked(text.str());
    } catch (const CLI::ParseError& error) {
        throw WrongUsage(wrong_usage(*app_, error));
    }
}

Option add_option(App& app, const std::string& name, std::string& value, const std::string& what) {
    return Option(app.cli().add_option(name, value, what));
}
Option add_option(App& app, const std::string& name, std::int64_t& value, const std::string& what) {
    return Option(app.cli().add_option(name, value, what));
}
Option add_option(App& app, const std::string& name, std::uint64_t& value, const std::string& what) {
    return Option(app.cli().add_option(name, value, what));
}
Option add_option(App& app, const std::string& name, int& value, const std::string& what) {
    return Option(app.cli().add_option(name, value, what));
}
Option add_option(App& app, const std::string& name, double& value, const std::string& what) {
    return Option(app.cli().add_option(name, value, what));
}
Option add_option(App& app, const std::string& name, std::vector<std::string>& value, const std::string& what) {
    return Option(app.cli().add_option(name, value, what));
}
Option add_flag(App& app, const std::string& name, bool& value, const std::string& what) {
    return Option(app.cli().add_flag(name, value, what));
}
Option add_flag(App& app, const std::string& name, const std::function<void()>& set, const std::string& what) {
    return Option(app.cli().add_flag_callback(name, set, what));
}

void refuse_old(App& app, const std::string& old, const std::string& name) {
    const auto refuse = [=](const std::string&) { throw WrongUsage(fmt::format("{} is called {} now", old, name)); };
    app.cli()
        .add_option_function<std::string>(old, refuse)
        ->expected(0, 1)
        ->trigger_on_parse()
        ->configurable(false)
        ->group("");
}

void ignore_old(App& app, const std::string& old) { app.cli().add_flag(old)->group("")->configurable(false); }

void require(App& app, const std::string& name) { throw WrongUsage(wrong_usage(app.cli(), CLI::RequiredError(name))); }

Check whole(std::int64_t least, std::int64_t most) { return between(least, most, "whole number"); }
Check real(double least, double most) { return between(least, most, "number"); }

Check natural() {
    const auto problem = [](const std::string& text) {
        std::uint64_t value = 0;
        const char* end = text.data() + text.size();
        const auto [stop, error] = std::from_chars(text.data(), end, value);
        const bool whole = stop == end && error == std::errc();
        return whole ? std::string() : fmt::format("{} is not a whole number in [0, {}]", text, UINT64_MAX);
    };
    return {problem, "UINT64"};
}

Check one_of(const std::vector<std::string>& names) {
    const CLI::Validator member = CLI::IsMember(names);
    return {[member](std::string& text) { return member(text); }, member.get_description()};
}

std::optional<double> number(const std::string& text) {
    double value = 0;
    return CLI::detail::lexical_cast(text, value) ? std::optional(value) : std::nullopt;
}

}  // namespace headroom::cli
