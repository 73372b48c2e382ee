#include <headroom/tests/kernels/kernel_table.hpp>

#include <cmath>
#include <cstring>
#include <string_view>

#include <headroom/kernels/random/philox.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/tests/kernels/race_cases.hpp>
#if HEADROOM_CUDA_KERNELS
#include <headroom/tests/kernels/gpu.hpp>
#endif

namespace headroom::kernels::test {

// ---- devices

#if HEADROOM_CUDA_KERNELS
bool is_there(Place place) { return place == Place::cpu || cuda_device_count() > 0; }
#else
bool is_there(Place) { return true; }
#endif

Device::Device(Place place, int threads) : place_(place), stream_(CpuStream{.threads = threads, .state = &state_}) {
#if HEADROOM_CUDA_KERNELS
    if (place == Place::gpu) {
        gpu_ = std::make_shared<Gpu>();
        stream_ = gpu_->stream;
    }
#endif
}

Device::~Device() = default;

View Device::put(const TestArray& x) {
#if HEADROOM_CUDA_KERNELS
    if (gpu_) return gpu_->put(x);
#endif
    return arrays_.emplace_back(x);
}

void Device::get(const View& view, TestArray& x) {
#if HEADROOM_CUDA_KERNELS
    if (gpu_) return gpu_->get(view, x);
#endif
    std::memcpy(x.begin_of_memory(), static_cast<std::byte*>(view.data) - x.first(), x.memory().size());
}

std::byte* Device::scratch(const std::function<std::size_t(Stream&)>& size) {
    const std::size_t bytes = size(stream_);
    Stream rehearsal = DryStream{.threads = threads_of(stream_), .state = &state_, .cuda = on_cuda(stream_)};
    EXPECT_EQ(size(rehearsal), bytes);
#if HEADROOM_CUDA_KERNELS
    if (gpu_) return gpu_->scratch(bytes);
#endif
    scratch_.push_back(std::make_unique<std::byte[]>(bytes));
    std::memset(scratch_.back().get(), 0xff, bytes);
    return scratch_.back().get();
}

void Device::expect_index_error(const std::string& what, [[maybe_unused]] std::int64_t value, std::int64_t position,
                                std::int64_t bound, const std::function<void()>& call) {
    SCOPED_TRACE(what);
    if (!gpu_) {
        try {
            call();
            ADD_FAILURE() << "accepted";
        } catch (const ShapeError& error) {
            const std::string expected =
                "position " + std::to_string(position) + " is outside of [0, " + std::to_string(bound) + ")";
            EXPECT_NE(std::string_view(error.what()).find(expected), std::string_view::npos) << error.what();
        }
        return;
    }
#if HEADROOM_CUDA_KERNELS
    call();
    gpu_->device->synchronize();
    const auto error = gpu_->device->take_index_error();
    ASSERT_TRUE(error.has_value());
    EXPECT_EQ(error->what, what);
    EXPECT_EQ(error->value, value);
    EXPECT_EQ(error->position, position);
    EXPECT_EQ(error->bound, bound);
#endif
}

// ---- trials

Fill normal(Random& random, double mean, double deviation) {
    return [&random, mean, deviation](TestArray& x) { x.fill(random, mean, deviation); };
}

Fill indices(Random& random, std::int64_t bound) {
    return [&random, bound](TestArray& x) { x.fill_indices(random, bound); };
}

Fill all(double value) {
    return [value](TestArray& x) {
        for (std::int64_t i = 0; i < x.numel(); ++i) x.set(i, value);
    };
}

void number(TestArray& x) {
    const std::int64_t values = x.view().dtype == Dtype::boolean ? 2 : 113;
    for (std::int64_t i = 0; i < x.numel(); ++i) x.set(i, static_cast<double>(i % values));
}

const TestArray& Trial::input(Dtype dtype, const Shape& shape, Layout layout, const Fill& fill) {
    fill(in.emplace_back(dtype, shape, layout));
    return in.back();
}

Output& Trial::output(Dtype dtype, const Shape& shape, Layout layout, const Fill& fill) {
    TestArray array(dtype, shape, layout);
    if (fill) fill(array);
    out.push_back({.array = array, .value = {}, .error = {}});
    return out.back();
}

namespace {

/// Runs the call on copies. `over`: outputs take the memory of the input that they may. The bits that come out.
std::vector<TestArray> results(Device& device, const Trial& trial, bool over = false) {
    Views in, out;
    for (const TestArray& x : trial.in) in.push_back(device.put(x));
    for (const Output& y : trial.out) {
        out.push_back(over && y.over >= 0 ? in[static_cast<std::size_t>(y.over)] : device.put(y.array));
    }
    trial.call(device, in, out);
    std::vector<TestArray> result;
    for (std::size_t i = 0; i < out.size(); ++i) device.get(out[i], result.emplace_back(trial.out[i].array));
    for (std::size_t i = 0; i < in.size(); ++i) {
        TestArray after(trial.in[i]);
        device.get(in[i], after);
        EXPECT_TRUE(over || after.memory() == trial.in[i].memory()) << "input " << i << " was written to";
    }
    return result;
}

void expect_near(const TestArray& y, const Output& expected) {
    ASSERT_EQ(expected.value.size(), static_cast<std::size_t>(y.numel()));
    for (std::size_t i = 0; i < expected.value.size(); ++i) {
        const double truth = expected.value[i], result = y.get(static_cast<std::int64_t>(i));
        const double error = expected.error[i];
        if (!std::isfinite(truth)) {
            ASSERT_TRUE(std::isnan(truth) ? std::isnan(result) : result == truth)
                << "element " << i << " is " << result << ", not " << truth;
        } else {
            const bool rounds = error != 0 && (expected.rounds || is_half(y.view().dtype));
            ASSERT_NEAR(result, truth, error + (rounds ? rounding(y.view().dtype, truth) : 0)) << "element " << i;
        }
    }
    ASSERT_TRUE(y.gaps_untouched());
}

void expect_same_bits(const std::vector<TestArray>& a, const std::vector<TestArray>& b, const char* when) {
    for (std::size_t i = 0; i < a.size(); ++i) EXPECT_EQ(a[i].memory(), b[i].memory()) << "output " << i << when;
}

class Row : public testing::Test {
  public:
    Row(const Case& c, const Variant& v, Place place, std::uint64_t seed)
        : case_(c), variant_(v), place_(place), seed_(seed) {}

