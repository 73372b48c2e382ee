// Parameters by name: reading and setting one from the host.
#include <headroom/core/parameters.hpp>

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <headroom/core/evaluation_scope.hpp>
#include <headroom/core/ops/binary.hpp>
#include <headroom/core/ops/reduce.hpp>
#include <headroom/kernels/fill/fill.hpp>
#include <headroom/memory/error.hpp>

namespace headroom {
namespace parameters_test {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

void ones(Exec& exec, const Array& parameter, const kernels::RandomKey&) {
    exec.launch([&](auto& stream) { kernels::fill(stream, 1.0, parameter.view()); });
}

template <class Work>
std::string error_of(Work&& work) {
    try {
        work();
    } catch (const Error& error) {
        return error.what();
    }
    return "accepted";
}

class ParametersByName : public ::testing::Test {
  protected:
    Context context = Context::cpu({.threads = 1});
    Parameters parameters{context};
    Tensor weight = parameters.create("block.0.weight", {2, 3}, ones);
    Tensor bias = parameters.create("block.0.bias", {3}, ones);
    Tensor mean = parameters.create_buffer("norm.mean", {2}, ones);
};

TEST_F(ParametersByName, AreReadAndSetFromHostValues) {
    const std::vector<double> values{1, 2, 3, 4, 5, 6};
    parameters.set("block.0.weight", values);  // before anything was used
    EXPECT_EQ(parameters.at("block.0.weight").tensor.to_vector<double>(), values);
    EXPECT_EQ(weight.to_vector<double>(), values);
    EXPECT_EQ(bias.to_vector<double>(), (std::vector<double>{1, 1, 1}));
    parameters.set("norm.mean", std::vector<std::int64_t>{7, -8});
    EXPECT_EQ(mean.to_vector<double>(), (std::vector<double>{7, -8}));
}

TEST_F(ParametersByName, AnErrorNamesWhatThereIs) {
    EXPECT_EQ(
        error_of([&] { parameters.at("block.0.weights"); }),
        "parameters: no parameter is named \"block.0.weights\"; there are block.0.weight, block.0.bias, norm.mean");
    EXPECT_EQ(error_of([&] { Parameters(context, {.name = "other"}).at("x"); }),
              "parameters: no parameter is named \"x\"; no module has registered one yet");
    for (int i = 0; i < 20; ++i) parameters.create("many." + std::to_string(i), {1}, ones);
    EXPECT_THAT(error_of([&] { parameters.at("norm.var"); }),
                AllOf(HasSubstr("there are norm.mean, "), HasSubstr(" and 15 more"), Not(HasSubstr("\n"))));
}

TEST_F(ParametersByName, AnotherNumberOfValuesIsRefused) {
    EXPECT_EQ(error_of([&] {
                  parameters.set("block.0.weight", std::vector<float>{1, 2});
              }),
              "parameters: \"block.0.weight\" has the shape [2, 3], got 2 values");
}

TEST_F(ParametersByName, APathIsTakenOnce) {
    EXPECT_EQ(error_of([&] { parameters.create("block.0.bias", {3}, ones); }),
              "parameters: \"block.0.bias\" already exists; give each module its own path");
}

/// Two parameters, whose module throws between them at the first try.
struct Failing {
    Failing(Parameters& parameters, std::int64_t size)
        : first(parameters.create("half.first", {2}, ones)), second(parameters.create("half.second", {size}, ones)) {}
    Tensor first, second;
};

TEST_F(ParametersByName, WhatAConstructorThatThrewLeftIsNamed) {
    EXPECT_THROW(Failing(parameters, -1), ShapeError);
    EXPECT_EQ(error_of([&] { Failing(parameters, 1); }),
              "parameters: \"half.first\" already exists; its module was destroyed (did the constructor throw?), so "
              "build the model again with new Parameters");
    Parameters anew(context, {.name = "anew"});
    const Failing built(anew, 1);
    EXPECT_EQ(built.first.to_vector<double>(), (std::vector<double>{1, 1}));
}

TEST_F(ParametersByName, ABackwardOfValuesFromBeforeIsRefused) {
    const Tensor loss = sum(weight * weight);
    parameters.set("block.0.weight", std::vector<float>(6, 2));
    EXPECT_THROW(backward(loss), Error);
}

/// However it ends, and also within another one.
TEST(EvaluationScope, PutsTheModeAndTheTapeBack) {
    Context context = Context::cpu({.threads = 1});
    Parameters parameters(context);
    const auto state = [&] { return std::pair(parameters.training(), context.tape().recording()); };
    for (const bool training : {true, false}) {
        for (const bool recording : {true, false}) {
            const std::pair before(training, recording), within(false, false);
            parameters.train(training);
            context.tape().set_recording(recording);
            {
                const EvaluationScope evaluation(parameters);
                EXPECT_EQ(state(), within);
                { const EvaluationScope inner(parameters); }
                EXPECT_EQ(state(), within);
            }
            EXPECT_EQ(state(), before);
            const auto fail = [&] {
                const EvaluationScope evaluation(parameters);
                throw Error("no");
            };
            EXPECT_THROW(fail(), Error);
            EXPECT_EQ(state(), before);
        }
    }
}

}  // namespace parameters_test
}  // namespace headroom
