#pragma once
// Reads tokens from memory or from a file, in various integer formats, as i32. Token files are flat little-endian
// numbers, like nanoGPT's train.bin; headers of NumPy's .npy and of llm.c's files are skipped. Files are mapped, so
// they may be larger than memory. For text use text.hpp.
//
//     data::TokenFile file("train.bin", data::TokenFormat::u16, /*vocabulary_size=*/50257);
//     data::TokenView tokens = file.view();
//     std::vector<int32_t> window(1025);
//     tokens.copy(/*first=*/4096, window);
#include <cstdint>
#include <filesystem>
#include <span>

#include <headroom/data/file.hpp>

namespace headroom::data {

/// The integer format of tokens in a file, little-endian.
enum class TokenFormat { u8, u16, u32, i32 };

/// Bytes of a token: 1, 2 or 4.
std::int64_t token_bytes(TokenFormat format);

/// A view of tokens; pass it by value. The tokens' memory must outlive it.
class TokenView {
  public:
    /// `vocabulary_size`, in [1, 2^31]: `copy` throws for a token that is not below it. Errors: Error for other sizes.
    TokenView(std::span<const std::uint8_t> tokens, std::int64_t vocabulary_size);
    TokenView(std::span<const std::uint16_t> tokens, std::int64_t vocabulary_size);
    TokenView(std::span<const std::uint32_t> tokens, std::int64_t vocabulary_size);
    TokenView(std::span<const std::int32_t> tokens, std::int64_t vocabulary_size);

    std::int64_t size() const { return size_; }
    std::int64_t vocabulary_size() const { return vocabulary_size_; }

    /// Reads tokens [first, first + out.size()). Thread-safe. Errors: ShapeError outside of the view, Error for a token
    /// that is not in the vocabulary.
    void copy(std::int64_t first, std::span<std::int32_t> out) const;

    /// Tokens [first, first + count). Errors: ShapeError outside of the view.
    TokenView slice(std::int64_t first, std::int64_t count) const;
    /// The same tokens with another vocabulary size. Errors: as the constructors.
    TokenView within(std::int64_t vocabulary_size) const { return {data_, format_, size_, vocabulary_size}; }

    /// Position of the first token that is not in the vocabulary, or -1. Reads all tokens.
    std::int64_t find_invalid() const;
    /// The token at `index`, not checked against the vocabulary; it may be negative.
    std::int64_t at(std::int64_t index) const;

  private:
    TokenView(const void* data, TokenFormat format, std::int64_t size, std::int64_t vocabulary_size);
    void check_range(const char* what, std::int64_t first, std::int64_t count) const;

    const void* data_;
    TokenFormat format_;
    std::int64_t size_;
    std::int64_t vocabulary_size_;
};

/// The first `fraction` of the tokens for training, the rest for validation; the boundary is rounded down, as in
/// nanoGPT.
struct TokenSplit {
    TokenView train;
    TokenView validation;
};
/// Errors: Error if `fraction` is not in [0, 1].
TokenSplit split_tokens(TokenView tokens, double fraction = 0.9);

/// When a file's tokens are checked against the vocabulary. `at_opening` checks all when the file is opened, which
/// reads it once (about a second per gigabyte); `at_reading` checks each token when it is read.
enum class TokenCheck { at_opening, at_reading };

class TokenFile {
  public:
    /// Errors: FileError if the file can't be mapped, its size is not a multiple of the token size, a header states a
    /// different format, or a token is not in the vocabulary; Error for a vocabulary size outside of [1, 2^31].
    TokenFile(const std::filesystem::path& path, TokenFormat format, std::int64_t vocabulary_size,
              TokenCheck check = TokenCheck::at_opening);

    /// Valid while this file lives, also after a move.
    TokenView view() const { return view_; }

  private:
    MappedFile file_;
    TokenView view_;
};

}  // namespace headroom::data
