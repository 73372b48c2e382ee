#pragma once
// Incremental SHA-256 (FIPS 180-4).
//
//     Sha256 hash;
//     hash.add("abc");
//     hash.hex();  // "ba7816bf..."
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace headroom::files {

class Sha256 {
  public:
    /// Errors: Error if OpenSSL can't compute it here.
    Sha256();
    ~Sha256();
    Sha256(const Sha256&) = delete;
    Sha256& operator=(const Sha256&) = delete;

    void add(const void* data, std::size_t bytes);
    void add(std::string_view text) { add(text.data(), text.size()); }
    /// The digest as 64 hexadecimal digits. Must be the last call.
    std::string hex();

  private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace headroom::files
