#pragma once
// A file that is written from beginning to end through a buffer, and functions that quote text for it. Not for files
// that must survive a crash of the machine. The writers of histories share it.
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

    std::string text;  ///< to be written next; append to it

    /// To be called now and then. Errors: FileError, e.g. for a full disk.
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

/// Valid UTF-8: each byte that belongs to no character becomes U+FFFD.
std::string valid_utf8(std::string_view text);

/// `text` as a JSON string with its quotation marks, valid whatever `text` holds; "<" is escaped, so that it may stand
/// inside of HTML.
void append_json(std::string& out, std::string_view text);

/// `bytes` in base64, without line breaks.
void append_base64(std::string& out, std::string_view bytes);

}  // namespace headroom::memory
