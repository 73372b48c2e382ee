// Ranks over the NCCL that is strict, late, and fails when it is told to.
#include <headroom/dist/nccl.hpp>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <headroom/core/context.hpp>
#include <headroom/dist/internal/nccl_api.hpp>
#include <headroom/dist/threads.hpp>
#include <headroom/kernels/device/cuda_device.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/tests/dist/emulated_gpus.hpp>
#include <headroom/tests/dist/fake_nccl/fake_nccl.hpp>

namespace headroom {
namespace emulated_nccl_test {

using dist::over_nccl;
using dist::run_ranks;
using test::EmulatedOrder;
using test::Engine;
using test::kFake;
using test::kOrders;
using test::on_gpus;
using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(Nccl, SumsAndGathersInTheOrderOfRanks) {
    for (const EmulatedOrder order : kOrders) {
        const std::vector<std::vector<float>> all = on_gpus(
            3,
            [](Context& context) {
                Group& group = *context.group();
                const auto rank = static_cast<float>(group.rank());
                std::vector<float> values(1000, 1.0f + rank * 0x1p-24f);  // not associative
                values[999] = rank;
                const Tensor sums = context.from_host(values, {1000});
                all_reduce(context.exec(), group, sums.array());
                std::vector<float> rows(6, -1.0f);
                rows[static_cast<std::size_t>(2 * group.rank())] = rank;
                const Tensor gathered = context.from_host(rows, {3, 2});
                all_gather_rows(context.exec(), group, gathered.array());
                std::vector<float> both = sums.to_vector<float>(), more = gathered.to_vector<float>();
                both.insert(both.end(), more.begin(), more.end());
                EXPECT_EQ(group.traffic().exchanges, 3u);
                return both;
            },
            Engine::nccl, order);
        const float sum = (1.0f + (1.0f + 0x1p-24f)) + (1.0f + 0x1p-23f);
        for (const std::vector<float>& rank : all) {
            EXPECT_EQ(rank[0], sum);
            EXPECT_EQ(rank[998], sum);
            EXPECT_EQ(rank[999], 3.0f);
            EXPECT_THAT(std::vector<float>(rank.begin() + 1000, rank.end()), testing::ElementsAre(0, -1, 1, -1, 2, -1));
        }
    }
}

/// As plans reckon: what a context takes for itself would be missing there.
TEST(Nccl, HasMemoryThatContextsLeaveToIt) {
    const auto reserves = on_gpus(
        2,
        [](Context& context) {
            EXPECT_EQ(context.memory().options().reserve, context.profile().reserved_bytes());
            return context.memory().options().reserve;
        },
        Engine::nccl, EmulatedOrder::at_once);
    for (const std::size_t reserve : reserves) EXPECT_GE(reserve, kGpuReserve + kNcclReserve);
}

struct Failure {
    const char* call = nullptr;  ///< that failed; null if there were fewer
    std::string error;
    std::vector<float> sums;
};

/// Two ranks that sum twice, of which `rank`'s n-th call of NCCL fails.
Failure fail_at(long call, int rank) {
    Failure failure;
    try {
        run_ranks(2, [&](const std::shared_ptr<Group>& hosts) {
            const bool told = hosts->rank() == rank;
            fake_nccl_fail(told ? call : 0);
            try {
                const auto group = over_nccl(hosts, kFake);
                Context context = Context::cuda(hosts->rank(), {.group = group});
                const Tensor values = context.from_host(std::vector<float>(600, 1.0f), {600});
                const test::Aborting watch(group);
                for (int i = 0; i < 2; ++i) all_reduce(context.exec(), *context.group(), values.array());
                const std::vector<float> read = values.to_vector<float>();
                if (told) failure.sums = read;
            } catch (...) {
                if (told) failure.call = fake_nccl_failed();
                throw;
            }
            if (told) failure.call = fake_nccl_failed();
        });
    } catch (const Error& error) {
        failure.error = error.what();
    }
    return failure;
}

TEST(Nccl, MayFailAtAnyCall) {
    for (const int rank : {0, 1}) {
        for (long call = 1;; ++call) {
            SCOPED_TRACE(testing::Message() << "call " << call << " of rank " << rank);
            const Failure failure = fail_at(call, rank);
            if (failure.sums.empty()) {
                EXPECT_THAT(failure.error, testing::AnyOf(HasSubstr("failed"), HasSubstr("aborted")));
                EXPECT_NE(failure.call, nullptr);
            } else {  // all was done that was asked of this rank
                EXPECT_THAT(failure.error, testing::AnyOf("", HasSubstr("failed"), HasSubstr("aborted")));
                EXPECT_EQ(failure.sums, std::vector<float>(600, 4.0f));
            }
            ASSERT_LT(call, 200);
            if (failure.call) continue;
            EXPECT_GT(call, 20);
            break;
        }
    }
}

TEST(Nccl, TellsOfARankThatFailsWhileAllJoin) {
    std::string error;
    EXPECT_THROW(run_ranks(2,
                           [&](const std::shared_ptr<Group>& hosts) {
                               fake_nccl_fail(hosts->rank() == 1 ? 1 : 0);
                               Context context = Context::cuda(hosts->rank(), {.group = over_nccl(hosts, kFake)});
                               const Tensor values = context.from_host(std::vector<float>(600, 1.0f), {600});
                               try {
                                   all_reduce(context.exec(), *context.group(), values.array());
                               } catch (const DeviceError& failure) {
                                   if (hosts->rank() == 0) error = failure.what();
                                   throw;
                               }
                           }),
                 Error);
    EXPECT_THAT(error, HasSubstr("rank 0: ncclCommInitRankConfig failed: remote process exited"));
}

TEST(Nccl, FailsForGood) {
    std::vector<std::string> errors(2);
    EXPECT_THROW(run_ranks(2,
                           [&](const std::shared_ptr<Group>& hosts) {
                               Context context = Context::cuda(hosts->rank(), {.group = over_nccl(hosts, kFake)});
                               const Tensor values = context.from_host(std::vector<float>(600, 1.0f), {600});
                               all_reduce(context.exec(), *context.group(), values.array());
                               all_gather(*hosts, 0.0);
                               if (hosts->rank() == 1) throw Error("it has left");
                               EXPECT_THROW(all_gather(*hosts, 1.0), Error);
                               for (std::string& error : errors) {
                                   try {
                                       all_reduce(context.exec(), *context.group(), values.array());
                                   } catch (const DeviceError& failure) {
                                       error = failure.what();
                                   }
                               }
                           }),
                 Error);
    EXPECT_THAT(errors[0], HasSubstr("failed: "));
    EXPECT_THAT(errors[1], HasSubstr("rank 0: NCCL has failed before"));
}

TEST(Nccl, ARankThatNeverComesIsNotWaitedForForEver) {
    EXPECT_THAT(([] {
                    run_ranks(2, [](const std::shared_ptr<Group>& hosts) {
                        if (hosts->rank() == 1) {  // takes the id, and does nothing with it
                            all_gather(*hosts, std::string());
                            std::this_thread::sleep_for(std::chrono::milliseconds(500));
                            return;
                        }
                        const dist::NcclOptions options{.patience = 0.1, .libraries = kFake.libraries};
                        Context context = Context::cuda(0, {.group = over_nccl(hosts, options)});
                        const Tensor values = context.from_host(std::vector<float>(600, 1.0f), {600});
                        all_reduce(context.exec(), *context.group(), values.array());
                    });
                }),
                ThrowsMessage<DeviceError>(
                    HasSubstr("rank 0: ncclCommInitRankConfig: not all of 2 ranks joined within 0.1 s")));
}

/// One of two ranks, which have come to an exchange.
struct JoinedRank {
    explicit JoinedRank(const std::shared_ptr<Group>& hosts) : group(over_nccl(hosts, kFake)), rank(hosts->rank()) {
        exchange();
        EXPECT_EQ(values.to_vector<float>()[0], 2.0f);
        all_gather(*hosts, 0.0);
    }
    void exchange() { all_reduce(context.exec(), *group, values.array()); }

