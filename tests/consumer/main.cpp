// Uses an installed Headroom the way a program outside of this repository does.
#include <cstdio>
#include <string>

#include <headroom/headroom.hpp>
#include <headroom/memory/error.hpp>

int main() {
    try {
        throw headroom::ShapeError("thrown by the consumer");
    } catch (const headroom::Error& error) {
        if (std::string(error.what()) != "thrown by the consumer") return 1;
    }
    std::printf("headroom %s, built for %s\n", headroom::version, headroom::config::cpu_arch);
    return 0;
}
