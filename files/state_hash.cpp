#include <headroom/files/state_hash.hpp>

#include <algorithm>
#include <iterator>
#include <memory>

#include <fmt/format.h>
#include <openssl/evp.h>

#include <headroom/core/transfer.hpp>
#include <headroom/memory/error.hpp>

namespace headroom::files {

namespace {

class Sha256 {
  public:
    Sha256() : context_(EVP_MD_CTX_new(), &EVP_MD_CTX_free) {
        check(context_ && EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr));
    }
    void add(const void* data, std::size_t bytes) { check(EVP_DigestUpdate(context_.get(), data, bytes)); }
    void add(const std::string& text) { add(text.data(), text.size()); }
    std::string hex() {
        unsigned char digest[EVP_MAX_MD_SIZE];
        unsigned int bytes = 0;
        check(EVP_DigestFinal_ex(context_.get(), digest, &bytes));
        std::string text;
        for (unsigned int i = 0; i < bytes; ++i) text += fmt::format("{:02x}", digest[i]);
        return text;
    }

  private:
    static void check(bool done) {
        if (!done) throw Error("state_sha256: OpenSSL can't compute SHA-256 here");
    }
    std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context_;
};

}  // namespace

std::string state_sha256(Context& context, const CheckpointParts& parts) {
    std::vector<NamedArray> arrays;
    for (const CheckpointPart& part : parts) {
        StateDict state = part.state_dict();
        std::move(state.arrays.begin(), state.arrays.end(), std::back_inserter(arrays));
    }
    std::sort(arrays.begin(), arrays.end(), [](const NamedArray& a, const NamedArray& b) { return a.name < b.name; });
    Sha256 hash;
    for (const auto& [label, array] : arrays) {
        hash.add(fmt::format("{} {} {}\n", label, name(array.dtype), array.shape().to_string()));
        std::vector<char> bytes(static_cast<std::size_t>(array.numel()) * size_of(array.dtype));
        const View out = contiguous_view(bytes.data(), array.dtype, array.shape());
        download(context.exec(), array, out);
        hash.add(bytes.data(), bytes.size());
    }
    hash.add(fmt::format("random {}\n", context.random_counter()));
    return hash.hex();
}

}  // namespace headroom::files
