#pragma once
// The table of a program's flags. An option is one row: its name, the field that it sets, its help, what is checked,
// and whether a checkpoint stores it. Parsing, help, stored flags and messages come from that row. The field's value is
// the default. CLI11 is behind it, in one source, as its templates take longer to compile than all else in a program.
//
//     cli::App app("Trains a model.", "train_model");
//     add_option(app, "--batch", batch, "images in a step").check(whole(1, 1 << 20)).show_default();
//     add_option(app, "--dtype", dtype, "of products").check(one_of({"f32", "bf16"}));
//     add_option(app, "--json", json, "file for the figures").of_this_run();
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace headroom::cli {

/// What is wrong with the command line, in one line.
struct WrongUsage : std::runtime_error {
    using std::runtime_error::runtime_error;
};

/// The command line asks for a text, such as --help, and nothing else is done.
struct TextAsked : std::exception {
    explicit TextAsked(std::string asked) : text(std::move(asked)) {}
    std::string text;
};

/// Of a value. `problem`: what is wrong with it, or nothing; `shown`: in the help, in place of the type.
struct Check {
    std::function<std::string(std::string&)> problem;
    std::string shown = {};
    bool converts = false;  ///< `problem` changes the text to what the field takes
};

/// A row of the table; a handle, which may be copied and lives as long as its app.
class Option {
  public:
    explicit Option(CLI::Option* option) : option_(option) {}

    Option check(const Check& check) const;
    /// Wrong usage without it.
    Option required() const;
    /// Help names the default, and a checkpoint stores it.
    Option show_default() const;
    /// Belongs to the run, not to the training: it is not stored in checkpoints.
    Option of_this_run() const;
    /// Wrong usage together with the other one, or without it.
    Option excludes(const Option& other) const;
    Option excludes(const std::string& name) const;
    Option needs(const Option& other) const;
    Option needs(const std::string& name) const;
    /// Between several values in one word.
    Option delimiter(char between) const;
    /// What help calls the value.
    Option type_name(const std::string& name) const;
    Option description(const std::string& what) const;
    /// It may be given without a value.
    Option value_optional() const;

    std::string name() const;  ///< without its dashes
    bool given() const;
    bool stored() const;
    /// A default has no effect where an option is given that excludes it.
    bool is_excluded() const;
    std::string default_text() const;  ///< empty unless `show_default`
    /// The value that counts: the last one on the command line, else the default; empty if there is neither.
    std::string value() const;
    /// As if the command line had it.
    void set(const std::string& value) const;

  private:
    CLI::Option* option_;
};

class App {
  public:
    App(const std::string& what, const std::string& name);
    ~App();
    App(const App&) = delete;
    App& operator=(const App&) = delete;

    std::string name() const;
    void footer(const std::string& text);  ///< of the help
    void version(const std::string& text);
    /// Knows neither --help nor what is wrong with words that are none of its options.
    void take_some();
    /// Before the words are looked at; when all flags are known; and after that, for the program itself.
    void before_parse(std::function<void()> call);
    void when_parsed(std::function<void()> call);
    void callback(std::function<void()> call);

    using Values = std::vector<std::pair<std::string, std::string>>;
    /// An option that names a file. `open` looks at it first; `read` then gives values by name for options that the
    /// command line does not have.
    void values_from(const std::string& name, const std::string& what, const std::function<void(std::string)>& open,
                     std::function<Values()> read);

    std::vector<Option> options() const;
    std::optional<Option> find(const std::string& name) const;
    /// Errors: std::exception if there is none.
    Option option(const std::string& name) const;
    bool given(const std::string& name) const { return option(name).given(); }

    /// The words behind the program's name. Errors: WrongUsage, TextAsked.
    void parse(std::vector<std::string> words);

    CLI::App& cli() { return *app_; }

  private:
    std::unique_ptr<CLI::App> app_;
};

/// Adds a row.
Option add_option(App& app, const std::string& name, std::string& value, const std::string& what);
Option add_option(App& app, const std::string& name, std::int64_t& value, const std::string& what);
Option add_option(App& app, const std::string& name, std::uint64_t& value, const std::string& what);
Option add_option(App& app, const std::string& name, int& value, const std::string& what);
Option add_option(App& app, const std::string& name, double& value, const std::string& what);
Option add_option(App& app, const std::string& name, std::vector<std::string>& value, const std::string& what);
Option add_flag(App& app, const std::string& name, bool& value, const std::string& what);
/// Calls `set` where the flag is given.
Option add_flag(App& app, const std::string& name, const std::function<void()>& set, const std::string& what);

/// The name that a flag had in an earlier release: wrong usage, which says the name of today. Help leaves it out.
void refuse_old(App& app, const std::string& old, const std::string& name);
/// A flag of an earlier release that has no effect now. Help leaves it out.
void ignore_old(App& app, const std::string& old);

/// Errors: WrongUsage, always: as without an option that is `required`.
[[noreturn]] void require(App& app, const std::string& name);

Check whole(std::int64_t least, std::int64_t most);
Check real(double least, double most);
/// Any number that 64 bits hold; CLI11 lets negative and larger ones wrap around.
Check natural();
Check one_of(const std::vector<std::string>& names);

/// Of a text that is one, as a flag takes it.
std::optional<double> number(const std::string& text);

}  // namespace headroom::cli
