#pragma once
// Properties of a model that its weights do not determine, such as the number of attention heads. They come from
// config.json next to the file, as in Hugging Face's models, or else from nanoGPT's "model_args", which
// scripts/convert_pth stores in the file itself.
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
    /// A value as text, strings without quotes, everything else as in JSON: "gelu_new", "12", "false". None if it is
    /// absent or null.
    std::optional<std::string> value(const std::string& name) const;
    /// A positive integer; none if it is absent. Errors: FileError for any other value.
    std::optional<std::int64_t> count(const std::string& name) const;

    /// Errors: FileError if the value is present and differs from `size`, the number in the weights: the configuration
    /// is for another model.
    void expect_count(const std::string& name, std::int64_t size) const;
    /// Checks a value against `values`, those that Headroom's model supports, in the form of `value`; numbers may be
    /// written in other ways. Errors: FileError if the value is present and none of these.
    void expect(const std::string& name, std::initializer_list<std::string_view> values) const;

  private:
    std::string source_;
    std::map<std::string, std::string> values_;
};

}  // namespace headroom::files
