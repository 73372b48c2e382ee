// An NCCL for the emulated GPU, whose streams are `device::EmulatedDevice`s: it moves bytes when the stream gets there,
// through files in memory, so that ranks may be threads or processes. As with the real one, an exchange with a rank
// that has ended waits until this rank's communicator is aborted, which another thread may do; a rank that fails or
// aborts is an asynchronous error of the others, one that is killed is not; ranks need a GPU each, and an id of
// ncclGetUniqueId; a rank that was told of an error aborts, and does not wait for others in ncclCommFinalize. Stricter
// than the real one: nothing may be called of a communicator before its last call has ended, which takes several
// questions; what is sent and received goes in groups, of one stream for ever, with one message to and from a peer; a
// peer's messages come in their order, and each must have the size that is expected.
#include <headroom/tests/dist/fake_nccl/fake_nccl.hpp>

#include <dlfcn.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <headroom/dist/internal/nccl_api.hpp>
#include <headroom/kernels/device/internal/emulated_thread.hpp>

namespace headroom::dist {

/// Of one rank.
struct NcclCommunicator {
    std::filesystem::path folder;
    int rank = 0, ranks = 1;
    std::thread::id owner = std::this_thread::get_id();
    int questions = 0;  ///< that are answered by ncclInProgress
    bool joined = false, finalized = false;
    bool told = false;                                      ///< of an error
    std::map<int, std::uint64_t> sent = {}, received = {};  ///< messages, by peer
    CUstream_st* stream = nullptr;                          ///< of its first message
    std::atomic<bool> aborted = false;

