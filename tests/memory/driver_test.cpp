// What every driver promises to the allocator, and what the host and the simulation add.
#include <headroom/memory/driver.hpp>

#include <bit>
#include <cstring>

#include <headroom/memory/error.hpp>
#include <headroom/tests/memory/driver_case.hpp>

namespace headroom::memory::test {
namespace driver_test {

class DriverContract : public DriverTest {};

TEST_P(DriverContract, HasSensibleProperties) {
    EXPECT_FALSE(properties().name.empty());
    EXPECT_TRUE(std::has_single_bit(unit()));
    EXPECT_EQ(granule() % unit(), 0u);
    EXPECT_GE(properties().total_bytes, granule());
    EXPECT_GE(properties().address_bytes, granule());
}

TEST_P(DriverContract, CountsPagesAgainstTheDevice) {
    const auto driver = GetParam().make();
    const std::size_t most = properties().total_bytes / granule();
    std::vector<PageHandle> pages;
    while (const PageHandle page = driver->create()) pages.push_back(page);
    EXPECT_EQ(pages.size(), most);
    EXPECT_LT(driver->free_bytes(), granule());
    EXPECT_EQ(driver->create(), 0u);
    driver->destroy(pages.back());
    pages.back() = driver->create();
    EXPECT_NE(pages.back(), 0u);
    for (const PageHandle page : pages) driver->destroy(page);
}

TEST_P(DriverContract, MapsWherePagesWereMappedBefore) {
    const auto driver = GetParam().make();
    std::byte* const address = driver->reserve(4 * granule());
    for (int round = 0; round < 3; ++round) {
        const PageHandle pages[] = {driver->create(), driver->create()};
        driver->map(address + granule(), pages);
        if (properties().touchable) std::memset(address + granule(), round, 2 * granule());
        // In pieces and in another order than they were mapped.
        driver->unmap(address + 2 * granule(), 1);
        driver->map(address, std::span(pages).subspan(1));
        if (properties().touchable) std::memset(address, round, 2 * granule());
        driver->unmap(address, 2);
        for (const PageHandle page : pages) driver->destroy(page);
    }
    driver->release(address, 4 * granule());
}

TEST_P(DriverContract, ReservesRangesThatDoNotOverlap) {
    const auto driver = GetParam().make();
    std::byte* const first = driver->reserve(3 * granule());
    std::byte* const second = driver->reserve(3 * granule());
    EXPECT_TRUE(first + 3 * granule() <= second || second + 3 * granule() <= first);
    driver->release(first, 3 * granule());
    driver->release(second, 3 * granule());
}

TEST_P(DriverContract, SynchronizesAnEventThatThenHasPassed) {
    const auto driver = GetParam().make();
    const EventHandle event = driver->record(2);
    EXPECT_NE(event, 0u);
    driver->wait(0, event);
    driver->synchronize(event);
    EXPECT_TRUE(driver->passed(event));
    driver->destroy_event(event);
}

TEST_P(DriverContract, GivesPinnedMemory) {
    const auto driver = GetParam().make();
    for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, std::size_t{100'000}}) {
        std::byte* const pinned = driver->allocate_pinned(bytes);
        ASSERT_NE(pinned, nullptr);
        if (properties().touchable) std::memset(pinned, 1, bytes);
        driver->free_pinned(pinned, bytes);
    }
}

INSTANTIATE_TEST_SUITE_P(Drivers, DriverContract, all_drivers(), driver_name);

TEST(HostDriver, HasPagesOf2MiBAndCacheLines) {
    const DriverProperties properties = make_host_driver()->properties();
    EXPECT_EQ(properties.granularity, std::size_t{2} << 20);
    EXPECT_EQ(properties.alignment, 64u);
    EXPECT_TRUE(properties.touchable);
    EXPECT_TRUE(properties.synchronous);
}

TEST(HostDriver, FaultsWhereNothingIsMapped) {
    const auto driver = make_host_driver();
    std::byte* const address = driver->reserve(driver->properties().granularity);
    EXPECT_DEATH(*static_cast<volatile std::byte*>(address) = std::byte{1}, "");
    driver->release(address, driver->properties().granularity);
}

TEST(HostDriver, ExplainsAddressesThatItCannotReserve) {
    EXPECT_THROW(make_host_driver()->reserve(std::size_t{1} << 60), DeviceError);
}

TEST(HostDriver, ForgetsThePagesThatItUnmaps) {
    const auto driver = make_host_driver();
    const std::size_t granule = driver->properties().granularity;
    std::byte* const address = driver->reserve(granule);
    const PageHandle page = driver->create();
    driver->map(address, std::span(&page, 1));
    address[0] = std::byte{1};
    driver->unmap(address, 1);
    driver->map(address, std::span(&page, 1));
    EXPECT_EQ(address[0], std::byte{0}) << "the page was not given back to the system";
    driver->unmap(address, 1);
    driver->destroy(page);
    driver->release(address, granule);
}

TEST(SimulatedDriver, EqualsTheHostInAllButNameAndTouch) {
    const DriverProperties host = make_host_driver()->properties();
    const DriverProperties simulated = make_simulated_host_driver()->properties();
    EXPECT_EQ(simulated.granularity, host.granularity);
    EXPECT_EQ(simulated.alignment, host.alignment);
    EXPECT_EQ(simulated.total_bytes, host.total_bytes);
    EXPECT_EQ(simulated.address_bytes, host.address_bytes);
    EXPECT_EQ(simulated.name, "simulated host");
    EXPECT_FALSE(simulated.touchable);
    EXPECT_TRUE(simulated.synchronous);
}

TEST(SimulatedDriver, HandsOutAddressesThatFault) {
    std::byte* const address = make_simulated_host_driver()->reserve(1 << 21);
    EXPECT_DEATH(*static_cast<volatile std::byte*>(address) = std::byte{1}, "");
}

TEST(SimulatedDriver, LetsAnEventPassSoManyRecordsLater) {
    SimulatedOptions options;
    options.properties = make_host_driver()->properties();
    options.event_latency = 2;
    const auto driver = make_simulated_driver(options);
    const EventHandle event = driver->record(0);
    driver->record(1);
    driver->record(1);
    driver->record(0);
    EXPECT_FALSE(driver->passed(event)) << "other streams' records don't count";
    const EventHandle later = driver->record(0);
    EXPECT_TRUE(driver->passed(event));
    EXPECT_FALSE(driver->passed(later));
    driver->synchronize(later);
    EXPECT_TRUE(driver->passed(later));
}

TEST(SimulatedDriver, RefusesWrongProperties) {
    SimulatedOptions options;
    options.properties = make_host_driver()->properties();
    options.properties.granularity = 1000;
    EXPECT_THROW(make_simulated_driver(options), DeviceError);
    options.properties = make_host_driver()->properties();
    options.properties.alignment = 96;
    EXPECT_THROW(make_simulated_driver(options), DeviceError);
}

}  // namespace driver_test
}  // namespace headroom::memory::test
