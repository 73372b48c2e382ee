#pragma once
// Writes Python objects as a pickle stream of protocol 4, with only the opcodes that PyTorch's viewer also understands.
// Each string is written once and then referenced. No objects of classes.
//
//     memory::PickleWriter pickle(file.text);
//     pickle.begin();
//     pickle.dict([&] {
//         pickle.string("answer");
//         pickle.integer(42);
//     });
//     pickle.end();
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>

#include <headroom/memory/history/internal/file_writer.hpp>

namespace headroom::memory {

class PickleWriter {
  public:
    /// The number of an object written before.
    using Memo = std::uint32_t;

    /// Appends to `out`, which the caller may empty between calls.
    explicit PickleWriter(std::string& out) : out_(out) {}

    void begin() { out_.append("\x80\x04", 2); }
    void end() { out_ += '.'; }

    void boolean(bool value) { out_ += value ? '\x88' : '\x89'; }

    void integer(std::int64_t value) {
        if (value >= 0 && value < 256) {
            out_ += 'K';
            little_endian(value, 1);
        } else if (value >= 0 && value < 65536) {
            out_ += 'M';
            little_endian(value, 2);
        } else if (value >= INT32_MIN && value <= INT32_MAX) {
            out_ += 'J';
            little_endian(value, 4);
        } else {
            int bytes = 5;
            while (bytes < 8 && (value >> (8 * bytes - 1)) != 0 && (value >> (8 * bytes - 1)) != -1) ++bytes;
            out_ += '\x8a';
            out_ += static_cast<char>(bytes);
            little_endian(value, bytes);
        }
    }

    /// Invalid UTF-8 is replaced.
    void string(std::string_view text) {
        if (const auto known = strings_.find(text); known != strings_.end()) return get(known->second);
        const std::string valid = valid_utf8(text);
        out_ += 'X';
        little_endian(static_cast<std::int64_t>(valid.size()), 4);
        out_ += valid;
        strings_.emplace(text, put());
    }

    /// Gives the object just written a number.
    Memo put() {
        out_ += '\x94';
        return memos_++;
    }
    /// Writes a reference to an object written before.
    void get(Memo memo) {
        const bool small = memo < 256;
        out_ += small ? 'h' : 'j';
        little_endian(memo, small ? 1 : 4);
    }

    /// `fill` writes alternating keys and values, fewer than 500 in all.
    template <class Fill>
    void dict(Fill&& fill) {
        out_ += "}(";
        fill();
        out_ += 'u';
    }

    void begin_list() { out_ += "]("; }
    /// Call after each element of a list. Readers take elements in batches, which must not grow large.
    void next(std::uint64_t& count) {
        if (++count % 1000 == 0) out_ += "e(";
    }
    void end_list() { out_ += 'e'; }

    void pair(std::int64_t first, std::int64_t second) {
        integer(first);
        integer(second);
        out_ += '\x86';
    }

  private:
    void little_endian(std::int64_t value, int bytes) {
        for (int i = 0; i < bytes; ++i) out_ += static_cast<char>(value >> (8 * i));
    }

    struct Hash {
        using is_transparent = void;
        std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
    };
    std::string& out_;
    std::unordered_map<std::string, Memo, Hash, std::equal_to<>> strings_;
    Memo memos_ = 0;
};

}  // namespace headroom::memory
