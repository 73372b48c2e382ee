#pragma once
// Errors that Headroom throws. Every message is one line that says what is wrong and what to do; it names the
// operation, the shapes and the values. Catch `headroom::Error` for all of them. Not for programming mistakes inside
// the library: tests find those.
//
//     try {
//         auto y = matmul(a, b);
//     } catch (const headroom::ShapeError& error) {
//         fmt::print(stderr, "{}\n", error.what());
//     }
#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

namespace headroom {

/// Base of all errors of this library.
class Error : public std::runtime_error {
  public:
    explicit Error(const std::string& message) : std::runtime_error(message) {}

    /// Ends the message with the module that was at work, ", in blocks.3.mlp". Does nothing for an empty path, or if
    /// the message names a path already: the innermost module counts.
    void add_path(const std::string& path) {
        if (names_path_ || path.empty()) return;
        static_cast<std::runtime_error&>(*this) = std::runtime_error(std::string(what()) + ", in " + path);
        names_path_ = true;
    }

  protected:
    bool names_path_ = false;
};

/// Shapes, axes, strides or sizes that do not fit together.
class ShapeError : public Error {
  public:
    using Error::Error;
};

/// A dtype that an operation does not take.
class DtypeError : public Error {
  public:
    using Error::Error;
};

/// A file that can't be read or written, or whose contents are not what they claim to be. A path may hold any byte but
/// 0, so control characters in the message are replaced by "?".
class FileError : public Error {
  public:
    explicit FileError(std::string message) : Error(printable(std::move(message))) {}

  private:
    static std::string printable(std::string text) {
        const auto is_control = [](char c) { return (c >= 0 && c < ' ') || c == 127; };
        std::replace_if(text.begin(), text.end(), is_control, '?');
        return text;
    }
};

/// Work that can't be part of a CUDA graph, while one is made.
class CaptureError : public Error {
  public:
    using Error::Error;
};

/// A driver call that failed for a reason other than lack of memory.
class DeviceError : public Error {
  public:
    using Error::Error;
};

}  // namespace headroom
