// A rank of a job that does what it is told: scripted_rank DEVICE JOIN_TIMEOUT RANK_TIMEOUT [RANK:]WORD..., without
// RANK for all. DEVICE is cpu or cuda.
//   exchange      with all others, by way of the device
//   exchange=N    of N numbers
//   say=TEXT      on standard error
//   work=SECONDS  of ops
//   hang, kill    for ever, and itself
//   join          once more
//   fail          with an error that lets go of all that it has, and then hang
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <thread>

#include <fmt/format.h>

#include <headroom/core/context.hpp>
#include <headroom/core/group.hpp>
#include <headroom/core/ops/binary.hpp>
#include <headroom/core/ops/create.hpp>
#include <headroom/dist/world.hpp>
#include <headroom/memory/error.hpp>

namespace {

using namespace headroom;

[[noreturn]] void hang() {
    for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
}

void exchange(Context& context, std::int64_t numbers) {
    if (!context.group()) return;
    const Tensor ones_of_all = ones(context, {numbers});
    all_reduce(context.exec(), *context.group(), ones_of_all.array());
    const float last = ones_of_all.to_vector<float>().back();
    if (last != static_cast<float>(context.group()->ranks())) throw Error("a rank is missing in the sum");
}

void work(Context& context, double seconds) {
    using Clock = std::chrono::steady_clock;
    const NoGradGuard guard(context);
    const Tensor one = ones(context, {1});
    const auto begin = Clock::now();
    while (std::chrono::duration<double>(Clock::now() - begin).count() < seconds) {
        add(one, one);
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
}

void follow(const std::string& word, Context& context) {
    const std::string verb = word.substr(0, word.find('=')), what = word.substr(std::min(word.size(), verb.size() + 1));
    if (verb == "exchange") {
        exchange(context, what.empty() ? 1 : std::stoll(what));
    } else if (verb == "say") {
        fmt::print(stderr, "{}\n", what);
    } else if (verb == "work") {
        work(context, std::stod(what));
    } else if (verb == "hang") {
        hang();
    } else if (verb == "join") {
        dist::World::join();
    } else if (verb == "fail") {
        throw Error("fail");
    } else if (verb == "kill") {
        std::raise(SIGKILL);
    } else {
        throw Error("there is no word " + word);
    }
}

}  // namespace

int main(int argc, char** argv) {
    const dist::World world =
        dist::World::join({.join_timeout = std::stod(argv[2]), .rank_timeout = std::stod(argv[3])});
    try {
        const bool cuda = std::string(argv[1]) == "cuda";
        Context context = cuda ? world.cuda() : world.context({.threads = 1});
        for (int i = 4; i < argc; ++i) {
            const std::string word = argv[i], own = fmt::format("{}:", world.rank());
            if (word.starts_with(own)) follow(word.substr(own.size()), context);
            if (word.find(':') == std::string::npos) follow(word, context);
        }
        return 0;
    } catch (const std::exception& error) {
        if (error.what() == std::string("fail")) hang();
        fmt::print(stderr, "rank {}: {}\n", world.rank(), error.what());
        world.abort(1);
        return 1;
    }
}
