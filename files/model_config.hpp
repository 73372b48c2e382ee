#pragma once
// Properties of a model that its weights do not determine, such as the number of attention heads. They are read from
// config.json next to the file, as in Hugging Face's models. Without it, they are read from nanoGPT's "model_args",
// which scripts/convert_pth stores in the file itself.
//
//     const files::ModelConfig config(file);
//     const std::optional<std::int64_t> heads = config.count("n_head");
//     config.expect_count("n_embd", width);
//     config.expect("activation_function", {"gelu_new"});
#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include <headroom/files/safetensors.hpp>

namespace headroom::files {

class ModelConfig {
  public:
    /// Empty if neither source exists. Errors: FileError if config.json is not a JSON object.
    explicit ModelConfig(const SafetensorsFile& file);

    /// The source of the values, for messages.
    const std::string& source() const { return source_; }
    /// Returns a value as text: a string without quotes, anything else as in JSON: "gelu_new", "12", "false". None if
    /// it is absent or null.
    std::optional<std::string> value(const std::string& name) const;
    /// Returns a positive integer; none if it is absent. Errors: FileError for any other value.
    std::optional<std::int64_t> count(const std::string& name) const;

    /// Checks a size against the weights. Errors: FileError if the value is present and differs from `size`; the
    /// configuration is then for another model.
    void expect_count(const std::string& name, std::int64_t size) const;
    /// Checks that a value is one of `values`, the values that Headroom's model supports, written as `value` returns
    /// them. Numbers may be written in other ways. Errors: FileError if it is present and none of these.
    void expect(const std::string& name, std::initializer_list<std::string_view> values) const;

  private:
    std::string source_;
    std::map<std::string, std::string> values_;
};

}  // namespace headroom::files
