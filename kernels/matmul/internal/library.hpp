#pragma once
// Matrix products by oneDNN: compiled once per geometry, kept in the stream's state, run on the caller's scratch. Rows
// are distributed over threads here, and each thread runs a single-threaded primitive: oneDNN's own division is up to
// 25% slower if the operands must be transposed.
//
//     LibraryMatmul* product = stream.state->get<MatmulCache>().find(threads, problem);
//     if (product) product->run(stream, problem, scratch);   // null: oneDNN does not take this geometry
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>

#include <headroom/kernels/matmul/internal/problem.hpp>
#include <headroom/kernels/stream.hpp>

namespace headroom::kernels {

/// One geometry's primitives: with and without accumulation, for each thread's share.
class LibraryMatmul {
  public:
    virtual ~LibraryMatmul() = default;
    /// Bytes of scratch for all threads, the larger of the two.
    virtual std::size_t scratch() const = 0;
    /// beta must be 0 or 1. The primitives are compiled at their first run, which takes some milliseconds.
    virtual void run(const CpuStream& stream, const Problem& problem, std::byte* scratch) = 0;
};

/// Everything that oneDNN's choice of a primitive depends on.
struct MatmulKey {
    std::array<std::int64_t, 9> words{};
    friend bool operator==(const MatmulKey&, const MatmulKey&) = default;
};
struct MatmulKeyHash {
    std::size_t operator()(const MatmulKey& key) const {
        std::uint64_t hash = 0;
        for (const std::int64_t word : key.words) {
            hash = (hash ^ static_cast<std::uint64_t>(word)) * 0x9e3779b97f4a7c15u;
            hash ^= hash >> 29;
        }
        return hash;
    }
};

/// State of a stream, real or dry. Memory that oneDNN allocates for itself is not counted: the code of its primitives
/// (kept in a cache of the process, too), a few small blocks per call for its arguments, and operand blocks during
/// calls that use its gemm, which reports no scratch (shares of a transposed a, as in a weight's gradient).
class MatmulCache {
  public:
    MatmulCache();
    ~MatmulCache();

    /// True if oneDNN is slower than our panels on this processor: in f32 before AVX-512.
    static bool is_slower(Dtype operand);
    /// Null if oneDNN has no fast primitive for it: batches, f64, f16, strides along both axes, bf16 without AVX-512.
    LibraryMatmul* find(int threads, const Problem& problem);

  private:
    struct Engine;
    std::unique_ptr<Engine> engine_;
    std::unordered_map<MatmulKey, std::unique_ptr<LibraryMatmul>, MatmulKeyHash> products_;
};

}  // namespace headroom::kernels
