#pragma once
// Errors that Headroom throws. Every message is one line that says what is wrong and what to do; the message names the
// operation, the shapes and the values. Catch `headroom::Error` for all of them. Programming mistakes inside the
// library are not reported this way; tests find those.
//
//     try {
//         auto y = matmul(a, b);
//     } catch (const headroom::ShapeError& error) {
//         fmt::print(stderr, "{}\n", error.what());
//     }
#include <stdexcept>
#include <string>

namespace headroom {

/// Replaces each control character by "?", so that text stays on one line and can't control a terminal. A path may hold
/// any byte except 0, and a file any byte.
inline std::string without_controls(const std::string& text) {
    std::string shown;
    for (const char c : text) {
        const auto byte = static_cast<unsigned char>(c);
        const bool c1 = byte >= 0x80 && byte <= 0x9f && shown.ends_with('\xc2');  // U+0080 to U+009F
        if (c1) shown.pop_back();
        shown += c1 || byte < ' ' || byte == 127 ? '?' : c;
    }
    return shown;
}

/// Base of all errors of this library. Messages pass through `without_controls`.
class Error : public std::runtime_error {
  public:
    explicit Error(const std::string& message) : std::runtime_error(without_controls(message)) {}

    /// Appends the module in which the error occurred to the message, as ", in blocks.3.mlp". Does nothing for an empty
    /// path, or if the message already names one: the innermost module wins.
    void add_path(const std::string& path) {
        if (names_path_ || path.empty()) return;
        static_cast<std::runtime_error&>(*this) = std::runtime_error(what() + without_controls(", in " + path));
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

/// A dtype that an operation does not support.
class DtypeError : public Error {
  public:
    using Error::Error;
};

/// A file that can't be read or written, or whose contents don't match its format.
class FileError : public Error {
  public:
    using Error::Error;
};

/// Work that is not allowed while a CUDA graph is being captured.
class CaptureError : public Error {
  public:
    using Error::Error;
};

/// A failed driver call, for any reason but lack of memory.
class DeviceError : public Error {
  public:
    using Error::Error;
};

}  // namespace headroom
