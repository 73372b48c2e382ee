#include <headroom/tests/simt/arena.hpp>

#include <cstring>
#include <new>
#include <headroom/tests/simt/sanitizers.hpp>

namespace headroom::simt {
namespace {

/// Sets as many flags as a Word has bytes, or says whether all are set. The copies are moves, no library's calls, which
/// ThreadSanitizer would take for the CUDA thread's.
template <class Word>
bool note(bool* flags, bool set) {
    constexpr auto all = static_cast<Word>(0x0101010101010101u);
    Word word = all;
    if (set) {
        __builtin_memcpy(flags, &word, sizeof word);
    } else {
        __builtin_memcpy(&word, flags, sizeof word);
    }
    return word == all;
}

}  // namespace

Arena::Arena(std::size_t bytes)
    : bytes_(bytes),
      memory_(static_cast<std::byte*>(::operator new (bytes, std::align_val_t{128}))),
      written_(std::make_unique<bool[]>(bytes)) {
    std::memset(memory_.get(), 0xff, bytes);
    sanitizers::poison(memory_.get(), bytes);
}

Arena::~Arena() { sanitizers::unpoison(memory_.get(), bytes_); }

Arena::Answer Arena::region(unsigned number, std::size_t bytes) {
    if (number >= kMostRegions)
        return {nullptr, "more than 64 regions of shared memory; is shared() called in a loop?"};
    if (number == count_) {
        const std::size_t end = used_ + kernels::device::shared_size<std::byte>(bytes);
        if (end > bytes_) return {nullptr, "shared() asks for more than the launch's shared_bytes has left"};
        regions_[count_++] = {used_, bytes};
        sanitizers::unpoison(memory_.get() + used_, bytes);
        used_ = end;
    }
    if (regions_[number].bytes != bytes)
        return {nullptr, "threads ask for shared memory in different sizes, or in a different order"};
    return {memory_.get() + regions_[number].offset, nullptr};
}

bool Arena::access(const void* address, std::size_t bytes, kernels::device::EmulatedThread::Access access) {
    bool* written = written_.get() + (static_cast<const std::byte*>(address) - memory_.get());
    const bool writes = access == kernels::device::EmulatedThread::Access::write;
    for (; bytes >= 8; written += 8, bytes -= 8)
        if (!note<std::uint64_t>(written, writes)) return false;
    for (; bytes >= 4; written += 4, bytes -= 4)
        if (!note<std::uint32_t>(written, writes)) return false;
    for (; bytes > 0; ++written, --bytes)
        if (!note<std::uint8_t>(written, writes)) return false;
    return true;
}

}  // namespace headroom::simt
