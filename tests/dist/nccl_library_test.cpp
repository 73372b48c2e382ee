// What dist/internal/nccl_api.hpp says of NCCL, beside NVIDIA's header and library.
#include <headroom/dist/internal/nccl_api.hpp>

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <string>
#include <type_traits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nccl.h>

#include <headroom/dist/nccl.hpp>
#include <headroom/dist/threads.hpp>
#include <headroom/memory/error.hpp>

namespace headroom::dist {
namespace nccl_library_test {

/// Whether a value of one type is passed as a value of the other.
template <class Ours, class Theirs>
constexpr bool kPassedAlike =
    sizeof(Ours) == sizeof(Theirs) && std::is_pointer_v<Ours> == std::is_pointer_v<Theirs>&& std::is_class_v<Ours> ==
                                          std::is_class_v<Theirs>&& std::is_floating_point_v<Ours> ==
                                          std::is_floating_point_v<Theirs>;
template <class Ours, class Theirs>
struct Alike : std::false_type {};
template <class R, class... Arguments, class Theirs, class... Others>
requires(sizeof...(Arguments) == sizeof...(Others)) struct Alike<R (*)(Arguments...), Theirs (*)(Others...)>
    : std::bool_constant<kPassedAlike<R, Theirs> && (... && kPassedAlike<Arguments, Others>)> {
};
template <class Ours, class Theirs>
constexpr bool kAlike = Alike<Ours, Theirs>::value;

static_assert(kAlike<decltype(NcclApi::get_version), decltype(&::ncclGetVersion)>);
static_assert(kAlike<decltype(NcclApi::get_unique_id), decltype(&::ncclGetUniqueId)>);
static_assert(kAlike<decltype(NcclApi::comm_init_rank_config), decltype(&::ncclCommInitRankConfig)>);
static_assert(kAlike<decltype(NcclApi::comm_get_async_error), decltype(&::ncclCommGetAsyncError)>);
static_assert(kAlike<decltype(NcclApi::comm_finalize), decltype(&::ncclCommFinalize)>);
static_assert(kAlike<decltype(NcclApi::comm_destroy), decltype(&::ncclCommDestroy)>);
static_assert(kAlike<decltype(NcclApi::comm_abort), decltype(&::ncclCommAbort)>);
static_assert(kAlike<decltype(NcclApi::group_start), decltype(&::ncclGroupStart)>);
static_assert(kAlike<decltype(NcclApi::group_end), decltype(&::ncclGroupEnd)>);
static_assert(kAlike<decltype(NcclApi::send), decltype(&::ncclSend)>);
static_assert(kAlike<decltype(NcclApi::recv), decltype(&::ncclRecv)>);
static_assert(kAlike<decltype(NcclApi::get_error_string), decltype(&::ncclGetErrorString)>);
static_assert(kAlike<decltype(NcclApi::get_last_error), decltype(&::ncclGetLastError)>);
static_assert(sizeof(NcclId) == NCCL_UNIQUE_ID_BYTES);
static_assert(!kAlike<decltype(NcclApi::get_version), decltype(&::ncclGetErrorString)>);
static_assert(kNcclSuccess == ncclSuccess && kNcclInProgress == ncclInProgress && kNcclUint8 == ncclUint8);
static_assert(offsetof(NcclConfig, size) == offsetof(ncclConfig_t, size));
static_assert(offsetof(NcclConfig, magic) == offsetof(ncclConfig_t, magic));
static_assert(offsetof(NcclConfig, version) == offsetof(ncclConfig_t, version));
static_assert(offsetof(NcclConfig, blocking) == offsetof(ncclConfig_t, blocking));

TEST(NcclLibrary, KnowsTheConfiguration) {
    const ncclConfig_t theirs = NCCL_CONFIG_INITIALIZER;
    EXPECT_EQ(NcclConfig().magic, theirs.magic);
    EXPECT_EQ(NcclConfig().version, NCCL_VERSION(2, 14, 0));
    EXPECT_LT(NcclConfig().size, theirs.size);
}

TEST(NcclLibrary, HasTheFunctionsAndSaysWhatIsWrong) {
    const NcclApi api = load_nccl({HEADROOM_NCCL_LIBRARY});
    int version = 0;
    EXPECT_EQ(api.get_version(&version), kNcclSuccess);
    EXPECT_GE(version, NCCL_VERSION_CODE);
    EXPECT_THAT(api.get_error_string(ncclInvalidArgument), testing::StartsWith("invalid argument"));
    // Refused before a GPU is looked for.
    NcclConfig config;
    config.magic = 0;
    NcclCommunicator* comm = nullptr;
    const NcclResult refused = api.comm_init_rank_config(&comm, 2, NcclId{}, 2, &config);
    EXPECT_NE(refused, kNcclSuccess);
    EXPECT_NE(refused, kNcclInProgress);
    EXPECT_EQ(comm, nullptr);
}

/// Where the loader's path has none.
TEST(NcclLibrary, IsFoundWhereTheBuildFoundIt) {
    unsetenv("HEADROOM_NCCL");
    EXPECT_THAT(nccl_libraries(), testing::ElementsAre("libnccl.so.2", HEADROOM_NCCL_LIBRARY));
    run_ranks(1, [](const std::shared_ptr<headroom::Group>& hosts) { EXPECT_NE(over_nccl(hosts), nullptr); });
    setenv("HEADROOM_NCCL", "/nowhere/libnccl.so.2", 1);
    run_ranks(1, [](const std::shared_ptr<headroom::Group>& hosts) {
        EXPECT_THAT([&] { over_nccl(hosts); }, testing::ThrowsMessage<DeviceError>(testing::HasSubstr("/nowhere/")));
    });
    unsetenv("HEADROOM_NCCL");
}

TEST(NcclLibrary, MakesAnotherIdEachTime) {
    const NcclApi api = load_nccl({HEADROOM_NCCL_LIBRARY});
    NcclId one, other;
    EXPECT_EQ(api.get_unique_id(&one), kNcclSuccess);
    EXPECT_EQ(api.get_unique_id(&other), kNcclSuccess);
    EXPECT_NE(std::string(one.internal, sizeof(one.internal)), std::string(other.internal, sizeof(other.internal)));
}

}  // namespace nccl_library_test
}  // namespace headroom::dist
