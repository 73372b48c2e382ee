#pragma once
// Kernel calls with scratch, planned and run on the CPU: the scratch is NaN at first, and must not be overrun.
//
//     test::run<MatmulPlan>(stream, matmul);      // on a GPU: gpu->run<MatmulPlan>(matmul)
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include <headroom/kernels/stream.hpp>

namespace headroom::kernels::test {

template <class Plan, class... Call>
void run(CpuStream& stream, const Call&... call) {
    const Plan plan(stream, call...);
    std::vector<std::byte> memory(plan.scratch() + 192, std::byte{0xff});
    std::byte* const scratch = memory.data() + (64 - reinterpret_cast<std::uintptr_t>(memory.data()) % 64) % 64;
    plan.run(stream, scratch);
    for (std::byte* guard = scratch + plan.scratch(); guard != memory.data() + memory.size(); ++guard)
        ASSERT_EQ(*guard, std::byte{0xff}) << "more scratch than was said";
}

}  // namespace headroom::kernels::test
