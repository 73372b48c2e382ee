#pragma once
// A buffered writer for sequential files, with functions that quote text. The history writers share it. The file may
// not survive a crash of the machine.
//
//     memory::FileWriter file("trace.json");
//     file.text += "{\"name\":";
//     memory::append_json(file.text, "a \"quoted\" name");
//     file.flush_if_full();
//     file.finish();
#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

namespace headroom::memory {

class FileWriter {
  public:
    /// Replaces an existing file. Errors: FileError.
    explicit FileWriter(std::filesystem::path path);

    std::string text;  ///< pending output; append to it

    /// Call it now and then. Errors: FileError, for example if the disk is full.
    void flush_if_full() {
        if (text.size() >= kFull) flush();
    }
    /// Writes the rest and closes the file. Without this call the file is incomplete. Errors: FileError.
    void finish();

  private:
    static constexpr std::size_t kFull = 1 << 18;

    void flush();
    [[noreturn]] void fail() const;

    struct Close {
        void operator()(std::FILE* file) const noexcept { std::fclose(file); }
    };
    std::filesystem::path path_;
    std::unique_ptr<std::FILE, Close> file_;
};

/// Makes `text` valid UTF-8: each byte that belongs to no character becomes U+FFFD.
std::string valid_utf8(std::string_view text);

/// Appends `text` as a quoted JSON string, valid for any bytes; "<" is escaped, so that the result may stand inside
/// HTML.
void append_json(std::string& out, std::string_view text);

/// Appends `bytes` in base64, without line breaks.
void append_base64(std::string& out, std::string_view bytes);

}  // namespace headroom::memory
