#include <headroom/tests/kernels/kernel_table.hpp>

#include <array>
#include <cmath>
#include <cstring>
#include <string_view>
#include <utility>

#include <headroom/kernels/random/philox.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/tests/kernels/elsewhere.hpp>
#include <headroom/tests/kernels/race_cases.hpp>
#if HEADROOM_CUDA_KERNELS
#include <headroom/tests/kernels/gpu.hpp>
#endif

namespace headroom::kernels::test {

// ---- devices

constexpr std::size_t kGuard = 64;  // bytes behind scratch

#if HEADROOM_CUDA_KERNELS
bool is_there(Place place) { return place == Place::cpu || cuda_device_count() > 0; }
bool is_emulated() { return cuda_is_emulated(); }
int another_device(Dtype dtype) { return another_gpu(dtype); }
#else
bool is_there(Place) { return true; }
bool is_emulated() { return false; }
int another_device(Dtype) { return 0; }
#endif

Device::Device(Place place, int threads, [[maybe_unused]] int index)
    : place_(place), stream_(CpuStream{.threads = threads, .state = &state_}) {
#if HEADROOM_CUDA_KERNELS
    if (place == Place::gpu) {
        gpu_ = std::make_shared<Gpu>(index);
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
    for (const Scratch& scratch : scratch_) {
        std::array<std::byte, kGuard> behind{};
#if HEADROOM_CUDA_KERNELS
        if (gpu_) gpu_->device->copy_to_host(scratch.end, behind.data(), kGuard);
#endif
        if (scratch.own) std::memcpy(behind.data(), scratch.end, kGuard);
        for (const std::byte byte : behind) ASSERT_EQ(byte, std::byte{0xff}) << "more scratch than was said";
    }
#if HEADROOM_CUDA_KERNELS
    if (gpu_) return gpu_->get(view, x);
#endif
    std::memcpy(x.begin_of_memory(), static_cast<std::byte*>(view.data) - x.first(), x.memory().size());
}

std::byte* Device::scratch(const std::function<std::size_t(Stream&)>& size) {
    const std::size_t bytes = size(stream_);
    Stream rehearsal =
        DryStream{.threads = threads_of(stream_), .state = &state_, .capability = capability_of(stream_)};
    EXPECT_EQ(size(rehearsal), bytes);
    if (bytes == 0) return nullptr;
#if HEADROOM_CUDA_KERNELS
    if (gpu_) {
        std::byte* const memory = gpu_->scratch(bytes + kGuard);
        scratch_.push_back({memory + bytes, nullptr});
        return memory;
    }
#endif
    auto own = std::make_unique<std::byte[]>(bytes + kGuard);
    std::byte* const memory = own.get();
    std::memset(memory, 0xff, bytes + kGuard);
    scratch_.push_back({memory + bytes, std::move(own)});
    return memory;
}

void Device::expect_index_error(const std::string& what, [[maybe_unused]] std::int64_t value, std::int64_t position,
                                std::int64_t bound, const std::function<void()>& call, std::int64_t first) {
    SCOPED_TRACE(what);
    if (!gpu_) {
        try {
            call();
            ADD_FAILURE() << "accepted";
        } catch (const ShapeError& error) {
            const std::string expected = "position " + std::to_string(position) + " is outside of [" +
                                         std::to_string(first) + ", " + std::to_string(bound) + ")";
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
    EXPECT_EQ(error->first, first);
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

// ---- arrays that lie elsewhere

/// One array of a trial, inputs first, is not where a vector may begin.
struct Move {
    std::size_t array = 0;
    int what = kNothing;
};

std::size_t arrays_of(const Trial& trial) { return trial.in.size() + trial.out.size(); }
TestArray& array_of(Trial& trial, std::size_t number) {
    return number < trial.in.size() ? trial.in[number] : trial.out[number - trial.in.size()].array;
}

/// All that can be moved in a trial.
std::vector<Move> moves_of(Trial& trial) {
    std::vector<Move> moves{{}};
    for (std::size_t i = 0; i < arrays_of(trial); ++i) {
        const TestArray& x = array_of(trial, i);
        if (x.numel() == 0) continue;
        moves.push_back({i, kAddress});
        for (int axis = 0; axis + 1 < x.view().rank() && x.layout() == Layout::slice; ++axis) {
            if (x.view().shape[axis] > 1) moves.push_back({i, axis});
        }
    }
    return moves;
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

void expect_near(const Trial& trial, const std::vector<TestArray>& result) {
    for (std::size_t i = 0; i < result.size(); ++i) {
        SCOPED_TRACE("output " + std::to_string(i) + ": " + describe(result[i]));
        expect_near(result[i], trial.out[i]);
    }
}

class Row : public testing::Test {
  public:
    /// `elsewhere`: on another GPU than the first one.
    Row(const Case& c, const Variant& v, Place place, bool elsewhere, std::uint64_t seed)
        : case_(c), variant_(v), place_(place), elsewhere_(elsewhere), seed_(seed) {}

  protected:
    Device device() const { return Device(place_, 2, elsewhere_ ? another_device(variant_.dtype) : 0); }
    Trial trial(Layout layout) const {
        Random random(seed_);
        return case_.make({variant_.dtype, layout, layout}, random);
    }

  private:
    void TestBody() override {
        if (!is_there(place_)) GTEST_SKIP() << "there is no GPU";
        Random random(seed_);
        const Trial trial = case_.make(variant_, random);
        Device device = this->device();
        const auto first = expect_values(device, trial);
        if (HasFailure() || variant_.in != Layout::contiguous || variant_.out != Layout::contiguous) return;
        if (place_ == Place::gpu && case_.large) return;
        const Dtype dtype = case_.large_blocks ? Dtype::bf16 : variant_.dtype;
        for (const int threads : place_ == Place::cpu ? std::vector{1, 5} : std::vector{1}) {
            Device again(place_, threads, place_ == Place::gpu ? another_device(dtype) : 0);
            expect_same_bits(results(again, trial), first, " has other bits the second time");
        }
        bool over = false;
        for (const Output& y : trial.out) over = over || y.over >= 0;
        if (over) expect_same_bits(results(device, trial, true), first, " has other bits in place of an input");
        if (case_.large_blocks && place_ == Place::gpu && variant_.dtype != Dtype::bf16) {
            Device old(place_, 1, another_device(variant_.dtype));
            expect_values(old, trial);
        }
    }

    Case case_;
    Variant variant_;
    Place place_;
    bool elsewhere_;
    std::uint64_t seed_;
};

/// A vector access is forbidden by one condition at a time: the place of one array, or else the length of rows alone.
class MovedRow final : public Row {
    using Row::Row;

    void TestBody() override {
        if (!is_there(Place::gpu)) GTEST_SKIP() << "there is no GPU";
        Device device = this->device();
        for (const Layout layout : {Layout::contiguous, Layout::slice}) {
            Trial plain = trial(layout);
            for (const Move& move : moves_of(plain)) {
                Trial placed{.in = {}, .out = {}, .call = plain.call};
                for (std::size_t i = 0; i < arrays_of(plain); ++i) {
                    const TestArray x = moved(array_of(plain, i), i == move.array ? move.what : kNothing);
                    if (i < plain.in.size()) {
                        placed.in.push_back(x);
                    } else {
                        const Output& y = plain.out[i - plain.in.size()];
                        placed.out.push_back({.array = x, .rounds = y.rounds, .value = y.value, .error = y.error});
                    }
                }
                SCOPED_TRACE("array " + std::to_string(move.array) + " moved: " + std::to_string(move.what));
                expect_near(placed, results(device, placed));
                if (HasFailure()) return;
            }
        }
    }
};

class FarRow final : public Row {
    using Row::Row;

    void TestBody() override {
        if (!is_emulated()) GTEST_SKIP() << "takes more memory than there is";
        Device device = this->device();
        FarApart far;
        const Trial trial = this->trial(Layout::slice);
        Views in, out;
        for (const TestArray& x : trial.in) in.push_back(far.put(x));
        for (const Output& y : trial.out) out.push_back(far.put(y.array));
        trial.call(device, in, out);
        std::vector<TestArray> result;
        for (std::size_t i = 0; i < out.size(); ++i) FarApart::get(out[i], result.emplace_back(trial.out[i].array));
        expect_near(trial, result);
    }
};

const char* name_of(Layout layout) {
    constexpr const char* names[] = {"contiguous", "gaps", "transposed", "shifted", "slice", "ragged"};
    return names[static_cast<int>(layout)];
}

}  // namespace

std::vector<TestArray> expect_values(Device& device, const Trial& trial) {
    auto result = results(device, trial);
    expect_near(trial, result);
    return result;
}

// ---- the table

std::string to_name(const Shape& shape) {
    std::string result;
    for (const std::int64_t size : shape) result.append(result.empty() ? "" : "x").append(std::to_string(size));
    return result.empty() ? "scalar" : result;
}

template <class Row>
void add_row(const std::string& kernel, const Case& c, const Variant& v, Place place, bool elsewhere,
             const std::string& where, const std::source_location& source) {
    const std::string row = c.name + "/" + std::string(name(v.dtype)) + where + (place == Place::cpu ? "/cpu" : "/gpu");
    const auto make = [=, seed = fnv1a(kernel + "." + row)]() -> testing::Test* {
        return new Row(c, v, place, elsewhere, seed);
    };
    testing::RegisterTest(kernel.c_str(), row.c_str(), nullptr, nullptr, source.file_name(),
                          static_cast<int>(source.line()), make);
}

/// One of the dtypes that kernels take in vectors, another for each case.
Dtype vector_dtype(const Case& c) {
    std::vector<Dtype> fit;
    for (const Dtype dtype : c.dtypes) {
        if (dtype == Dtype::f32 || is_half(dtype)) fit.push_back(dtype);
    }
    return fit.empty() ? c.dtypes.front() : fit[fnv1a(c.name) % fit.size()];
}

bool add_rows(const std::string& kernel, const Cases& cases, std::source_location source) {
    int number = 0;
    bool elsewhere = false;  // every second case, and of a case every second strided row
    for (const Case& c : cases) {
        elsewhere = !elsewhere;
        if (HEADROOM_CUDA_KERNELS && !kRaces && !c.large && c.moves && c.layouts.size() > 1 && c.places.size() > 1) {
            add_row<MovedRow>(kernel, c, {vector_dtype(c)}, Place::gpu, elsewhere, "/moved", source);
            add_row<FarRow>(kernel, c, {vector_dtype(c)}, Place::gpu, !elsewhere, "/far", source);
            if (c.dtypes.back() != vector_dtype(c))
                add_row<FarRow>(kernel, c, {c.dtypes.back()}, Place::gpu, elsewhere, "/far", source);
        }
        for (std::size_t d = 0; d < c.dtypes.size(); ++d) {
            for (std::size_t l = 0; l < c.layouts.size(); ++l) {
                const Dtype dtype = c.dtypes[d];
                const auto& [in, out] = c.layouts[l];
                const bool strided = in != Layout::contiguous || out != Layout::contiguous;
                for (const Place place : c.places) {
                    // Under ThreadSanitizer, a share of the GPU's rows; eleven meets each dtype and layout.
                    if (kRaces && (place == Place::cpu || c.large || number++ % 11 != 0)) continue;
                    std::string where = std::string("/") + name_of(in);
                    if (in != out) where += std::string("_to_") + name_of(out);
                    add_row<Row>(kernel, c, {dtype, in, out}, place, strided && ((d + l) % 2 == 1) == elsewhere, where,
                                 source);
                }
            }
        }
    }
    return true;
}

}  // namespace headroom::kernels::test
