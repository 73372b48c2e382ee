// memory_speed for this project's models.
#include <headroom/examples/compare/memory_speed.hpp>

#include "own_models.hpp"

int main(int argc, char** argv) { return compare::memory_speed(argc, argv, {network(), rotation()}); }
