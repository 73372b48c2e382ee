// Shows what each way to save memory costs and saves: trains a model for a few steps by each, in turn, and writes a
// table and a page, memory against speed. With --device dry it says what to expect.
#include <headroom/examples/compare/memory_speed.hpp>

constexpr const char* kExamples = R"(
  memory_speed --model gpt2 --effective-batch 4 --block 128 --html gpt2.html
  memory_speed --model resnet50 --effective-batch 8 --techniques baseline,checkpointing,plan --budgets 8 --json r.json
  memory_speed --model unet --device dry --gpu "RTX 3090")";

int main(int argc, char** argv) {
    return headroom::compare::memory_speed(argc, argv, headroom::models::all(), kExamples);
}
