// what_fits for this project's models.
#include <headroom/examples/compare/what_fits.hpp>

#include "own_models.hpp"

int main(int argc, char** argv) { return compare::what_fits(argc, argv, {network(), rotation()}); }
