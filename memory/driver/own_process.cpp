#include <headroom/memory/driver/internal/own_process.hpp>

#include <sys/mman.h>

namespace headroom::memory {

OwnProcess::OwnProcess() noexcept {
    void* const page = mmap(nullptr, sizeof(int), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) return;
    if (madvise(page, sizeof(int), MADV_WIPEONFORK) != 0) {
        munmap(page, sizeof(int));
        return;
    }
    mark_ = static_cast<volatile int*>(page);
    *mark_ = 1;
}

OwnProcess::~OwnProcess() {
    if (mark_) munmap(const_cast<int*>(mark_), sizeof(int));
}

}  // namespace headroom::memory
