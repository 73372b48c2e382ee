#include <sys/mman.h>
#include <headroom/tests/simt/fiber.hpp>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <headroom/tests/simt/sanitizers.hpp>

namespace headroom::simt {
namespace {

constexpr std::size_t kGuard = 4096 * 16;  // pages of up to 64 KiB
constexpr std::size_t kStack = 256 * 1024;

}  // namespace

#if !defined(HEADROOM_SIMT_UCONTEXT)

// Saves what a call must preserve, changes stacks, and returns to where the other stack was left. The first time that
// is `headroom_fiber_begin`, with the fiber in rbx, where Fiber::start put it.
extern "C" void headroom_fiber_switch(void** saved_stack_pointer, void* stack_pointer);
extern "C" void headroom_fiber_begin();
extern "C" [[noreturn]] void headroom_fiber_enter(void* fiber) { static_cast<Fiber*>(fiber)->begin(); }
asm(R"(
.text
.globl headroom_fiber_switch
.type headroom_fiber_switch, @function
headroom_fiber_switch:
    push %rbp
    push %rbx
    push %r12
    push %r13
    push %r14
    push %r15
    mov %rsp, (%rdi)
    mov %rsi, %rsp
    pop %r15
    pop %r14
    pop %r13
    pop %r12
    pop %rbx
    pop %rbp
    ret
.size headroom_fiber_switch, . - headroom_fiber_switch
.globl headroom_fiber_begin
.type headroom_fiber_begin, @function
headroom_fiber_begin:
    mov %rbx, %rdi
    call headroom_fiber_enter@PLT
    ud2
.size headroom_fiber_begin, . - headroom_fiber_begin
)");

#else

namespace {

// makecontext passes ints.
void enter(unsigned high, unsigned low) { reinterpret_cast<Fiber*>((std::uintptr_t{high} << 32) | low)->begin(); }

}  // namespace

#endif

Fiber::Fiber() : tsan_(sanitizers::create_fiber()) {
    void* memory =
        mmap(nullptr, kGuard + kStack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    mapping_ = static_cast<std::byte*>(memory);
    if (mprotect(mapping_, kGuard, PROT_NONE) != 0) throw std::bad_alloc();
}

Fiber::~Fiber() {
    sanitizers::destroy_fiber(tsan_);
    sanitizers::unpoison(mapping_ + kGuard, kStack);
    munmap(mapping_, kGuard + kStack);
}

void Fiber::name(const char* text) { sanitizers::name_fiber(tsan_, text); }

void Fiber::start(Entry entry, void* argument) {
    entry_ = entry;
    argument_ = argument;
    finished_ = false;
    asan_ = nullptr;
#if !defined(HEADROOM_SIMT_UCONTEXT)
    void* frame[8] = {};  // r15 r14 r13 r12 rbx rbp, the address that `ret` takes, and one for alignment
    frame[4] = this;
    frame[6] = reinterpret_cast<void*>(&headroom_fiber_begin);
    stack_pointer_ = mapping_ + kGuard + kStack - 72;  // so that the call in headroom_fiber_begin is aligned to 16
    std::memcpy(stack_pointer_, frame, sizeof frame);
#else
    getcontext(&context_);
    context_.uc_stack.ss_sp = mapping_ + kGuard;
    context_.uc_stack.ss_size = kStack;
    context_.uc_link = nullptr;
    const auto self = reinterpret_cast<std::uintptr_t>(this);
    makecontext(&context_, reinterpret_cast<void (*)()>(enter), 2, static_cast<unsigned>(self >> 32),
                static_cast<unsigned>(self));
#endif
}

void Fiber::abandon() {
    if (finished_) return;
    sanitizers::join_fiber(tsan_);
    sanitizers::destroy_fiber(tsan_);  // its frames are still on the sanitizers' books
    tsan_ = sanitizers::create_fiber();
    sanitizers::unpoison(mapping_ + kGuard, kStack);
    finished_ = true;
}

void Fiber::resume() {
    tsan_resumer_ = sanitizers::current_fiber();
    sanitizers::start_switch(&asan_resumer_, mapping_ + kGuard, kStack);
    sanitizers::switch_to(tsan_);
#if !defined(HEADROOM_SIMT_UCONTEXT)
    headroom_fiber_switch(&resumer_, stack_pointer_);
#else
    swapcontext(&resumer_, &context_);
#endif
    sanitizers::finish_switch(asan_resumer_, nullptr, nullptr);
}

void Fiber::begin() {
    sanitizers::finish_switch(nullptr, &resumer_bottom_, &resumer_bytes_);
    entry_(argument_);
    finished_ = true;
    switch_out(true);
    std::abort();  // nobody resumes a finished fiber
}

void Fiber::suspend() { switch_out(false); }

void Fiber::switch_out(bool for_good) {
    sanitizers::start_switch(for_good ? nullptr : &asan_, resumer_bottom_, resumer_bytes_);
    sanitizers::switch_to(tsan_resumer_);
#if !defined(HEADROOM_SIMT_UCONTEXT)
    headroom_fiber_switch(&stack_pointer_, resumer_);
#else
    swapcontext(&context_, &resumer_);
#endif
    sanitizers::finish_switch(asan_, &resumer_bottom_, &resumer_bytes_);
}

}  // namespace headroom::simt
