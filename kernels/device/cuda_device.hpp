#pragma once
// One context's access to a GPU: its queues of work, copies to and from the host, and its errors. A queue is a CUDA
// stream: one for kernels, one for copies to the host, one for exchanges between GPUs; copies to the device use the
// kernels' queue or their own. Each queue works in order; events order the queues among each other. The host waits in
// `copy_to_host` and `synchronize`, and in `copy_to_device` if it is far ahead of the GPU; each wait is counted. For
// tests in builds without CUDA, the "GPU" is the emulator of tests/simt, and device memory is the host's.
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
    int blocks = 8;                ///< blocks that a multiprocessor can run at once
    std::size_t shared_bytes = 0;  ///< largest shared memory of a block
};

/// The first out-of-range index that a kernel met, in memory that host and device share.
struct IndexError {
    static constexpr unsigned kNone = 0, kClaimed = 1, kComplete = 2;
    unsigned state = kNone;  ///< claimed: a kernel is writing the other fields; read them only when it is complete
    std::uint32_t path = 0;
    const char* what = nullptr;  ///< a string literal of the host: "embedding: index"
    std::int64_t value = 0, position = 0, first = 0, bound = 0;
};

enum class CudaQueue : std::uint8_t { compute, uploads, downloads, exchanges };
inline constexpr std::size_t kCudaQueues = 4;

/// A point in a queue: the end of the work that was queued when the event was last recorded. Created by a device; may
/// be destroyed before that point is reached.
class CudaEvent {
  public:
    virtual ~CudaEvent() = default;
};

/// Work of the compute queue, captured instead of run; one call runs it again with the same arguments.
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
    /// A queue's native handle: a cudaStream_t, or the emulator; null for a queue of copies in the emulator.
    void* native(CudaQueue queue = CudaQueue::compute) const { return native_[static_cast<std::size_t>(queue)]; }
    IndexError* index_error() const { return index_error_; }

    /// The driver for `DeviceMemory`, whose stream 0 is the compute queue. Must not outlive this device.
    virtual std::unique_ptr<memory::Driver> make_driver() = 0;

    // Errors of all these: DeviceError with CUDA's message, or OutOfMemory if CUDA is out of memory. Unless CUDA
    // reports a permanent error, the failed call did nothing, and work can go on.
    virtual std::unique_ptr<CudaEvent> make_event() = 0;
    /// Records the event at the current end of the queue.
    virtual void record(CudaEvent& event, CudaQueue queue) = 0;
    /// Makes later work in `queue` wait for the event, without blocking the host.
    virtual void wait(CudaQueue queue, const CudaEvent& event) = 0;

    // Bytes.
    /// Copies in queue order; `queue` must not be `downloads`. `host` may be overwritten after the call. A queue's
    /// first copy allocates 8 MiB of page-locked memory, which all its copies go through.
    void copy_to_device(const void* host, void* device, std::size_t bytes, CudaQueue queue = CudaQueue::compute);
    /// Copies from device to device, in the order of the queue: `compute` or `exchanges`.
    virtual void copy(const void* from, void* to, std::size_t bytes, CudaQueue queue = CudaQueue::compute) = 0;
    /// Waits until the copy is done. The copy starts after the work that `after` marks; without `after`, after all work
    /// in the compute queue so far.
    void copy_to_host(const void* device, void* host, std::size_t bytes, const CudaEvent* after = nullptr);
    /// Waits for all work queued so far.
    void synchronize();
    // Graphs (cudaStreamBeginCapture).
    /// Starts capturing work for the compute queue instead of running it. During capture, copies between host and
    /// device are refused (CaptureError), and so are waits and events: an event recorded in a capture can't be waited
    /// for outside it, and vice versa. Errors: DeviceError.
    void begin_capture();
    /// Ends the capture and returns its work. Errors: CaptureError if CUDA can't make a graph of it.
    std::unique_ptr<CudaGraph> end_capture();
    /// Ends the capture and discards its work; does nothing without a capture.
    void abandon_capture() noexcept;
    bool capturing() const { return capturing_; }
    /// Queues the graph's work. Errors: DeviceError.
    virtual void launch(const CudaGraph& graph) = 0;

    /// The number of times that the host has waited for the device.
    std::int64_t host_waits() const { return host_waits_; }
    /// The number of the project's kernels launched or captured, plus launched graphs.
    std::int64_t launches() const { return launches_; }
    void count_launch() { ++launches_; }

    /// The first out-of-range index since the last call, in work that the host has waited for or, possibly, in later
    /// work.
    std::optional<IndexError> take_index_error();

    // Ranges for profilers (NVTX), if a profiler is attached.
    bool profiled() const { return profiled_; }
    virtual void open_range(const char* text) = 0;
    virtual void close_range() = 0;

    /// For calls of CUDA's runtime and libraries: selects this device, because the thread may have used another GPU
    /// since. Errors: as `check_usable`.
    virtual void make_current() { check_usable(); }

    /// Errors: DeviceError if work has failed on the device: after a fault it runs nothing more.
    void check_usable() const {
        if (!fault_.empty()) refuse();
    }
    /// Records that work failed; all later work is refused with this text.
    void set_fault(std::string what) { fault_ = std::move(what); }

  protected:
    CudaDevice() = default;
    virtual void read(const void* device, void* host, std::size_t bytes, const CudaEvent* after) = 0;
    virtual void write(const void* host, void* device, std::size_t bytes, CudaQueue queue) = 0;
    virtual void finish() = 0;
    virtual void start_capture() = 0;
    /// Ends the capture, even if it fails.
    virtual std::unique_ptr<CudaGraph> finish_capture() = 0;
    void count_wait() { ++host_waits_; }
    /// Errors: CaptureError during a capture.
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

/// Opens GPU `index`, in CUDA's numbering. Errors: DeviceError in one line: no NVIDIA driver, a driver older than the
/// CUDA of this build, no GPU, no GPU of this number, or none that the binary has code for.
std::unique_ptr<CudaDevice> open_cuda_device(int index);

/// The number of GPUs; 0 without a driver.
int cuda_device_count();

/// True in tests of builds without CUDA: the "GPUs" are this processor, slow and strict.
bool cuda_is_emulated();

}  // namespace headroom::kernels
