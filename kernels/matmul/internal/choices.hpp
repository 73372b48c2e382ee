#pragma once
// The algorithm of a library chosen for each product, in memory and in a file. Plain C++: only the library interprets
// the words.
//
//     MatmulChoices& choices = stream.state->get<MatmulChoices>();
//     if (const MatmulChoice* known = choices.find(key)) ...
//     choices.save("choices.txt", "NVIDIA H200", 130100);
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include <headroom/kernels/matmul/internal/gemm.hpp>

namespace headroom::kernels {

/// Everything that the choice of an algorithm depends on.
using MatmulChoiceKey = std::array<std::int64_t, 12>;

/// Alignments of A, B, D, the bias or its gradient, and the inner matrix in bytes (powers of two up to 256; 0 if
/// absent).
struct GemmAlignment {
    std::uint32_t a = 256, b = 256, d = 256, bias = 0, inner = 0;
};
MatmulChoiceKey choice_key(const Gemm& gemm, const GemmAlignment& alignment, bool tf32);

struct MatmulChoice {
    std::array<std::uint64_t, 8> words{};  ///< a cublasLtMatmulAlgo_t
    bool tuned = false;                    ///< by measurement, or read from a file

    /// True if the bare product with a separate kernel is faster than any algorithm that does both.
    bool apart() const { return words == decltype(words){}; }
};

class MatmulChoices {
  public:
    /// Null if there is none. Valid until the next `set` or `load`.
    const MatmulChoice* find(const MatmulChoiceKey& key) const;
    void set(const MatmulChoiceKey& key, const MatmulChoice& choice) { choices_[key] = choice; }
    std::size_t size() const { return choices_.size(); }

    /// One line per choice, in key order. Errors: FileError.
    void save(const std::string& path, const std::string& device, std::size_t version) const;
    /// Adds the choices of a file, all as tuned; existing ones are kept. Returns false, and adds nothing, if the file
    /// is for another device or version. Errors: FileError if the file can't be read or was not written by `save`.
    bool load(const std::string& path, const std::string& device, std::size_t version);

  private:
    std::map<MatmulChoiceKey, MatmulChoice> choices_;
};

}  // namespace headroom::kernels
