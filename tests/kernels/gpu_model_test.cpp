#include <headroom/kernels/device/gpu_model.hpp>

#include <map>
#include <set>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <headroom/kernels/device/shape.hpp>
#include <headroom/memory/error.hpp>

namespace headroom::kernels {
namespace gpu_model_test {

using testing::AllOf;
using testing::HasSubstr;

constexpr std::size_t kGiB = std::size_t{1} << 30;

TEST(GpuModel, IsFoundByItsNameHoweverItIsWritten) {
    for (const char* name : {"RTX 2080 Ti", "rtx 2080 ti", "RTX-2080-Ti", "rtx_2080ti"})
        EXPECT_EQ(gpu_model(name).name, "RTX 2080 Ti") << name;
    for (const GpuModel& model : gpu_models()) EXPECT_EQ(gpu_model(model.name), model);
}

TEST(GpuModel, OfAnUnknownNameIsRefusedWithTheNamesThatAreKnown) {
    try {
        gpu_model("RTX 2080");
        FAIL() << "found";
    } catch (const Error& error) {
        EXPECT_THAT(error.what(), AllOf(HasSubstr("\"RTX 2080\""), HasSubstr("RTX 2080 Ti, T4"), HasSubstr("H200")));
    }
}

/// A rate of a data sheet that is typed wrong by a power of ten is out of these ranges.
TEST(GpuModel, HasRatesThatFitEachOther) {
    ASSERT_GE(gpu_models().size(), 9u);
    std::set<std::string> names;
    for (const GpuModel& model : gpu_models()) {
        SCOPED_TRACE(model.name);
        EXPECT_TRUE(names.insert(model.name).second);
        const GpuRates& rates = model.rates;
        EXPECT_GE(model.capability, device::kLeastCapability);
        EXPECT_GE(model.shared_bytes, device::kLeastShared);
        const double of_multiprocessor = rates.f32 / model.multiprocessors;
        EXPECT_GT(of_multiprocessor, 0.15e12);
        EXPECT_LT(of_multiprocessor, 0.7e12);
        EXPECT_GE(rates.tf32, rates.f32);
        EXPECT_GE(rates.half, 1.9 * rates.f32);
        EXPECT_LE(rates.half, 17 * rates.f32);
        const double operations_for_a_byte = rates.half / rates.memory;
        EXPECT_GT(operations_for_a_byte, 50);
        EXPECT_LT(operations_for_a_byte, 350);
        EXPECT_GT(rates.memory, 10 * rates.host_link);
        EXPECT_EQ(rates.tf32 == rates.f32, model.capability < device::kBf16Capability || model.name.starts_with("RTX"));
        EXPECT_GT(model.memory_bytes, 10 * kGiB);
        EXPECT_LT(model.memory_bytes, 142 * kGiB);
    }
}

/// Of products of halves, summed in f32, each clock cycle has so many times as many as of f32: a multiprocessor's
/// tensor cores beside its other cores. Data sheets of GeForce cards also have twice as many, which are summed in f16.
TEST(GpuModel, SumsProductsOfHalvesInF32) {
    for (const GpuModel& model : gpu_models()) {
        const bool geforce = model.name.starts_with("RTX");
        const int times = model.capability == 75 ? (geforce ? 4 : 8) : geforce ? 2 : 16;
        EXPECT_NEAR(model.rates.half / model.rates.f32, times, 0.1 * times) << model.name;
        const double of_f32 = model.capability >= device::kBf16Capability ? model.rates.half / 2 : model.rates.f32;
        EXPECT_NEAR(model.rates.tf32 / of_f32, 1, 0.01) << model.name << ", rounded to TF32 where there is that";
    }
}

/// What rates follow from, in tables that have no rates: the white papers' and data sheets' clocks and widths.
struct Parts {
    int cores;              ///< for f32, of a multiprocessor: each multiplies and adds in a clock cycle
    double gigahertz;       ///< at boost
    int bus_bits;           ///< of the memory
    double gigabits;        ///< of the memory, in a second, for each bit of the bus
    int generation;         ///< of PCI Express, with 16 lanes
    std::size_t gigabytes;  ///< of the memory, as the box says it
};

TEST(GpuModel, HasTheRatesOfItsClocksAndBuses) {
    const std::map<std::string, Parts> parts{
        {"RTX 2080 Ti", {64, 1.545, 352, 14, 3, 11}},  {"T4", {64, 1.59, 256, 10, 3, 16}},
        {"RTX 3060", {128, 1.777, 192, 15, 4, 12}},    {"RTX 3090", {128, 1.695, 384, 19.5, 4, 24}},
        {"RTX 4090", {128, 2.52, 384, 21, 4, 24}},     {"A100 40GB", {64, 1.41, 5120, 2.43, 4, 40}},
        {"A100 80GB", {64, 1.41, 5120, 3.186, 4, 80}}, {"H100", {128, 1.98, 5120, 5.238, 5, 80}},
        {"H200", {128, 1.98, 6144, 6.25, 5, 141}}};
    for (const GpuModel& model : gpu_models()) {
        SCOPED_TRACE(model.name);
        const Parts& of = parts.at(model.name);
        const GpuRates& rates = model.rates;
        EXPECT_NEAR(rates.f32 / (2e9 * of.gigahertz * of.cores * model.multiprocessors), 1, 0.02);
        EXPECT_NEAR(rates.memory / (of.gigabits * 1e9 / 8 * of.bus_bits), 1, 0.02);
        EXPECT_EQ(rates.host_link, 2e9 * (1 << of.generation));
        EXPECT_GT(model.memory_bytes, of.gigabytes * 970'000'000);
        EXPECT_LE(model.memory_bytes, of.gigabytes * 1'070'000'000);
    }
}

/// What a block may have, which is less than what a multiprocessor has.
TEST(GpuModel, GivesABlockTheSharedMemoryOfItsCapability) {
    const std::map<int, std::size_t> kib{{75, 64}, {80, 163}, {86, 99}, {89, 99}, {90, 227}};
    for (const GpuModel& model : gpu_models())
        EXPECT_EQ(model.shared_bytes, kib.at(model.capability) * 1024) << model.name;
}

TEST(GpuModel, StandsForTheMostSimilarOne) {
    EXPECT_EQ(nearest_gpu(75, 68, 11 * kGiB).name, "RTX 2080 Ti");
    EXPECT_EQ(nearest_gpu(75, 40, 15 * kGiB).name, "T4");
    EXPECT_EQ(nearest_gpu(86, 68, 10 * kGiB).name, "RTX 3090") << "an RTX 3080";
    EXPECT_EQ(nearest_gpu(80, 108, 40 * kGiB).name, "A100 40GB");
    EXPECT_EQ(nearest_gpu(80, 108, 80 * kGiB).name, "A100 80GB");
    EXPECT_EQ(nearest_gpu(90, 132, 80 * kGiB).name, "H100");
    EXPECT_EQ(nearest_gpu(90, 132, 141 * kGiB).name, "H200");
    EXPECT_EQ(nearest_gpu(120, 170, 32 * kGiB).capability, 90) << "one that is newer than all";
}

TEST(GpuModel, WritesACapability) {
    EXPECT_EQ(capability_text(75), "7.5");
    EXPECT_EQ(capability_text(120), "12.0");
}

}  // namespace gpu_model_test
}  // namespace headroom::kernels
