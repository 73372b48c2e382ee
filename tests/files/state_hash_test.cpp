// The hash of a state is SHA-256 over what state_hash.hpp says, in ascending order of names.
#include <vector>

#include <gtest/gtest.h>

#include <headroom/files/state_hash.hpp>
#include <headroom/nn/initializers.hpp>

namespace headroom::files {
namespace state_hash_test {

class StateHash : public ::testing::Test {
  protected:
    StateHash() {
        float* values = weight.array().view().as<float>();
        for (int i = 0; i < 6; ++i) values[i] = static_cast<float>(i + 1);
    }
    /// Arrays of the program's own.
    struct Mine {
        StateDict state_dict() { return {arrays, {}}; }
        void restore(const StateValues&) {}
        std::vector<NamedArray> arrays;
    };
    std::string hash_with(std::vector<NamedArray> arrays, std::uint64_t position = 5) {
        context.set_random_counter(position);
        Mine mine{std::move(arrays)};
        return state_sha256(context, {parameters, mine});
    }
    std::string hash(std::uint64_t position = 5) {
        return hash_with({{"c", last.array()}, {"a", first.transpose(0, 1).array()}}, position);
    }
    Context context = Context::cpu({.threads = 1});
    Parameters parameters{context};
    Tensor weight = parameters.create("b.weight", {2, 3}, nn::init::zeros());
    Tensor first = context.from_host(std::vector<float>{1, 0.5f, -2, 3}, {2, 2});
    Tensor last = context.from_host(std::vector<std::int64_t>{-7}, {});
};

TEST_F(StateHash, EqualsTheOneComputedByPython) {
    // h = hashlib.sha256()
    // h.update(b"a f32 [2, 2]\n" + struct.pack("<4f", 1, -2, 0.5, 3))
    // h.update(b"b.weight f32 [2, 3]\n" + struct.pack("<6f", 1, 2, 3, 4, 5, 6))
    // h.update(b"c i64 []\n" + struct.pack("<q", -7) + b"random 5\n")
    EXPECT_EQ(hash(), "78a15f902facb2cd6fadfe594bfafcd7a0909ef27837215f3aa5e6994a9c326e");
}

TEST_F(StateHash, EveryPartCounts) {
    const std::string before = hash();
    EXPECT_EQ(hash(), before);
    EXPECT_NE(hash(6), before);
    weight.array().view().as<float>()[5] = -6;
    const std::string changed = hash();
    EXPECT_NE(changed, before);
    EXPECT_NE(hash_with({{"d", last.array()}, {"a", first.transpose(0, 1).array()}}), changed);
    EXPECT_NE(hash_with({{"c", last.reshape({1}).array()}, {"a", first.transpose(0, 1).array()}}), changed);
}

}  // namespace state_hash_test
}  // namespace headroom::files
