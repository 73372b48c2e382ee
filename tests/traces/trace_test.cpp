#include <fstream>
#include <sstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <headroom/bench/traces/program.hpp>
#include <headroom/bench/traces/scripted.hpp>
#include <headroom/bench/traces/trace.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/tests/support/source_path.hpp>

namespace headroom::traces {
namespace trace_test {

using Kind = Operation::Kind;
using testing::HasSubstr;

Trace parse(const std::string& lines) {
    std::istringstream in("headroom trace 1\nname demo\np mlp\n" + lines);
    return read_trace(in, "demo.trace");
}

/// The message of the error that reading ends with.
std::string error_of(const std::string& lines) {
    try {
        parse(lines);
    } catch (const FileError& error) {
        return error.what();
    }
    return "none";
}

/// Two streams, every kind of operation, an id that is used twice.
Trace sample() {
    Program program("sample", "two pieces and a third");
    const Piece weights = program.take(1000, 0, "mlp", Category::parameters);
    program.step();
    {
        const Piece x = program.take(64, 0, "mlp.up");
        program.wait(1, 0);
        program.use(x, 1);
    }
    const Piece y = program.take(7, 1, "mlp.up", Category::workspace);
    return program.trace();
}

TEST(Trace, IsReadAsItWasWritten) {
    const Trace trace = sample();
    std::stringstream file;
    write_trace(trace, file);
    EXPECT_EQ(read_trace(file, "file"), trace);
}

std::string contents(const std::string& file) {
    std::ifstream in(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
}

TEST(Trace, AFileMayBePackedAndADamagedOneIsRefused) {
    const std::string plain = testing::TempDir() + "plain.trace", packed = testing::TempDir() + "packed.trace.gz";
    const Trace trace = offload();
    write_trace(trace, plain);
    write_trace(trace, packed);
    EXPECT_TRUE(read_trace(plain) == trace && read_trace(packed) == trace);
    const std::string text = contents(plain), bytes = contents(packed);
    EXPECT_EQ(text.substr(0, 17), "headroom trace 1\n");
    EXPECT_LT(4 * bytes.size(), text.size());
    for (const std::string& damaged : {bytes.substr(0, bytes.size() / 2), bytes.substr(0, bytes.size() - 4) + "size"}) {
        std::ofstream(packed, std::ios::binary) << damaged;
        EXPECT_THROW(read_trace(packed), FileError);
    }
}

TEST(Trace, APieceIsFreedAfterItsLastUseAndItsIdUsedAgain) {
    const Trace trace = sample();
    ASSERT_EQ(trace.operations.size(), 7u);
    EXPECT_EQ(trace.operations[4].kind, Kind::record_use);
    EXPECT_EQ(trace.operations[5], (Operation{.kind = Kind::free, .id = 1}));
    EXPECT_EQ(trace.operations[6], (Operation{.kind = Kind::allocate,
                                              .category = static_cast<memory::CategoryId>(Category::workspace),
                                              .stream = 1,
                                              .id = 1,
                                              .path = 2,
                                              .bytes = 7}));
}

TEST(Trace, CountsStepsStreamsAndThePeakFromAStepOn) {
    const Trace trace = parse("a 0 100 0 0 0\na 1 50 0 3 1\nf 1\ns\na 1 20 3 3 1\nf 1\ns\nw 0 3\nf 0\n");
    EXPECT_EQ(steps(trace), 2u);
    EXPECT_EQ(id_count(trace), 2u);
    EXPECT_EQ(stream_count(trace), 4u);
    EXPECT_EQ(peak_live(trace), 150u);
    EXPECT_EQ(peak_live(trace, 1), 120u);
    EXPECT_EQ(peak_live(trace, 2), 100u);
    EXPECT_EQ(peak_live(trace, 3), 0u);
}

TEST(Trace, AFileThatIsNoneIsRefusedByItsLine) {
    EXPECT_EQ(error_of("# remark\n\na 0 100 0 0 0\n"), "none");
    EXPECT_EQ(error_of("a 0 100 0 7 0\n"), "none") << "no category";
    EXPECT_THAT(error_of("s\na 0 100 0 0\n"), HasSubstr("demo.trace:5: 'a 0 100 0 0' is not an operation"));
    EXPECT_THAT(error_of("a 0 100 0 8 0\n"), HasSubstr("is not an operation"));
    EXPECT_THAT(error_of("a 0 -1 0 0 0\n"), HasSubstr("is not an operation"));
    EXPECT_THAT(error_of("a 0 99999999999999999999999 0 0 0\n"), HasSubstr("is not an operation"));
    EXPECT_THAT(error_of("f 0 1\n"), HasSubstr("is not an operation"));
    EXPECT_THAT(error_of("x\n"), HasSubstr("is not an operation"));
    std::istringstream other("something else\n");
    EXPECT_THROW(read_trace(other, "other"), FileError);
    EXPECT_THROW(read_trace("/no/such/file.trace"), FileError);
    EXPECT_THROW(write_trace(sample(), "/no/such/folder/file.trace"), FileError);
}

TEST(Trace, OperationsThatCantBeAreRefused) {
    EXPECT_THAT(error_of("a 0 1 0 0 0\na 0 1 0 0 0\n"), HasSubstr("operation 1: block 0 is live already"));
    EXPECT_THAT(error_of("a 0 1 0 0 0\nf 0\nf 0\n"), HasSubstr("operation 2: block 0 is not live"));
    EXPECT_THAT(error_of("u 0 1\n"), HasSubstr("block 0 is not live"));
    EXPECT_THAT(error_of("a 0 1 0 0 2\n"), HasSubstr("there is no path 2"));
    EXPECT_THAT(error_of("a 4000000000 1 0 0 0\n"), HasSubstr("an id is larger"));
    EXPECT_THAT(error_of("w 1 1\n"), HasSubstr("waits for itself"));
}

memory::MemoryEvent event(memory::MemoryEvent::Kind kind, std::uintptr_t address, std::size_t requested,
                          std::uint32_t step) {
    memory::MemoryEvent result;
    result.kind = kind;
    result.address = address;
    result.bytes = 512;
    result.requested = requested;
    result.step = step;
    result.path = 1;
    return result;
}

TEST(TraceOf, AHistoryBecomesTheSameRequests) {
    using Event = memory::MemoryEvent::Kind;
    memory::MemorySnapshot snapshot;
    snapshot.paths = {"", "mlp"};
    snapshot.events = {event(Event::map, 4096, 4096, 0),   event(Event::allocate, 4096, 100, 0),
                       event(Event::allocate, 4608, 7, 1), event(Event::free, 4096, 100, 1),
                       event(Event::allocate, 4096, 3, 3), event(Event::out_of_memory, 0, 1 << 20, 3)};
    const Trace trace = trace_of(snapshot, "demo", "a test");
    const std::vector<Operation> expected = {{.kind = Kind::allocate, .id = 0, .path = 1, .bytes = 100},
                                             {.kind = Kind::step},
                                             {.kind = Kind::allocate, .id = 1, .path = 1, .bytes = 7},
                                             {.kind = Kind::free, .id = 0},
                                             {.kind = Kind::step},
                                             {.kind = Kind::step},
                                             {.kind = Kind::allocate, .id = 0, .path = 1, .bytes = 3}};
    EXPECT_EQ(trace.operations, expected);
    EXPECT_EQ(trace.paths, snapshot.paths);
}

TEST(TraceOf, AHistoryWithGapsIsRefused) {
    memory::MemorySnapshot snapshot;
    snapshot.paths = {"", "mlp"};
    snapshot.events = {event(memory::MemoryEvent::Kind::free, 4096, 100, 0)};
    EXPECT_THROW(trace_of(snapshot, "demo", ""), Error);
    snapshot.events.clear();
    snapshot.events_dropped = 1;
    EXPECT_THROW(trace_of(snapshot, "demo", ""), Error);
}

TEST(RecordedTraces, ScriptedOnesAreAsTheirProgramsMakeThem) {
    for (const Trace& trace : {offload(), four_streams(), side_stream()}) {
        const std::string file = test::source_path("bench/traces/recorded/" + trace.name + ".trace.gz");
        EXPECT_TRUE(read_trace(file) == trace) << file << ": run record_traces again";
    }
}

}  // namespace trace_test
}  // namespace headroom::traces
