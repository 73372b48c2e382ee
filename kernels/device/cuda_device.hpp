#pragma once
// A GPU as one context uses it: its queues of work, copies to and from the host, and its errors. A queue is a CUDA
// stream: kernels go to one, copies to the host to another, copies to the device to the kernels' or to a third, and
// what GPUs send each other to a fourth. Each queue works in order; events order the queues among each other. The host
// waits in `copy_to_host` and `synchronize`, and in `copy_to_device` if it is far ahead of the GPU; each wait is
// counted. For tests in builds without CUDA the "GPU" is the emulator of tests/simt, and device memory is the host's.
//
//     std::unique_ptr<CudaDevice> device = kernels::open_cuda_device(0);
//     CudaStream stream{.state = &state, .device = device.get()};
//     kernels::softmax(stream, x, y);                      // returns at once
//     device->copy_to_host(y.data, result.data(), bytes);  // waits
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include <headroom/kernels/stream.hpp>
#include <headroom/memory/driver.hpp>
#include <headroom/memory/error.hpp>

namespace headroom::kernels {

struct CudaProperties {
    int index = 0;
    std::string name = {};
    int major = 0, minor = 0;  ///< compute capability
    int capability() const { return 10 * major + minor; }
    int multiprocessors = 1;
    int blocks = 8;                ///< the most that a multiprocessor runs at once
    std::size_t shared_bytes = 0;  ///< the most shared memory that a block may have
};

/// The first index out of range that a kernel met; lies in memory that host and device see.
struct IndexError {
    static constexpr unsigned kNone = 0, kClaimed = 1, kComplete = 2;
    unsigned state = kNone;  ///< claimed: a kernel writes the other fields; read them only when it is complete
    std::uint32_t path = 0;
    const char* what = nullptr;  ///< the host's, a literal: "embedding: index"
    std::int64_t value = 0, position = 0, first = 0, bound = 0;
};

enum class CudaQueue : std::uint8_t { compute, uploads, downloads, exchanges };
inline constexpr std::size_t kCudaQueues = 4;

/// A point in the work of a queue: the work that was queued before the event was last recorded. Made by a device; may
/// be destroyed before that point is reached.
class CudaEvent {
  public:
    virtual ~CudaEvent() = default;
};

/// Work of the compute queue that was captured instead of done; one call does all of it, with the same arguments.
class CudaGraph {
  public:
    virtual ~CudaGraph() = default;
};

class CudaDevice {
  public:
    virtual ~CudaDevice() = default;
    CudaDevice(const CudaDevice&) = delete;
    CudaDevice& operator=(const CudaDevice&) = delete;

    const CudaProperties& properties() const { return properties_; }
    /// A queue: a cudaStream_t, or the emulator; null for a queue of copies in the emulator.
    void* native(CudaQueue queue = CudaQueue::compute) const { return native_[static_cast<std::size_t>(queue)]; }
    IndexError* index_error() const { return index_error_; }

    /// The driver for `DeviceMemory`, whose stream 0 is the compute queue. Must not outlive this device.
    virtual std::unique_ptr<memory::Driver> make_driver() = 0;

    // Errors of all these: DeviceError, with CUDA's message, or OutOfMemory if CUDA finds none. Unless CUDA says that
    // an error is for good, the call did nothing, and work can go on.
    virtual std::unique_ptr<CudaEvent> make_event() = 0;
    /// Marks the present end of the queue.
    virtual void record(CudaEvent& event, CudaQueue queue) = 0;
    /// Work that is queued from now on waits for the work that `event` marks now. The host goes on.
    virtual void wait(CudaQueue queue, const CudaEvent& event) = 0;

    // Bytes.
    /// In the order of the queue, which is not `downloads`. `host` may be overwritten after the call. A queue's first
    /// copy takes 8 MiB of page-locked memory, through which all go.
    void copy_to_device(const void* host, void* device, std::size_t bytes, CudaQueue queue = CudaQueue::compute);
    /// Device to device, in the order of the queue: `compute` or `exchanges`.
    virtual void copy(const void* from, void* to, std::size_t bytes, CudaQueue queue = CudaQueue::compute) = 0;
    /// Waits until the copy is done. It begins when the work that `after` marks is done; without `after`, all work of
    /// the compute queue so far.
    void copy_to_host(const void* device, void* host, std::size_t bytes, const CudaEvent* after = nullptr);
    /// Waits for all work so far.
    void synchronize();
    // Graphs (cudaStreamBeginCapture).
    /// From here on, work for the compute queue is captured instead of done. Meanwhile copies from and to the host are
    /// refused (CaptureError), and so are waits and events: an event recorded in a capture can't be waited for outside
    /// of it, and the other way round. Errors: DeviceError.
    void begin_capture();
    /// Ends the capture and returns its work. Errors: CaptureError if CUDA can't make a graph of it.
    std::unique_ptr<CudaGraph> end_capture();
    /// Ends the capture and forgets its work; without a capture does nothing.
    void abandon_capture() noexcept;
    bool capturing() const { return capturing_; }
    /// Queues the graph's work. Errors: DeviceError.
    virtual void launch(const CudaGraph& graph) = 0;

    /// The number of times that the host has waited for the device.
    std::int64_t host_waits() const { return host_waits_; }
    /// The number of kernels of ours that were launched or captured, and of graphs.
    std::int64_t launches() const { return launches_; }
    void count_launch() { ++launches_; }

    /// The first index out of range since the last call, of work that the host has waited for; maybe of later work.
    std::optional<IndexError> take_index_error();

    // Ranges for profilers (NVTX), if a profiler is attached.
    bool profiled() const { return profiled_; }
    virtual void open_range(const char* text) = 0;
    virtual void close_range() = 0;

    /// For calls of CUDA's runtime and libraries: the thread may have used another GPU since. Errors: as
    /// `check_usable`.
    virtual void make_current() { check_usable(); }

    /// Errors: DeviceError if work failed on the device: after a fault nothing runs there any more.
    void check_usable() const {
        if (!fault_.empty()) refuse();
    }
    /// Records that work failed: all later work is refused with this text.
    void set_fault(std::string what) { fault_ = std::move(what); }

  protected:
    CudaDevice() = default;
    virtual void read(const void* device, void* host, std::size_t bytes, const CudaEvent* after) = 0;
    virtual void write(const void* host, void* device, std::size_t bytes, CudaQueue queue) = 0;
    virtual void finish() = 0;
    virtual void start_capture() = 0;
    /// Ends the capture in any case.
    virtual std::unique_ptr<CudaGraph> finish_capture() = 0;
    void count_wait() { ++host_waits_; }
    /// Errors: CaptureError while work is captured.
    void check_not_captured(const char* what) const;

    CudaProperties properties_;
    std::array<void*, kCudaQueues> native_{};
    IndexError* index_error_ = nullptr;
    bool profiled_ = false;

  private:
    [[noreturn]] void refuse() const;

    std::int64_t host_waits_ = 0, launches_ = 0;
    std::string fault_;
    bool capturing_ = false;
};

/// The GPU with this number, as CUDA counts them. Errors: DeviceError in one line: no NVIDIA driver, a driver older
/// than the CUDA that this was built with, no GPU, none of this number, or none that the binary has code for.
std::unique_ptr<CudaDevice> open_cuda_device(int index);

/// The number of GPUs; 0 without a driver.
int cuda_device_count();

/// True in tests of builds without CUDA: the "GPUs" are this processor, slow and strict.
bool cuda_is_emulated();

}  // namespace headroom::kernels