    void TestBody() override {
        if (!is_there(place_)) GTEST_SKIP() << "there is no GPU";
        Random random(seed_);
        const Trial trial = case_.make(variant_, random);
        Device device(place_);
        const auto first = expect_values(device, trial);
        if (HasFailure() || variant_.in != Layout::contiguous || variant_.out != Layout::contiguous) return;
        if (place_ == Place::gpu && case_.large) return;
        for (const int threads : place_ == Place::cpu ? std::vector{1, 5} : std::vector{1}) {
            Device again(place_, threads);
            expect_same_bits(results(again, trial), first, " has other bits the second time");
        }
        bool over = false;
        for (const Output& y : trial.out) over = over || y.over >= 0;
        if (over) expect_same_bits(results(device, trial, true), first, " has other bits in place of an input");
    }

  private:
    Case case_;
    Variant variant_;
    Place place_;
    std::uint64_t seed_;
};

const char* name_of(Layout layout) {
    constexpr const char* names[] = {"contiguous", "gaps", "transposed", "shifted", "slice", "ragged"};
    return names[static_cast<int>(layout)];
}

}  // namespace

std::vector<TestArray> expect_values(Device& device, const Trial& trial) {
    auto result = results(device, trial);
    for (std::size_t i = 0; i < result.size(); ++i) {
        SCOPED_TRACE("output " + std::to_string(i) + ": " + describe(result[i]));
        expect_near(result[i], trial.out[i]);
    }
    return result;
}

// ---- the table

std::string to_name(const Shape& shape) {
    std::string result;
    for (const std::int64_t size : shape) result.append(result.empty() ? "" : "x").append(std::to_string(size));
    return result.empty() ? "scalar" : result;
}

bool add_rows(const std::string& kernel, const Cases& cases) {
    int number = 0;
    for (const Case& c : cases) {
        for (const Dtype dtype : c.dtypes) {
            for (const auto& [in, out] : c.layouts) {
                for (const Place place : c.places) {
                    // Under ThreadSanitizer, a share of the GPU's rows; eleven meets each dtype and layout.
                    if (kRaces && (place == Place::cpu || c.large || number++ % 11 != 0)) continue;
                    std::string row = c.name + "/" + std::string(name(dtype)) + "/" + name_of(in);
                    if (in != out) row += std::string("_to_") + name_of(out);
                    row += place == Place::cpu ? "/cpu" : "/gpu";
                    const std::uint64_t seed = fnv1a(kernel + "." + row);
                    const auto make = [=, variant = Variant{dtype, in, out}]() -> testing::Test* {
                        return new Row(c, variant, place, seed);
                    };
                    testing::RegisterTest(kernel.c_str(), row.c_str(), nullptr, nullptr, __FILE__, __LINE__, make);
                }
            }
        }
    }
    return true;
}

}  // namespace headroom::kernels::test
