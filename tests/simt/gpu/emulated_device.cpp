// The CUDA device of tests in builds without CUDA: kernels run in the emulator, copies are the host's, in the
// order that emulated_queues.hpp speaks of.
#include <headroom/kernels/device/cuda_device.hpp>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <headroom/kernels/device/cuda_uuid.hpp>
#include <headroom/kernels/device/gpu_model.hpp>
#include <headroom/kernels/device/internal/emulated_thread.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/tests/simt/emulator.hpp>
#include <headroom/tests/simt/gpu/emulated_memory.hpp>
#include <headroom/tests/simt/gpu/emulated_queues.hpp>

namespace headroom::kernels {

namespace {

CudaProperties like(const char* model, int multiprocessors) {
    const GpuModel& known = gpu_model(model);
    return {.major = known.capability / 10,
            .minor = known.capability % 10,
            .multiprocessors = multiprocessors,
            .shared_bytes = known.shared_bytes};
}

constexpr int kCount = 4;

/// They differ in what results must not depend on; number 2 has no bf16 on tensor cores either.
CudaProperties properties_of(int gpu) {
    if (gpu == 2) return like("RTX 2080 Ti", 5);
    return gpu == 1 ? like("RTX 3090", 7) : like("A100 80GB", gpu == 0 ? 2 : 3);
}

/// By the GPU's number in its machine. Processes that are told different machines are as if on these.
std::string uuid_of(int gpu) {
    const char* const machine = std::getenv("HEADROOM_EMULATED_MACHINE");
    return fmt::format("GPU-{:08x}-0000-0000-0000-{:012x}", machine ? std::atoi(machine) : 0, gpu);
}

/// As CUDA does: numbers or UUIDs, up to the first that is of no GPU.
std::vector<int> visible_gpus() {
    const char* const chosen = std::getenv("CUDA_VISIBLE_DEVICES");
    std::vector<int> gpus;
    if (!chosen) {
        for (int gpu = 0; gpu < kCount; ++gpu) gpus.push_back(gpu);
        return gpus;
    }
    std::istringstream list(chosen);
    for (std::string one; std::getline(list, one, ',');) {
        int gpu = 0;
        while (gpu < kCount && one != std::to_string(gpu) && one != uuid_of(gpu)) ++gpu;
        if (gpu == kCount) break;
        gpus.push_back(gpu);
    }
    return gpus;
}

/// Errors: DeviceError if there is no such GPU.
int visible_gpu(int index) {
    const std::vector<int> gpus = visible_gpus();
    if (index < 0 || index >= static_cast<int>(gpus.size()))
        throw DeviceError(fmt::format("cuda: device {} does not exist; the emulator has {}", index, gpus.size()));
    return gpus[static_cast<std::size_t>(index)];
}

/// Of `CudaDevice::make_current`.
thread_local std::string current_gpu;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)

// What a graph that can be launched takes of the device's memory, which no plan has: a guess, of the right kind.
constexpr std::size_t kGraphBytes = 64 << 10, kNodeBytes = 1 << 10;

class EmulatedGraph final : public CudaGraph {
  public:
    explicit EmulatedGraph(std::shared_ptr<EmulatedMemory> memory) : memory_(std::move(memory)) {}
    ~EmulatedGraph() override { memory_->give_back(taken_); }
    void instantiate() {
        taken_ = kGraphBytes + kNodeBytes * work->size();
        memory_->take(taken_);
    }
    std::shared_ptr<std::vector<EmulatedQueues::Work>> work = std::make_shared<std::vector<EmulatedQueues::Work>>();

  private:
    std::shared_ptr<EmulatedMemory> memory_;
    std::size_t taken_ = 0;
};

struct EmulatedEvent final : CudaEvent {
    EmulatedQueues::Point point;
};

class EmulatedCudaDevice final : public CudaDevice, public device::EmulatedDevice, public EmulatedControls {
  public:
    explicit EmulatedCudaDevice(int index) {
        const int gpu = visible_gpu(index);
        properties_ = properties_of(gpu);
        properties_.index = index;
        uuid_ = uuid_of(gpu);
        properties_.name = "emulated GPU";
        native_[static_cast<std::size_t>(CudaQueue::compute)] = static_cast<device::EmulatedDevice*>(this);
        native_[static_cast<std::size_t>(CudaQueue::exchanges)] = static_cast<device::EmulatedDevice*>(&exchanges_);
        index_error_ = &error_;
        memory_ = emulated_memory(gpu);
    }

    void make_current() override {
        check_usable();
        current_gpu = uuid_;
    }
    std::unique_ptr<memory::Driver> make_driver() override { return make_guarded_driver(memory_, queues_); }

    std::unique_ptr<CudaEvent> make_event() override {
        ++events_;
        return std::make_unique<EmulatedEvent>();
    }
    void record(CudaEvent& event, CudaQueue queue) override {
        check_usable();
        check_not_captured("an event");
        static_cast<EmulatedEvent&>(event).point = queues_->end(queue);
    }
    void wait(CudaQueue queue, const CudaEvent& event) override {
        check_usable();
        check_not_captured("an event");
        queues_->wait(queue, static_cast<const EmulatedEvent&>(event).point);
    }