    std::shared_ptr<dist::NcclGroup> group;
    int rank;
    Context context = Context::cuda(rank, {.group = group});
    Tensor values = context.from_host(std::vector<float>(600, 1.0f), {600});
};

/// The error of rank 0, which waits for exchanges with rank 1, while another thread calls `meanwhile`. Rank 1 has come
/// to the first exchange alone.
template <class Meanwhile>
std::string wait_for_a_rank_that_stays_away(const Meanwhile& meanwhile) {
    std::string error;
    std::promise<void> over;
    run_ranks(2, [&](const std::shared_ptr<Group>& hosts) {
        JoinedRank own(hosts);
        if (own.rank == 1) return over.get_future().wait();
        EXPECT_EQ(own.group->failure(), "");
        const std::future<void> other = std::async(std::launch::async, [&] { meanwhile(*own.group); });
        try {
            for (int i = 0; i < 2; ++i) {
                own.exchange();
                own.values.to_vector<float>();
            }
        } catch (const DeviceError& failure) {
            error = failure.what();
        }
        other.wait();
        EXPECT_EQ(own.group->failure(), "");
        EXPECT_THAT([&] { own.exchange(); }, ThrowsMessage<DeviceError>(HasSubstr("rank 0: NCCL was aborted")));
        over.set_value();
    });
    return error;
}

TEST(Nccl, AnExchangeWithARankThatStaysAwayEndsWhenItIsAborted) {
    EXPECT_THAT(wait_for_a_rank_that_stays_away([](dist::NcclGroup& group) { group.abort(); }),
                HasSubstr("rank 0: NCCL was aborted"));
}

TEST(Nccl, AWatchLearnsOfARankThatHasFailed) {
    std::string seen;
    EXPECT_THROW(run_ranks(2,
                           [&](const std::shared_ptr<Group>& hosts) {
                               JoinedRank own(hosts);
                               if (own.rank == 1) throw Error("it has left");
                               const std::future<void> watch = std::async(std::launch::async, [&] {
                                   while ((seen = own.group->failure()).empty()) std::this_thread::yield();
                                   own.group->abort();
                               });
                               own.exchange();
                           }),
                 Error);
    EXPECT_THAT(seen, HasSubstr("rank 0: an earlier exchange failed: remote process exited"));
}

TEST(Nccl, RefusesTwoRanksOnOneGpu) {
    EXPECT_THAT(([] {
                    run_ranks(3, [](const std::shared_ptr<Group>& hosts) {
                        const int gpu = hosts->rank() == 2 ? 0 : hosts->rank();
                        Context context = Context::cuda(gpu, {.group = over_nccl(hosts, kFake)});
                        const Tensor values = context.from_host(std::vector<float>(600, 1.0f), {600});
                        all_reduce(context.exec(), *context.group(), values.array());
                    });
                }),
                ThrowsMessage<DeviceError>(testing::AllOf(HasSubstr("invalid usage; Duplicate GPU detected"),
                                                          HasSubstr("rank 0 and rank 2"))));
}

TEST(Nccl, TakesNoIdButItsOwn) {
    const std::unique_ptr<CudaDevice> device = kernels::open_cuda_device(0);
    device->make_current();
    const dist::NcclApi api = dist::load_nccl(kFake.libraries);
    for (const char* const text : {"", "127.0.0.1:29500", "/dev/shm"}) {
        dist::NcclId id;
        std::strcpy(id.internal, text);
        dist::NcclCommunicator* comm = nullptr;
        dist::NcclConfig config;
        EXPECT_NE(api.comm_init_rank_config(&comm, 2, id, 0, &config), dist::kNcclInProgress) << text;
        EXPECT_EQ(comm, nullptr);
    }
}

TEST(Nccl, IsLookedForOnTheLoadersPathFirst) {
    unsetenv("HEADROOM_NCCL");
    EXPECT_EQ(dist::nccl_libraries().front(), "libnccl.so.2");
    setenv("HEADROOM_NCCL", "/mine/libnccl.so", 1);
    EXPECT_THAT(dist::nccl_libraries(), testing::ElementsAre("/mine/libnccl.so"));
    unsetenv("HEADROOM_NCCL");
}

TEST(Nccl, RefusesWhatCannotBe) {
    run_ranks(1, [](const std::shared_ptr<Group>& hosts) {
        EXPECT_THAT(([&] { over_nccl(hosts, {.libraries = {"libnccl-nowhere.so"}}); }),
                    ThrowsMessage<DeviceError>(testing::AllOf(HasSubstr("several GPUs: NCCL"), HasSubstr("install"))));
        for (const auto& [version, text] : {std::pair{21310, "NCCL 2.13 is too old"}, {2708, "NCCL 2.7 is too old"}}) {
            fake_nccl_version(version);
            EXPECT_THAT([&] { over_nccl(hosts, kFake); }, ThrowsMessage<DeviceError>(HasSubstr(text)));
        }
        fake_nccl_version(22800);
        Context context = Context::cuda(0, {.group = hosts});
        const Tensor values = context.from_host(std::vector<float>(600, 1.0f), {600});
        EXPECT_THAT([&] { all_reduce(context.exec(), *hosts, values.array()); },
                    ThrowsMessage<Error>(HasSubstr("can exchange host memory only")));
    });
}

}  // namespace emulated_nccl_test
}  // namespace headroom
