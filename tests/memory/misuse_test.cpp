// Blocks that are given back twice, to somebody else or too late: an error that names the allocation, and no harm.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cstdlib>
#include <cstring>

#include <headroom/memory/buffer.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/tests/memory/driver_case.hpp>

namespace headroom::memory::test {
namespace misuse_test {

using ::testing::AllOf;
using ::testing::HasSubstr;

class MisuseTest : public DriverTest {
  protected:
    /// The message of the Error that the call throws.
    template <class Call>
    static std::string message(Call&& call) {
        try {
            call();
        } catch (const Error& error) {
            return error.what();
        }
        ADD_FAILURE() << "no Error was thrown";
        return "";
    }
};

TEST_P(MisuseTest, IgnoresNull) {
    DeviceMemory memory(driver());
    memory.deallocate(nullptr);
    memory.record_use(nullptr, 1);
    EXPECT_EQ(memory.statistics(), MemoryStatistics{});
}

TEST_P(MisuseTest, ExplainsCategoriesThatCannotBeToldApart) {
    const auto refused = [this](std::vector<NamedCategory> categories) {
        return message([&] { DeviceMemory(driver(), {.categories = categories}); });
    };
    EXPECT_EQ(refused({{"weights"}, {"cache"}, {"weights"}}),
              "device memory: got 3 categories with 2 different names; give at most 7, each with a name of its own");
    EXPECT_THAT(refused({{"weights"}, {""}}), HasSubstr("2 categories with 1 different"));
    EXPECT_THAT(refused({{"a"}, {"b"}, {"c"}, {"d"}, {"e"}, {"f"}, {"g"}, {"h"}}), HasSubstr("at most 7"));
}

TEST(MemoryMisuse, NeedsADriver) { EXPECT_THROW(DeviceMemory(nullptr), Error); }

TEST_P(MisuseTest, NamesABlockThatIsGivenBackTwice) {
    DeviceMemory memory(driver());
    const Allocation block = memory.allocate(1000, 0, {.path = memory.intern("blocks.3.mlp")});
    memory.deallocate(block.handle);
    const MemoryStatistics before = memory.statistics();
    const auto names_it = AllOf(HasSubstr("was already freed"), HasSubstr("1000 bytes"), HasSubstr("blocks.3.mlp"),
                                HasSubstr(properties().name));
    EXPECT_THAT(message([&] { memory.deallocate(block.handle); }), AllOf(names_it, HasSubstr("deallocate")));
    EXPECT_THAT(message([&] { memory.record_use(block.handle, 1); }), AllOf(names_it, HasSubstr("record_use")));
    memory.trim();
    EXPECT_THAT(message([&] { memory.deallocate(block.handle); }), HasSubstr("was already freed"));
    EXPECT_EQ(memory.statistics().allocated, before.allocated);
    EXPECT_EQ(memory.statistics().requested, before.requested);
}

TEST_P(MisuseTest, StopsADoubleFreeOfABlockThatIsPartOfAnother) {
    DeviceMemory memory(driver());
    const Allocation first = memory.allocate(1000, 0, {});
    const Allocation second = memory.allocate(3000, 0, {});
    memory.deallocate(first.handle);
    memory.deallocate(second.handle);
    const Allocation both = memory.allocate(granule(), 0, {});  // the two have merged
    ASSERT_EQ(both.data, first.data);
    EXPECT_THAT(message([&] { memory.deallocate(second.handle); }), HasSubstr("is now part of another block"));
    EXPECT_EQ(memory.statistics().allocated, granule());
}

TEST_P(MisuseTest, StopsAPointerThatIsNoBlockOfThisMemory) {
    DeviceMemory memory(driver());
    DeviceMemory other(GetParam().make());
    const Allocation stranger = other.allocate(1000, 0, {});
    const Allocation own = memory.allocate(1000, 0, {});
    int nothing = 0;
    auto* const inside = reinterpret_cast<Block*>(reinterpret_cast<std::byte*>(own.handle) + 8);
    for (Block* block : {stranger.handle, reinterpret_cast<Block*>(&nothing), reinterpret_cast<Block*>(own.data),
                         inside, reinterpret_cast<Block*>(std::uintptr_t{16})}) {
        const auto says_so = AllOf(HasSubstr("is not a block of the"), HasSubstr(properties().name));
        EXPECT_THAT(message([&] { memory.deallocate(block); }), says_so);
        EXPECT_THAT(message([&] { memory.record_use(block, 1); }), says_so);
    }
    EXPECT_EQ(memory.statistics().allocated, own.bytes);
    EXPECT_EQ(other.statistics().allocated, stranger.bytes);
    memory.deallocate(own.handle);
    other.deallocate(stranger.handle);
}

TEST_P(MisuseTest, ExplainsAnUnknownStreamPathCategoryOrPool) {
    DeviceMemory memory(driver());
    const Allocation block = memory.allocate(1, 0, {});
    const MemoryStatistics before = memory.statistics();
    EXPECT_THAT(message([&] { memory.allocate(1, 64, {}); }), HasSubstr("stream 64"));
    EXPECT_THAT(message([&] { memory.record_use(block.handle, 64); }), HasSubstr("stream 64"));
    EXPECT_THAT(message([&] { memory.allocate(1, 0, {.path = 1}); }), HasSubstr("path number 1"));
    EXPECT_THAT(message([&] { memory.path(1); }), HasSubstr("path: no module path has the number 1"));
    EXPECT_THAT(message([&] { memory.allocate(1, 0, {.category = 8}); }),
                HasSubstr("category 8 is out of range, a DeviceMemory has at most 7"));
    EXPECT_THAT(message([&] { memory.allocate(1, 0, {}, 5); }), HasSubstr("pool 5"));
    EXPECT_THAT(message([&] { memory.close_pool(5); }), HasSubstr("pool 5"));
    const PoolId pool = memory.open_pool();
    memory.close_pool(pool);
    EXPECT_THAT(message([&] { memory.close_pool(pool); }), HasSubstr("not open"));
    EXPECT_THAT(message([&] { memory.allocate(1, 0, {}, pool); }), HasSubstr("not open"));
    EXPECT_EQ(memory.statistics(), before);
}

TEST_P(MisuseTest, NamesWhatIsStillInUseAtTheEnd) {
    ::testing::internal::CaptureStderr();
    {
        DeviceMemory memory(driver(), {.categories = {{"weights"}}});
        memory.allocate(1234, 0, {.category = 0, .path = memory.intern("head")});
        for (int i = 0; i < 4; ++i) memory.allocate(1, 0, {});
    }
    EXPECT_THAT(::testing::internal::GetCapturedStderr(),
                AllOf(HasSubstr("1234 bytes"), HasSubstr("weights of head"), HasSubstr("still in use"),
                      HasSubstr("and 2 more blocks")));
    EXPECT_EQ(log().created, 0u);
}

TEST_P(MisuseTest, StopsAtABufferThatOutlivesItsMemory) {
    const auto outlive = [](auto&& use) {
        Buffer buffer;
        {
            DeviceMemory memory(GetParam().make());
            buffer = Buffer::allocate(memory, 4321, 0, {});
        }
        use(buffer);
    };
    const char* const named = "a buffer of 4321 bytes was used after its DeviceMemory was destroyed";
    EXPECT_DEATH(outlive([](Buffer& buffer) { buffer.reset(); }), named);
    const auto record_use = [](Buffer& buffer) {
        fmt::print(stderr, "{}\n", message([&] { buffer.record_use(1); }));
        std::_Exit(3);
    };
    EXPECT_EXIT(outlive(record_use), ::testing::ExitedWithCode(3), named);
}

INSTANTIATE_TEST_SUITE_P(Drivers, MisuseTest, all_drivers(), driver_name);

}  // namespace misuse_test
}  // namespace headroom::memory::test