    void copy(const void* from, void* to, std::size_t bytes, CudaQueue queue) override {
        check_usable();
        give(queue, [=] {
            if (bytes > 0) std::memcpy(to, from, bytes);
        });
    }

    void run(const device::LaunchShape& shape, const char* kernel,
             const std::function<void(device::EmulatedThread&)>& body) override {
        give(CudaQueue::compute, [=, this] { emulator_.run(shape, kernel, body); });
    }
    void call(const std::function<void()>& work) override { give(CudaQueue::compute, work); }

    void launch(const CudaGraph& graph) override {
        check_usable();
        count_launch();
        give(CudaQueue::compute, [all = static_cast<const EmulatedGraph&>(graph).work] {
            for (const EmulatedQueues::Work& work : *all) work();
        });
    }
    std::int64_t calls() const override { return calls_; }
    void set_order(EmulatedOrder order) override { queues_->set_order(order); }
    void run_at_most(std::uint64_t blocks) override {
        emulator_.run_at_most(blocks);
        properties_.multiprocessors = 1 << 27;
    }
    bool idle() const override { return queues_->idle(); }
    std::int64_t events() const override { return events_; }

    // There is no profiler for it: these are never called.
    void open_range(const char*) override {}
    void close_range() override {}

  protected:
    void write(const void* host, void* device, std::size_t bytes, CudaQueue queue) override {
        const auto* const begin = static_cast<const std::byte*>(host);
        give(queue, [device, staged = std::vector<std::byte>(begin, begin + bytes)] {
            if (!staged.empty()) std::memcpy(device, staged.data(), staged.size());
        });
    }
    void read(const void* device, void* host, std::size_t bytes, const CudaEvent* after) override {
        const auto* const event = static_cast<const EmulatedEvent*>(after);
        queues_->wait(CudaQueue::downloads, event ? event->point : queues_->end(CudaQueue::compute));
        give(CudaQueue::downloads, [=] {
            if (bytes > 0) std::memcpy(host, device, bytes);
        });
        queues_->reach(queues_->end(CudaQueue::downloads));
    }
    void start_capture() override { captured_ = std::make_unique<EmulatedGraph>(memory_); }
    std::unique_ptr<CudaGraph> finish_capture() override {
        captured_->instantiate();
        return std::move(captured_);
    }
    void finish() override {
        queues_->reach(queues_->end(CudaQueue::uploads));
        queues_->reach(queues_->end(CudaQueue::exchanges));
        queues_->reach(queues_->end(CudaQueue::compute));
    }

  private:
    /// The queue of exchanges, to which libraries give calls.
    class Exchanges final : public device::EmulatedDevice {
      public:
        explicit Exchanges(EmulatedCudaDevice& device) : device_(device) {}
        void run(const device::LaunchShape& shape, const char* kernel,
                 const std::function<void(device::EmulatedThread&)>& body) override {
            call([=, this] { device_.emulator_.run(shape, kernel, body); });
        }
        void call(const std::function<void()>& work) override { device_.give(CudaQueue::exchanges, work); }

      private:
        EmulatedCudaDevice& device_;
    };
    class Access {
      public:
        explicit Access(EmulatedMemory& memory) : memory_(memory) { memory_.open(); }
        ~Access() { memory_.close(); }
        Access(const Access&) = delete;
        Access& operator=(const Access&) = delete;

      private:
        EmulatedMemory& memory_;
    };

    /// With the device's memory open while it is done. What breaks a kernel's rules is a fault.
    void give(CudaQueue queue, EmulatedQueues::Work work) {
        if (capturing() && queue == CudaQueue::compute) return captured_->work->push_back(std::move(work));
        ++calls_;
        queues_->give(queue, [this, work = std::move(work)] {
            const Access access(*memory_);
            try {
                work();
            } catch (const std::runtime_error& error) {
                if (dynamic_cast<const Error*>(&error)) throw;
                set_fault(error.what());
                throw DeviceError(error.what());
            }
        });
    }

    std::string uuid_;
    simt::Emulator emulator_;
    Exchanges exchanges_{*this};
    std::shared_ptr<EmulatedMemory> memory_;
    std::shared_ptr<EmulatedQueues> queues_ = std::make_shared<EmulatedQueues>();
    IndexError error_;
    std::int64_t events_ = 0;
    std::unique_ptr<EmulatedGraph> captured_;
    std::int64_t calls_ = 0;
};

}  // namespace

std::unique_ptr<CudaDevice> open_cuda_device(int index) { return std::make_unique<EmulatedCudaDevice>(index); }

int cuda_device_count() { return static_cast<int>(visible_gpus().size()); }

std::string cuda_uuid(int index) { return uuid_of(visible_gpu(index)); }

bool cuda_is_emulated() { return true; }

}  // namespace headroom::kernels

/// The UUID of the calling thread's current GPU, for libraries that stand in for NVIDIA's; "" without one.
extern "C" __attribute__((visibility("default"))) const char* headroom_emulated_gpu() {
    return headroom::kernels::current_gpu.c_str();
}
