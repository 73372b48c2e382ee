// Writes the page of a comparison, for the test in Python that opens it. usage: write_page COMPARISON.json PAGE.html
#include <cstdio>
#include <fstream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <headroom/examples/speed/page.hpp>
#include <headroom/memory/error.hpp>

int main(int argc, char** argv) {
    if (argc != 3) {
        fmt::print(stderr, "usage: write_page COMPARISON.json PAGE.html\n");
        return 2;
    }
    try {
        std::ifstream file(argv[1]);
        headroom::speed::write_speed_page(nlohmann::ordered_json::parse(file), argv[2]);
    } catch (const headroom::FileError& error) {
        fmt::print(stderr, "{}\n", error.what());
        return 1;
    }
}
