#include <unistd.h>
#include <headroom/tests/simt/sanitizers.hpp>

#include <cstring>
#include <sys/syscall.h>

namespace headroom::simt::sanitizers {
namespace {

// A sanitizer's hooks take no argument. One kernel runs at a time in a thread of the host.
thread_local const char* running = nullptr;

// Straight to the system: whoever calls is in the middle of a report.
[[maybe_unused]] void print_context() {
    if (running) syscall(SYS_write, STDERR_FILENO, running, std::strlen(running));
}

}  // namespace

void report_with(const char* context) {
    running = context;
#if defined(__SANITIZE_ADDRESS__)
    __asan_set_error_report_callback([](const char*) { print_context(); });
#endif
}

}  // namespace headroom::simt::sanitizers

#if defined(HEADROOM_SIMT_TSAN)
// Nothing runs in the background that could still race when a test ends.
extern "C" const char* __tsan_default_options() { return "atexit_sleep_ms=0"; }
extern "C" void __tsan_on_report(void*) { headroom::simt::sanitizers::print_context(); }
#endif
