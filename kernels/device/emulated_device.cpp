// The CUDA device of builds with HEADROOM_CUDA=EMULATED: kernels run in the emulator, before their launch returns.
#include <headroom/kernels/device/cuda_device.hpp>

#include <cstring>

#include <fmt/format.h>

#include <headroom/kernels/device/emulated_memory.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/tests/simt/emulator.hpp>

namespace headroom {

namespace {

constexpr int kDevices = 2;

class EmulatedCudaDevice final : public CudaDevice {
  public:
    explicit EmulatedCudaDevice(int index) {
        properties_ = {.index = index,
                       .name = "emulated GPU",
                       .major = 8,
                       .minor = 0,
                       .multiprocessors = 2,
                       .memory = make_host_driver()->properties().total_bytes};
        native_ = static_cast<device::EmulatedDevice*>(&emulator_);
        index_error_ = &error_;
        memory_ = emulated_memory(index);
    }

    std::unique_ptr<Driver> make_driver() override { return make_guarded_driver(memory_); }
    void copy_to_device(const void* host, void* device, std::size_t bytes) override { copy(host, device, bytes); }
    void copy(const void* from, void* to, std::size_t bytes) override {
        check_usable();
        const Access access(*this);
        if (bytes > 0) std::memcpy(to, from, bytes);
    }

    // There is no profiler for it: these are never called.
    void open_range(const char*) override {}
    void close_range() override {}

  protected:
    void read(const void* device, void* host, std::size_t bytes) override { copy(device, host, bytes); }
    void wait() override {}
    void open_memory() override { memory_->open(); }
    void close_memory() noexcept override { memory_->close(); }

  private:
    simt::Emulator emulator_;
    std::shared_ptr<EmulatedMemory> memory_;
    IndexError error_;
};

}  // namespace

std::unique_ptr<CudaDevice> open_cuda_device(int index) {
    if (index < 0 || index >= kDevices) {
        throw DeviceError(fmt::format("cuda: there is no device {}; the emulator has {}", index, kDevices));
    }
    return std::make_unique<EmulatedCudaDevice>(index);
}

int cuda_device_count() { return kDevices; }

bool cuda_is_emulated() { return true; }

}  // namespace headroom