    std::filesystem::path file(const std::string& name) const { return folder / name; }
    bool somebody_failed() const { return exists(file("failed")); }
    void fail() const { std::ofstream(file("failed")) << rank; }
    /// Whoever sees the file sees its text.
    void mark(const std::string& what, const std::string& text = "") const {
        const std::string name = what + std::to_string(rank);
        std::ofstream(file("." + name)) << text;
        std::error_code gone;  // the folder, with the process that made it: it may end before others have left
        std::filesystem::rename(file("." + name), file(name), gone);
    }
    std::string marked(const std::string& what, int by) const {
        std::ifstream text(file(what + std::to_string(by)));
        return {std::istreambuf_iterator<char>(text), {}};
    }
    /// Of two ranks that have the same GPU; empty: there are none.
    std::string one_gpu_twice() const {
        for (int q = 0; q < ranks; ++q) {
            for (int p = 0; p < q; ++p) {
                if (marked("joined", p) == marked("joined", q)) {
                    return "Duplicate GPU detected : rank " + std::to_string(p) + " and rank " + std::to_string(q) +
                           " both on CUDA device " + marked("joined", q);
                }
            }
        }
        return "";
    }
    bool all(const std::string& what) const {
        for (int q = 0; q < ranks; ++q) {
            if (!exists(file(what + std::to_string(q)))) return false;
        }
        return true;
    }
    /// This rank is done with the folder; the last one removes it.
    void leave() {
        mark("left");
        std::error_code none;
        if (all("left")) remove_all(folder, none);
    }
};

namespace {

constexpr NcclResult kSystemError = 2, kInvalidArgument = 4, kInvalidUsage = 5, kRemoteError = 6;
constexpr int kQuestions = 3;
constexpr const char* kId = "id";  ///< a file of ncclGetUniqueId's

std::atomic<int> version = 22800;
thread_local long calls = 0, failing_call = 0;
thread_local const char* failed = nullptr;
thread_local std::string last_error;

/// A message to or from a peer.
struct Message {
    bool send;
    std::byte* data;
    std::size_t bytes;
    int peer;
    std::uint64_t number = 0;  ///< among those that this rank sends to that peer, or receives from it
};
struct Group {
    bool open = false;
    std::shared_ptr<NcclCommunicator> comm;
    std::vector<Message> messages;
};
thread_local Group group;
/// Of all threads, whose calls but `ncclGroupEnd` hold the lock. Work that is still queued has its communicator.
struct Communicators {
    std::mutex mutex;
    std::vector<std::shared_ptr<NcclCommunicator>> all;
} communicators;

/// What ranks left that did not come to their end.
struct Folders {
    std::mutex mutex;
    std::vector<std::filesystem::path> made;
    ~Folders() {
        std::error_code none;
        for (const std::filesystem::path& folder : made) remove_all(folder, none);
    }
} folders;

NcclResult refuse(NcclResult how, const std::string& why) {
    last_error = why;
    return how;
}

/// Of what NVIDIA's may hang in, or never return from.
[[noreturn]] void give_up(const char* why) {
    std::fprintf(stderr, "fake NCCL: %s\n", why);
    std::abort();
}

std::shared_ptr<NcclCommunicator> known(const NcclCommunicator* comm) {
    for (const auto& one : communicators.all) {
        if (one.get() == comm) return one;
    }
    return nullptr;
}
/// The same of what this thread has made, which alone may use it.
std::shared_ptr<NcclCommunicator> owned(const NcclCommunicator* comm) {
    const std::shared_ptr<NcclCommunicator> one = known(comm);
    return one && one->owner == std::this_thread::get_id() ? one : nullptr;
}

/// Whether this call is to fail.
bool fails(const char* name, NcclCommunicator* comm = nullptr) {
    if (++calls != failing_call) return false;
    failed = name;
    last_error = std::string(name) + " was to fail";
    if (!comm) return true;
    comm->fail();
    comm->told = true;
    return true;
}

/// The identity of the calling thread's current GPU.
std::string current_gpu() {
    using Current = const char* (*)();
    const auto current = reinterpret_cast<Current>(dlsym(RTLD_DEFAULT, "headroom_emulated_gpu"));
    return current ? current() : "";
}

void write_message(const NcclCommunicator& comm, const Message& message) {
    if (comm.aborted) return;  // and its folder may be gone
    const std::string name =
        std::to_string(message.number) + "." + std::to_string(comm.rank) + "." + std::to_string(message.peer);
    {
        std::ofstream file(comm.file("." + name), std::ios::binary);
        file.write(reinterpret_cast<const char*>(message.data), static_cast<std::streamsize>(message.bytes));
    }
    std::error_code gone;  // where it was aborted meanwhile
    rename(comm.file("." + name), comm.file(name), gone);
}

void read_message(const NcclCommunicator& comm, const Message& message) {
    const std::filesystem::path path = comm.file(std::to_string(message.number) + "." + std::to_string(message.peer) +
                                                 "." + std::to_string(comm.rank));
    while (!exists(path)) {
        if (comm.aborted) return;
        std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
    std::ifstream file(path, std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(file), {}};
    std::filesystem::remove(path);
    if (comm.aborted) return;  // its folder may have gone since the message was seen
    if (bytes.size() != message.bytes) {
        comm.fail();
        throw std::runtime_error("fake NCCL: " + std::to_string(bytes.size()) + " bytes came from rank " +
                                 std::to_string(message.peer) + ", and not " + std::to_string(message.bytes));
    }
    std::memcpy(message.data, bytes.data(), bytes.size());
}

NcclResult add(const char* name, Message message, std::size_t count, int type, NcclCommunicator* comm,
               CUstream_st* stream) {
    const std::lock_guard lock(communicators.mutex);
    const std::shared_ptr<NcclCommunicator> of = owned(comm);
    if (!of) return refuse(kInvalidArgument, std::string(name) + ": no communicator of this rank");
    if (fails(name, comm)) return kSystemError;
    if (!group.open) return refuse(kInvalidUsage, std::string(name) + ": outside of a group");
    if (!of->joined || of->questions > 0) return refuse(kInvalidUsage, std::string(name) + ": a call has not ended");
    if (type != kNcclUint8) return refuse(kInvalidArgument, std::string(name) + ": no bytes");
    if (count == 0 || !message.data || !stream) return refuse(kInvalidArgument, std::string(name) + ": a null");
    if (message.peer < 0 || message.peer >= of->ranks || message.peer == of->rank)
        return refuse(kInvalidArgument, std::string(name) + ": there is no such peer");
    if (!of->stream) of->stream = stream;
    if (of->stream != stream || (group.comm && group.comm != of))
        return refuse(kInvalidUsage, std::string(name) + ": another stream, or communicator, than before");
    for (const Message& other : group.messages) {
        if (other.send == message.send && other.peer == message.peer)
            return refuse(kInvalidUsage, std::string(name) + ": a second message in a group");
    }
    group.comm = of;
    message.bytes = count;
    group.messages.push_back(message);
    return kNcclSuccess;
}

}  // namespace

}  // namespace headroom::dist

using namespace headroom::dist;

extern "C" {

void fake_nccl_version(int told) { version = told; }
void fake_nccl_fail(long call) {
    calls = 0;
    failing_call = call;
    failed = nullptr;
}
const char* fake_nccl_failed() { return failed; }

NcclResult ncclGetVersion(int* told) {
    *told = version;
    return kNcclSuccess;
}

NcclResult ncclGetUniqueId(NcclId* id) {
    if (fails("ncclGetUniqueId")) return kSystemError;
    const bool in_memory = exists(std::filesystem::path("/dev/shm"));
    std::string folder = (in_memory ? std::filesystem::path("/dev/shm") : std::filesystem::temp_directory_path()) /
                         "headroom-nccl-XXXXXX";
    if (folder.size() >= sizeof(id->internal) || !mkdtemp(folder.data()))
        return refuse(kSystemError, "ncclGetUniqueId: there is no folder");
    std::ofstream(std::filesystem::path(folder) / kId) << folder;
    std::memcpy(id->internal, folder.c_str(), folder.size() + 1);
    const std::lock_guard lock(folders.mutex);
    folders.made.emplace_back(folder);
    return kNcclSuccess;
}

NcclResult ncclCommInitRankConfig(NcclCommunicator** comm, int ranks, NcclId id, int rank, NcclConfig* config) {
    const auto made = std::make_shared<NcclCommunicator>();
    made->folder = id.internal;
    made->rank = rank;
    made->ranks = ranks;
    if (!exists(made->file(kId))) return refuse(kInvalidArgument, "ncclCommInitRankConfig: no id of ncclGetUniqueId");
    if (fails("ncclCommInitRankConfig", made.get())) return kSystemError;
    if (rank < 0 || rank >= ranks) return refuse(kInvalidArgument, "ncclCommInitRankConfig: there is no such rank");
    if (exists(made->file("joined" + std::to_string(rank))))
        return refuse(kInvalidUsage, "ncclCommInitRankConfig: the id is another communicator's");
    if (!config || config->magic != 0xcafebeef || config->size < sizeof(NcclConfig) || config->version < 21400)
        return refuse(kInvalidArgument, "ncclCommInitRankConfig: the configuration was not initialised");
    if (config->blocking != 0) return refuse(kInvalidUsage, "ncclCommInitRankConfig: it would block for ever");
    const std::string gpu = current_gpu();
    if (gpu.empty()) return refuse(kInvalidUsage, "ncclCommInitRankConfig: this thread has made no GPU current");
    made->questions = kQuestions;
    made->mark("joined", gpu);
    const std::lock_guard lock(communicators.mutex);
    communicators.all.push_back(made);
    *comm = made.get();
    return kNcclInProgress;
}

NcclResult ncclCommGetAsyncError(NcclCommunicator* comm, NcclResult* error) {
    const std::lock_guard lock(communicators.mutex);
    if (!known(comm)) return refuse(kInvalidArgument, "ncclCommGetAsyncError: no communicator");
    if (fails("ncclCommGetAsyncError", comm)) return kSystemError;
    *error = kNcclInProgress;
    const bool all_joined = comm->joined || comm->all("joined");
    const std::string twice = !comm->joined && all_joined ? comm->one_gpu_twice() : "";
    if (!twice.empty()) {
        *error = refuse(kInvalidUsage, twice);
    } else if (comm->somebody_failed()) {
        *error = refuse(kRemoteError, "another rank has failed");
    } else if (!owned(comm)) {  // another thread ends no call by asking
        *error = comm->questions > 0 || !comm->joined ? kNcclInProgress : kNcclSuccess;
    } else if (comm->questions > 0 && --comm->questions > 0) {
    } else if (!all_joined) {
        comm->questions = 1;
    } else {
        comm->joined = true;
        *error = kNcclSuccess;
    }
    if (*error != kNcclSuccess && *error != kNcclInProgress && owned(comm)) comm->told = true;
    return kNcclSuccess;
}

NcclResult ncclGroupStart() {
    const std::lock_guard lock(communicators.mutex);
    NcclCommunicator* last = nullptr;  // of this thread
    for (const auto& one : communicators.all) last = owned(one.get()) ? one.get() : last;
    if (fails("ncclGroupStart", last)) return kSystemError;
    if (group.open) return refuse(kInvalidUsage, "ncclGroupStart: in a group");
    group = {};
    group.open = true;
    return kNcclSuccess;
}

NcclResult ncclSend(const void* from, std::size_t count, int type, int peer, NcclCommunicator* comm,
                    CUstream_st* stream) {
    auto* const data = static_cast<std::byte*>(const_cast<void*>(from));
    return add("ncclSend", {.send = true, .data = data, .bytes = count, .peer = peer}, count, type, comm, stream);
}

NcclResult ncclRecv(void* to, std::size_t count, int type, int peer, NcclCommunicator* comm, CUstream_st* stream) {
    auto* const data = static_cast<std::byte*>(to);
    return add("ncclRecv", {.send = false, .data = data, .bytes = count, .peer = peer}, count, type, comm, stream);
}

NcclResult ncclGroupEnd() {
    Group ended = std::exchange(group, {});
    if (fails("ncclGroupEnd", ended.comm.get())) return kSystemError;
    if (!ended.open) return refuse(kInvalidUsage, "ncclGroupEnd: outside of a group");
    if (!ended.comm) return kNcclSuccess;  // nothing was asked for
    {
        const std::lock_guard lock(communicators.mutex);
        if (ended.comm->aborted) return refuse(kInvalidArgument, "ncclGroupEnd: the communicator was aborted");
        ended.comm->questions = kQuestions;
        for (Message& message : ended.messages)
            message.number = (message.send ? ended.comm->sent : ended.comm->received)[message.peer]++;
    }
    auto* const stream = reinterpret_cast<headroom::kernels::device::EmulatedDevice*>(ended.comm->stream);
    stream->call([comm = ended.comm, messages = ended.messages] {
        for (const Message& message : messages) {
            if (message.send) write_message(*comm, message);
        }
        for (const Message& message : messages) {
            if (!message.send) read_message(*comm, message);
        }
    });
    return kNcclInProgress;
}

NcclResult ncclCommFinalize(NcclCommunicator* comm) {
    const std::lock_guard lock(communicators.mutex);
    if (!owned(comm)) return refuse(kInvalidArgument, "ncclCommFinalize: no communicator of this rank");
    if (comm->told) give_up("ncclCommFinalize of what has failed");
    if (fails("ncclCommFinalize", comm)) return kSystemError;
    if (comm->questions > 0) return refuse(kInvalidUsage, "ncclCommFinalize: a call has not ended");
    comm->finalized = true;
    comm->questions = kQuestions;
    return kNcclInProgress;
}

NcclResult ncclCommDestroy(NcclCommunicator* comm) {
    const std::lock_guard lock(communicators.mutex);
    const std::shared_ptr<NcclCommunicator> gone = owned(comm);
    if (!gone) return refuse(kInvalidArgument, "ncclCommDestroy: no communicator of this rank");
    if (fails("ncclCommDestroy", comm)) return kSystemError;
    if (!comm->finalized || comm->questions > 0) give_up("ncclCommDestroy of what is not finalized");
    std::erase(communicators.all, gone);
    gone->leave();
    return kNcclSuccess;
}

NcclResult ncclCommAbort(NcclCommunicator* comm) {
    const std::lock_guard lock(communicators.mutex);
    const std::shared_ptr<NcclCommunicator> gone = known(comm);
    if (!gone) return refuse(kInvalidArgument, "ncclCommAbort: no communicator");
    if (group.open) give_up("ncclCommAbort in a group");  // NVIDIA's would put it off until the group ends
    std::erase(communicators.all, gone);
    gone->aborted = true;
    gone->fail();
    gone->leave();
    return kNcclSuccess;
}

const char* ncclGetErrorString(NcclResult result) {
    return result == kSystemError    ? "unhandled system error"
           : result == kRemoteError  ? "remote process exited or there was a network error"
           : result == kInvalidUsage ? "invalid usage"
                                     : "invalid argument";
}

const char* ncclGetLastError(NcclCommunicator*) { return last_error.c_str(); }
}
