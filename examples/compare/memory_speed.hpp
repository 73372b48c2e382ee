#pragma once
// The program memory_speed, for models of your own as well: it trains one of them by each way to save memory, in turn,
// and writes a table, a page and the rows as JSON. docs/models.md has its flags. For a comparison inside of a program:
// examples/models/techniques.hpp.
//
//     int main(int argc, char** argv) {
//         return headroom::compare::memory_speed(argc, argv, {my_model()});
//     }
#include <string>
#include <vector>

#include <headroom/examples/models/models.hpp>

namespace headroom::compare {

/// Does what the command line says with the one of `models` that --model names. `examples`: commands that --help ends
/// with. Returns the exit code: 0 done, 1 failed, 2 wrong usage, 3 out of memory; if not 0, a line on standard error,
/// which begins with the program's name, has said what is wrong and what to do. Throws nothing.
int memory_speed(int argc, char** argv, const std::vector<models::Model>& models, const std::string& examples = {});

}  // namespace headroom::compare
