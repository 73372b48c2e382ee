#pragma once
// Detects a forked child process by a page that the system wipes in the child.
//
//     memory::OwnProcess process;
//     if (fork() == 0) assert(!process.here());
namespace headroom::memory {

class OwnProcess {
  public:
    OwnProcess() noexcept;
    ~OwnProcess();
    OwnProcess(const OwnProcess&) = delete;
    OwnProcess& operator=(const OwnProcess&) = delete;

    /// Always true where the system can't wipe a page (Linux before 4.14).
    bool here() const noexcept { return !mark_ || *mark_ != 0; }

  private:
    volatile int* mark_ = nullptr;
};

}  // namespace headroom::memory
