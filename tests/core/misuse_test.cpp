// Every public function that takes a tensor refuses an undefined one with one clear line; a test counts that none is
// left out. Tensors of two contexts are refused by whatever brings them together.
#include <cmath>
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <headroom/core/parameters.hpp>
#include <headroom/core/transfer.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/tests/core/every_call.hpp>
#include <headroom/tests/data/scratch.hpp>
#include <headroom/tests/support/source_path.hpp>

namespace headroom {
namespace misuse_test {

using headroom::test::throws;
using test::Calls, test::kFunctions, test::kMembers;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;
using ::testing::StartsWith;

void expect_one_line_each(const Calls& calls, const Tensor& x) {
    for (const auto& [name, call] : calls) {
        SCOPED_TRACE(name);
        try {
            call(x);
            ADD_FAILURE() << "was accepted";
        } catch (const Error& error) {
            EXPECT_THAT(error.what(), AllOf(HasSubstr("defined"), Not(HasSubstr("\n"))));
        }
    }
}

/// An error of a call begins with its name, also where the function is built of others; that of an operator with the
/// name of any function. How many calls had an error.
std::size_t expect_to_name_themselves(const Calls& calls, const Tensor& x) {
    std::size_t errors = 0;
    for (const auto& [name, call] : calls) {
        SCOPED_TRACE(name + " of " + x.to_string());
        try {
            call(x);
        } catch (const Error& error) {
            ++errors;
            const bool is_operator = name.starts_with("operator");
            EXPECT_THAT(error.what(), MatchesRegex((is_operator ? "[a-z_]+" : name) + ": .+"));
        }
    }
    return errors;
}

std::string text_of(const std::filesystem::path& path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
}

void expect_all_called(const std::string& text, const std::regex& declaration, const Calls& calls, std::size_t least) {
    std::size_t found = 0;
    for (auto match = std::sregex_iterator(text.begin(), text.end(), declaration); match != std::sregex_iterator();
         ++match, ++found) {
        EXPECT_TRUE(calls.contains((*match)[1])) << (*match)[1] << " is not in the list of this test";
    }
    EXPECT_GE(found, least);
}

TEST(Undefined, EveryMemberSaysSoInOneLine) {
    expect_one_line_each(kMembers, Tensor());
    Context context = Context::cpu({.threads = 1});
    Tensor x = context.scalar(1.0);
    const Tensor taken = std::move(x);
    expect_one_line_each(kMembers, x);
    expect_one_line_each(kMembers, taken.grad());
    EXPECT_EQ(Tensor().to_string(), "undefined tensor");
    EXPECT_FALSE(Tensor().requires_grad());
}

// What looks like a write into a part would change a temporary handle, and nothing else.
static_assert(!std::is_assignable_v<Tensor, Tensor> && !std::is_assignable_v<Tensor, const Tensor&>);
static_assert(std::is_assignable_v<Tensor&, Tensor> && std::is_assignable_v<Tensor&, const Tensor&>);

TEST(Undefined, EveryFunctionSaysSoInOneLine) { expect_one_line_each(kFunctions, Tensor()); }

TEST(Misuse, IsNamedByTheFunctionThatWasCalled) {
    Context context = Context::cpu({.threads = 1});
    const NoGradGuard no_grad(context);
    EXPECT_EQ(expect_to_name_themselves(kFunctions, Tensor()), kFunctions.size());
    std::size_t errors = 0;
    for (const Shape& shape :
         {Shape{}, Shape{2}, Shape{0}, Shape{2, 3}, Shape{0, 3}, Shape{2, 3, 4}, Shape{2, 2, 2, 3}}) {
        for (const Dtype dtype : {Dtype::f32, Dtype::f16, Dtype::i64, Dtype::u8, Dtype::boolean}) {
            const Tensor x = ones(context, shape, dtype);
            errors += expect_to_name_themselves(kFunctions, x);
            errors += expect_to_name_themselves(kMembers, x);
        }
    }
    EXPECT_GT(errors, 1000u);
}

TEST(Misuse, IsNamedByFunctionsThatAreBuiltOfOthers) {
    Context context = Context::cpu({.threads = 1});
    const Tensor nothing = zeros(context, {3, 0}), one = ones(context, {}), ids = ones(context, {2}, Dtype::i64);
    for (const double p : {-double{INFINITY}, -2.0, -1.0, double{INFINITY}}) {
        EXPECT_THAT([&] { norm(nothing, p, 1); }, throws<ShapeError>("norm: the shape", "[3, 0]"));
    }
    for (const double p : {-1.0, 0.0, 0.5, 1.0, 2.0, 3.0}) {
        EXPECT_THAT([&] { norm(nothing, p, 2); }, throws<ShapeError>("norm: axis 2 is outside", "[3, 0]"));
    }
    EXPECT_THAT([&] { pow(ids, -1); }, throws<DtypeError>("pow: ", "i64"));
    EXPECT_THAT([&] { sort(one); }, throws<ShapeError>("sort: axis -1", "[]"));
    EXPECT_THAT([&] { stack({nothing}, 5); }, throws<ShapeError>("stack: ", "5"));
    EXPECT_THAT([&] { any(nothing, 2); }, throws<ShapeError>("any: axis 2", "[3, 0]"));
    EXPECT_THAT([&] { einsum("i,i", {ids, ids}); }, throws<Error>("einsum: ", "i64"));
    EXPECT_THAT([&] { backward(nothing); },
                throws<ShapeError>("backward: a loss must have", "one element, got [3, 0]"));
    EXPECT_THAT([&] { standard_deviation(ids); }, throws<Error>("standard_deviation: ", "i64"));
}

TEST(Undefined, NoMemberAndNoFunctionIsLeftOut) {
    const std::filesystem::path core = test::source_path("core");
    const std::string tensor = text_of(core / "tensor.hpp");
    const std::size_t begin = tensor.find("class Tensor {"), end = tensor.find("  private:");
    ASSERT_TRUE(begin < end && end < tensor.size());
    Calls members = kMembers;
    for (const char* fine : {"reset", "defined", "to_string", "requires_grad", "value", "geometry"}) {
        members.emplace(fine, nullptr);  // answer for an undefined tensor, too
    }
    expect_all_called(tensor.substr(begin, end - begin), std::regex("\n    [A-Za-z][\\w:<>& ]* &?\\*?([a-z]\\w*)\\("),
                      members, 30);
    std::string functions = tensor.substr(end);
    for (const auto& file : std::filesystem::directory_iterator(core / "ops")) {
        if (file.path().extension() == ".hpp") functions += text_of(file.path());
    }
    expect_all_called(functions,
                      std::regex("\n(?:[A-Z]\\w+|void|std::\\w+<\\w+.*>) (\\w+|operator\\W+)\\((?:const )?"
                                 "(?:Scalar a, |double a, |std::string_view equation, )?(?:std::vector<)?Tensor\\b"),
                      kFunctions, 150);
}

/// Without the check it ends in a riddle of the allocator, or in none.
TEST(TwoThreads, DoNotUseOneContext) {
    Context context = Context::cpu({.threads = 1});
    Tensor x = context.from_host(std::vector<float>{1, 2}, {2}).requires_grad_();
    const Tensor loss = sum(square(x));
    std::thread([&] {
        const auto refused = [](const std::string& what) {
            return throws<Error>(what + ": this context (cpu) belongs to another thread", "use_from_this_thread()");
        };
        EXPECT_THAT([&] { exp(x); }, refused("exp"));
        EXPECT_THAT([&] { backward(loss); }, refused("backward"));
        EXPECT_THAT([&] { context.scalar(1); }, refused("a new tensor"));
        context.use_from_this_thread();
        backward(loss);
        EXPECT_EQ(x.grad().to_vector<float>(), (std::vector<float>{2, 4}));
    }).join();
    EXPECT_THAT([&] { exp(x); }, throws<Error>("exp: ", "belongs to another thread"));
    context.use_from_this_thread();
    EXPECT_EQ(sum(x).item(), 3);
}

TEST(TwoContexts, AreRefusedByEveryOp) {
    Context context = Context::cpu({.threads = 1}), other = Context::cpu({.threads = 1}),
            dry = Context::dry(context.profile());
    for (const auto& [foreign, both] :
         {std::pair(&other, "two contexts, both cpu"), std::pair(&dry, "two contexts, cpu and a dry run on cpu")}) {
        const Tensor a = context.from_host(std::vector<float>{1, 2}, {1, 2}).requires_grad_();
        const Tensor b = foreign->from_host(std::vector<float>{1, 2}, {1, 2}).requires_grad_();
        const Tensor ids = foreign->from_host(std::vector<std::int64_t>{0}, {1});
        EXPECT_THAT([&] { a* b; }, throws<Error>("mul: ", both));
        EXPECT_THAT([&] { linear(a, b); }, throws<Error>("linear: ", both));
        EXPECT_THAT([&] { embedding(a, ids); }, throws<Error>("embedding: ", both));
        EXPECT_THAT([&] { cat({a, b}); }, throws<Error>("cat: ", both));
        EXPECT_THAT([&] { layer_norm(a, b.flatten()); }, throws<Error>("layer_norm: ", both));
        EXPECT_THAT([&] { Loss(sum(a), sum(b)); }, throws<Error>("loss: ", both));
        EXPECT_THAT([&] { backward({sum(a), sum(b)}, {1.0, 1.0}); }, throws<Error>("backward: ", both));
        const Autocast autocast(context, Dtype::bf16);
        const std::size_t records = context.tape().size(), foreign_records = foreign->tape().size();
        EXPECT_THAT([&] { matmul(a, b.transpose(0, 1)); }, throws<Error>("matmul: ", both));
        EXPECT_EQ(context.tape().size(), records);
        EXPECT_EQ(foreign->tape().size(), foreign_records);
    }
}

TEST(TwoContexts, DoNotCopyIntoEachOther) {
    Context context = Context::cpu({.threads = 1}), dry = Context::dry(context.profile());
    const Array array = dry.scalar(1.0).array();
    float value = 1;
    const View host = contiguous_view(&value, Dtype::f32, {});
    EXPECT_THAT([&] { upload(context.exec(), host, array); }, throws<Error>("upload: ", "another context"));
    EXPECT_THAT([&] { download(context.exec(), array, host); }, throws<Error>("download: ", "another context"));
    EXPECT_THAT([&] { context.from_array(array); }, throws<Error>("from_array: ", "another context"));
}

TEST(TwoContexts, MayShareMemory) {
    Context context = Context::cpu({.threads = 1});
    Context other = Context::cpu({.threads = 1, .memory = context.shared_memory()});
    const Tensor x = context.from_host(std::vector<float>{1, 2}, {2});
    EXPECT_EQ((other.from_array(x.array()) * 2.0).to_vector<float>(), (std::vector<float>{2, 4}));
}

}  // namespace misuse_test
}  // namespace headroom
