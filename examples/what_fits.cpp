// Says which models train on which GPUs, by which way of recomputing or by a plan, and how large they may be, without
// training and without a GPU.
#include <headroom/examples/compare/what_fits.hpp>

constexpr const char* kExamples = R"(
  what_fits --model gpt2 --batch 32
  what_fits --model resnet50,unet --dtype bf16 --gpu-memory 8GiB,24GiB --methods none,plan --json fits.json
  what_fits --model gpt2 --batch 1 --largest block --gpu "RTX 3060,RTX 3090")";

int main(int argc, char** argv) { return headroom::compare::what_fits(argc, argv, headroom::models::all(), kExamples); }
