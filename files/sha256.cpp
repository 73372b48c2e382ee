#include <headroom/files/internal/sha256.hpp>

#include <fmt/format.h>
#include <openssl/evp.h>

#include <headroom/memory/error.hpp>

namespace headroom::files {

namespace {

void check(bool done) {
    if (!done) throw Error("OpenSSL can't compute SHA-256 here");
}

}  // namespace

struct Sha256::State {
    std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context{EVP_MD_CTX_new(), &EVP_MD_CTX_free};
};

Sha256::Sha256() : state_(std::make_unique<State>()) {
    check(state_->context && EVP_DigestInit_ex(state_->context.get(), EVP_sha256(), nullptr));
}

Sha256::~Sha256() = default;

void Sha256::add(const void* data, std::size_t bytes) { check(EVP_DigestUpdate(state_->context.get(), data, bytes)); }

std::string Sha256::hex() {
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned int bytes = 0;
    check(EVP_DigestFinal_ex(state_->context.get(), digest, &bytes));
    std::string text;
    for (unsigned int i = 0; i < bytes; ++i) text += fmt::format("{:02x}", digest[i]);
    return text;
}

}  // namespace headroom::files
