// Ranks over the NCCL that is strict, late, and fails when it is told to.
#include <headroom/dist/nccl.hpp>

#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <headroom/core/context.hpp>
#include <headroom/dist/threads.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/tests/dist/emulated_gpus.hpp>
#include <headroom/tests/dist/fake_nccl/fake_nccl.hpp>

namespace headroom {
namespace {

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
                sum_over_ranks(context.exec(), group, sums.array());
                std::vector<float> rows(6, -1.0f);
                rows[static_cast<std::size_t>(2 * group.rank())] = rank;
                const Tensor gathered = context.from_host(rows, {3, 2});
                gather_rows(context.exec(), group, gathered.array());
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
                Context context = Context::cuda(hosts->rank(), {.group = over_nccl(hosts, kFake)});
                const Tensor values = context.from_host(std::vector<float>(600, 1.0f), {600});
                for (int i = 0; i < 2; ++i) sum_over_ranks(context.exec(), *context.group(), values.array());
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
                EXPECT_THAT(failure.error, HasSubstr("failed"));
                EXPECT_NE(failure.call, nullptr);
            } else {  // all was done that was asked of this rank
                EXPECT_THAT(failure.error, testing::AnyOf("", HasSubstr("failed")));
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
                                   sum_over_ranks(context.exec(), *context.group(), values.array());
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
                               sum_over_ranks(context.exec(), *context.group(), values.array());
                               gather(*hosts, 0.0);
                               if (hosts->rank() == 1) throw Error("it has left");
                               EXPECT_THROW(gather(*hosts, 1.0), Error);
                               for (std::string& error : errors) {
                                   try {
                                       sum_over_ranks(context.exec(), *context.group(), values.array());
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
                            gather(*hosts, std::string());
                            std::this_thread::sleep_for(std::chrono::milliseconds(500));
                            return;
                        }
                        const dist::NcclOptions options{.patience = 0.1, .libraries = kFake.libraries};
                        Context context = Context::cuda(0, {.group = over_nccl(hosts, options)});
                        const Tensor values = context.from_host(std::vector<float>(600, 1.0f), {600});
                        sum_over_ranks(context.exec(), *context.group(), values.array());
                    });
                }),
                ThrowsMessage<DeviceError>(
                    HasSubstr("rank 0: ncclCommInitRankConfig: not all of 2 ranks have come within 0.1 s")));
}

TEST(Nccl, AHostThatNeverComesIsNotWaitedForForEver) {
    const dist::Rendezvous meeting{.rank = 0, .ranks = 2, .address = fmt::format("nobody-{}:1", getpid())};
    EXPECT_THAT(([&] { dist::hosts_over_nccl(meeting, 0, {.patience = 0.1, .libraries = kFake.libraries}); }),
                ThrowsMessage<DeviceError>(HasSubstr("not all of 2 ranks have come within 0.1 s")));
    EXPECT_EQ(std::getenv("NCCL_COMM_ID"), nullptr);
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
        EXPECT_THAT([&] { sum_over_ranks(context.exec(), *hosts, values.array()); },
                    ThrowsMessage<Error>(HasSubstr("reach each other's host memory alone")));
    });
}

}  // namespace
}  // namespace headroom
