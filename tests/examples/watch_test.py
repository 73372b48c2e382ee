"""What ends a job under mpirun whose ranks hang, end or never come, and what does not."""
import math
import os
import re
import signal
import subprocess
import time
import unittest

from processes import ENVIRONMENT, RUN, ProcessesCase, at_once, runs
from program import EXAMPLES

RANK = os.path.abspath(os.path.join(os.environ.get("HEADROOM_EXAMPLES_TESTS_DIR", ""), "scripted_rank"))
GPU_RANK = os.path.join(os.path.dirname(RANK), "emulated_scripted_rank")
NCCL = os.path.abspath(os.path.join(EXAMPLES, "..", "libfake_nccl.so"))
LONG = 1000  # seconds: far more than a test takes
JOINING = 1  # seconds for ranks to join where one never does: all that this waits for is its end


@unittest.skipUnless(os.path.exists(RANK), "scripted_rank was not built")
class Watch(ProcessesCase):
    program = RANK
    environment = {**ENVIRONMENT, "HEADROOM_NCCL": NCCL}

    @classmethod
    def setUpClass(cls):
        """`short`: the seconds that pass until a rank is called one that hangs. They are some times what a job takes here from its
        start to its end, of which what ranks that do not hang do meanwhile is a small part."""
        super().setUpClass()
        begin = time.monotonic()
        assert cls.ends(3, "exchange", "exchange") == (0, [])
        cls.short = math.ceil(2 * (time.monotonic() - begin))

    @classmethod
    def command(cls, *flags):
        return [cls.program, "cpu" if cls.program == RANK else "cuda", *map(str, flags)]

    @classmethod
    def ends(cls, processes, *words, join=LONG, ranks=LONG, mpirun=(), wrap=()):
        """Status and the ranks' own lines of a job that ends by itself; where they have none, all lines."""
        job = subprocess.run([*RUN, *mpirun, "-np", str(processes), *wrap, *cls.command(join, ranks, *words)], text=True,
                             capture_output=True, env=cls.of_one_job(), check=False)
        lines = job.stderr.splitlines()
        return job.returncode, [line for line in lines if line.startswith(("rank ", "ranks ", "all ranks "))] or lines

    def test_a_rank_that_hangs_is_named(self):
        for hanging in (0, 1):
            status, lines = self.ends(3, "exchange", f"{hanging}:hang", "exchange", ranks=self.short)
            self.assertEqual((status, lines), (1, [f"rank {hanging} has made no progress for {self.short} s while others wait; "
                                                   "--rank-timeout sets how long they do"]))

    def test_ranks_that_wait_for_each_other_are_told(self):
        status, lines = self.ends(2, "0:exchange", ranks=self.short)  # the other one waits for the end of all
        self.assertEqual((status, len(lines)), (1, 1), lines)
        told = re.fullmatch(f"all ranks have waited for each other for {self.short} s, exchanges begun: (\\d+) by rank 0, (\\d+) by "
                            "rank 1; --rank-timeout sets how long they do", lines[0])
        self.assertTrue(told, lines)
        self.assertGreater(int(told[1]), int(told[2]))  # an exchange of GPUs begins several

    def test_a_rank_that_is_killed_is_named_where_no_launcher_ends_the_others(self):
        for victim in (0, 1):
            _, lines = self.ends(2, "exchange", f"{victim}:kill", "exchange", mpirun=("--enable-recovery",))
            self.assertEqual(lines, [f"rank {victim} has ended without finishing the job, which ends all ranks"])

    def test_a_rank_that_never_comes_is_waited_for_so_long(self):
        """It has ended well before MPI begins, or hangs there."""
        def waits(instead):
            script = f'if [ "$OMPI_COMM_WORLD_RANK" = 0 ]; then {instead}; else exec "$@"; fi'
            return self.ends(2, "exchange", join=JOINING, wrap=("sh", "-c", script, "-"))

        for status, lines in at_once(waits, ("exit 0", "sleep 1000")):
            self.assertEqual((status, lines), (1, [f"rank 1: not all of 2 ranks joined within {JOINING} s; --join-timeout sets how long "
                                                   "they may take"]))

    def test_ranks_that_exchange_other_sizes_end_in_a_line(self):
        """Freezing on one alone, say: nothing is on its way to memory that the error gives back."""
        for numbers in ((1000, 4000000), (4000000, 1000), (3000000, 4000000)):
            words = [f"{rank}:exchange={n}" for rank, n in enumerate((*numbers, numbers[1]))]
            status, lines = self.ends(3, "exchange", *words)
            self.assertNotEqual(status, 0, lines)
            told = [line for line in lines if re.match(r"rank (\d): (rank \1: MPI failed: rank \d sends \d+ bytes where \d+ are expected: "
                                                       r"do all|fake NCCL: \d+ bytes came from rank \d, and not \d+)", line)]
            self.assertTrue(told, lines)
            if self.program == RANK:
                self.assertEqual(told, lines)

    def test_joining_twice_is_refused(self):
        status, lines = self.ends(2, "exchange", "0:join")
        self.assertNotEqual(status, 0)  # mpirun of Open MPI 4.1 may end by a signal of its own
        told = [line for line in lines if line.startswith("rank 0: ")]
        self.assertEqual(told, ["rank 0: MPI can't be started: it was started in this process before, and can be started only once"])
        if self.program == RANK:  # over NCCL the other rank may find out that this one has failed before mpirun ends it
            self.assertEqual(told, lines)

    def test_one_that_works_for_longer_ends_nothing(self):
        self.assertEqual(self.ends(2, "exchange", f"1:work={2 * self.short}", "exchange", ranks=self.short), (0, []))

    def test_a_job_that_was_suspended_goes_on(self):
        def goes_on(words):
            job, ranks = self.start_and_tell(2, LONG, self.short, *words)
            for _ in range(2):
                self.assertEqual(job.stderr.readline(), "ready\n")
            for rank in ranks:
                os.kill(rank, signal.SIGSTOP)
            time.sleep(2 * self.short)
            for rank in ranks:
                os.kill(rank, signal.SIGCONT)
            out, errors = job.communicate()
            self.assertEqual((job.returncode, errors), (0, ""), out)
            self.assertFalse([rank for rank in ranks if runs(rank)])

        at_once(goes_on, [("exchange", "say=ready", f"{who}work={self.short}", "exchange") for who in ("1:", "")])

    def launched_ends(self, *words, ranks=LONG):
        """The same of two that no MPI has started, and that no launcher ends: the lines of each."""
        jobs = self.launch(LONG, ranks, *words)
        ends = [job.communicate()[1].splitlines() for job in jobs]
        return [job.returncode for job in jobs], ends

    def test_ranks_without_an_mpi_are_watched(self):
        named = f"rank 1 has made no progress for {self.short} s while others wait; --rank-timeout sets how long they do"
        (alone,) = self.launch(JOINING, LONG, "exchange", ranks=((0, {}),))
        hangs, works = at_once(lambda does: self.launched_ends("exchange", f"1:{does}", "exchange", ranks=self.short),
                               ("hang", f"work={2 * self.short}"))
        self.assertEqual(hangs, ([1, 1], [[named], []]))
        self.assertEqual(works, ([0, 0], [[], []]))
        self.assertIn(f"rank 1 of 2 has not joined within {JOINING} s", alone.communicate()[1])
        self.assertEqual(alone.returncode, 1)


@unittest.skipUnless(os.path.exists(GPU_RANK), "no emulated GPU in this build")
class GpuWatch(Watch):
    """The same where ranks wait for what an emulated GPU exchanges over the NCCL of tests/dist/fake_nccl, which waits without end
    for a rank that does not come."""

    program = GPU_RANK

    def test_nccls_own_reason_is_told(self):
        """A rank that fails aborts NCCL, of which the other one, which waits for the GPU, learns by asking."""
        status, lines = self.ends(2, "exchange", "1:work=2", "1:fail", "exchange")
        self.assertEqual((status, len(lines)), (1, 1), lines)
        # A first rank that comes to its exchange later than that meets the error by itself.
        self.assertRegex(lines[0], "^rank 0: (an earlier exchange|rank 0: ncclGroupEnd) failed: remote process exited")


if __name__ == "__main__":
    unittest.main()
