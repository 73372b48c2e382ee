#pragma once
// What a model's weights don't say of it, such as the number of its attention heads: config.json beside the file, as
// Hugging Face's models have it, or else what scripts/convert_pth has kept of nanoGPT's "model_args" in the file
// itself.
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
    /// Without values where there is neither. Errors: FileError if config.json is no JSON object.
    explicit ModelConfig(const SafetensorsFile& file);

    /// Where the values are from, for messages.
    const std::string& source() const { return source_; }
    /// A text as it is, all else as JSON has it: "gelu_new", "12", "false"; none if it is not there or null.
    std::optional<std::string> value(const std::string& name) const;
    /// Errors: FileError if it is there and no whole number above 0.
    std::optional<std::int64_t> count(const std::string& name) const;

    /// Errors: FileError if it is there and another number than the weights have: they are of another model.
    void expect_count(const std::string& name, std::int64_t size) const;
    /// `values` are all that Headroom's model can be, as `value` has them; numbers may be written in other ways.
    /// Errors: FileError if it is there and none of these.
    void expect(const std::string& name, std::initializer_list<std::string_view> values) const;

  private:
    std::string source_;
    std::map<std::string, std::string> values_;
};

}  // namespace headroom::files
