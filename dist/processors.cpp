#include <headroom/dist/internal/processors.hpp>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <thread>

namespace headroom::dist {

Processors Processors::allowed() {
    Processors result;
    std::ifstream boot("/proc/sys/kernel/random/boot_id");  // also where machines have one name
    std::getline(boot, result.machine);
    CPU_ZERO(&result.set);
    if (sched_getaffinity(0, sizeof(result.set), &result.set) == 0) return result;
    for (int i = 0; i < of_machine(); ++i) CPU_SET(i, &result.set);
    return result;
}

int Processors::of_machine() { return std::max(1, static_cast<int>(std::thread::hardware_concurrency())); }

int Processors::count() const { return std::max(1, CPU_COUNT(&set)); }

int Processors::sharing(Group& hosts) const {
    const std::string own(reinterpret_cast<const char*>(&set), sizeof(set));
    int ranks = 0;
    for (const std::string& other : all_gather(hosts, own + machine)) {
        cpu_set_t both;
        std::memcpy(&both, other.data(), sizeof(both));
        CPU_AND(&both, &both, &set);
        if (CPU_COUNT(&both) > 0 && other.substr(sizeof(both)) == machine) ++ranks;
    }
    return ranks;
}

}  // namespace headroom::dist
