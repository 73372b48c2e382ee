// The GPU that writes down what it is given. It comes before headroom's without_cuda.cpp.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <thread>

#include <headroom/bench/estimate/ledger.hpp>
#include <headroom/core/context.hpp>
#include <headroom/kernels/device/cuda_device.hpp>
#include <headroom/kernels/device/cuda_uuid.hpp>
#include <headroom/kernels/device/internal/emulated_thread.hpp>

namespace headroom {

namespace {

struct CountedGraph final : kernels::CudaGraph {
    estimate::Ledger ledger;
};

/// As on a GPU that computes: HEADROOM_QUEUE=LAUNCHES,MICROSECONDS says how many launches the host can be ahead, and
/// how long each takes. Without it, none takes any time.
class Queue {
  public:
    Queue() {
        if (const char* text = std::getenv("HEADROOM_QUEUE")) std::sscanf(text, "%d,%d", &launches_, &microseconds_);
    }
    void add() {
        if (launches_ == 0) return;
        const std::chrono::microseconds each(microseconds_);
        done_ = std::max(done_, Clock::now()) + each;
        std::this_thread::sleep_until(done_ - launches_ * each);
    }
    void finish() { std::this_thread::sleep_until(done_); }

  private:
    using Clock = std::chrono::steady_clock;
    int launches_ = 0, microseconds_ = 0;
    Clock::time_point done_;
};

/// As an emulated device it counts the launches of kernels that come with their sources, and does not run them.
class CountingGpu final : public kernels::CudaDevice, public kernels::device::EmulatedDevice {
  public:
    CountingGpu() {
        properties_ = {.name = "a GPU that counts", .major = 9, .multiprocessors = 132, .shared_bytes = 227 << 10};
        native_[0] = static_cast<kernels::device::EmulatedDevice*>(this);
        index_error_ = &none_;
    }
    ~CountingGpu() override {
        if (const char* file = std::getenv("HEADROOM_LEDGER")) ledger_.write(file);
    }

    std::unique_ptr<memory::Driver> make_driver() override {
        return memory::make_simulated_driver({.properties = Profile::gpu(141'000'000'000).memory});
    }
    std::unique_ptr<kernels::CudaEvent> make_event() override { return std::make_unique<kernels::CudaEvent>(); }
    void record(kernels::CudaEvent&, kernels::CudaQueue) override {}
    void wait(kernels::CudaQueue, const kernels::CudaEvent&) override {}
    void copy(const void*, void*, std::size_t bytes, kernels::CudaQueue) override {
        ledger().add("copy of memory", "", {.bytes = 2 * static_cast<double>(bytes)});
    }
    void launch(const kernels::CudaGraph& graph) override {
        ledger().add(static_cast<const CountedGraph&>(graph).ledger);
    }
    void open_range(const char*) override {}
    void close_range() override {}
    void run(const kernels::device::LaunchShape&, const char* kernel,
             const std::function<void(kernels::device::EmulatedThread&)>&) override {
        ledger().add(kernel, "", {});
    }

    /// For one launch.
    estimate::Ledger& ledger() {
        if (captured_) return captured_->ledger;
        queue_.add();
        return ledger_;
    }

  protected:
    void read(const void*, void* host, std::size_t bytes, const kernels::CudaEvent*) override {
        std::fill_n(static_cast<std::byte*>(host), bytes, std::byte{0});
        finish();
    }
    void write(const void*, void*, std::size_t bytes, kernels::CudaQueue) override {
        ledger().add("upload", "host", {.bytes = static_cast<double>(bytes)});
    }
    void finish() override {
        queue_.finish();
        ledger_.close_window();
    }
    void start_capture() override { captured_ = std::make_unique<CountedGraph>(); }
    std::unique_ptr<kernels::CudaGraph> finish_capture() override { return std::move(captured_); }

  private:
    kernels::IndexError none_;
    Queue queue_;
    estimate::Ledger ledger_;
    std::unique_ptr<CountedGraph> captured_;
};

}  // namespace

namespace kernels {

std::unique_ptr<CudaDevice> open_cuda_device(int) { return std::make_unique<CountingGpu>(); }
int cuda_device_count() { return 1; }
std::string cuda_uuid(int) { return "GPU-0"; }
bool cuda_is_emulated() { return true; }

}  // namespace kernels

namespace estimate {

Ledger& ledger_of(kernels::CudaStream& stream) { return static_cast<CountingGpu&>(*stream.device).ledger(); }

}  // namespace estimate

}  // namespace headroom
