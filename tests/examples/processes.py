"""What the tests of programs under mpirun share."""
import concurrent.futures
import itertools
import json
import os
import shutil
import subprocess
import tempfile
import time
import unittest

from program import EXAMPLES, ProgramCase, words

MPIRUN = shutil.which("mpirun")
PLUGIN = os.path.join(EXAMPLES, "..", "dist", "libheadroom_mpi.so")
# Threads that wait for each other on few processors; mpirun of Open MPI refuses root and more processes than processors otherwise.
RUN = (MPIRUN, "--allow-run-as-root", "--oversubscribe", "--bind-to", "none")
# Of the first rank, below those that systems give to whoever asks for any.
PORT = 23917
# MPI keeps memory that it never gives back, of which AddressSanitizer would tell.
ENVIRONMENT = {**os.environ, "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"}


def at_once(work, cases):
    """What `work` returns for each of the cases, which wait most of their time."""
    with concurrent.futures.ThreadPoolExecutor() as threads:
        return list(threads.map(work, cases))


def runs(process):
    """Whether there is such a process, and it has not ended."""
    try:
        with open(f"/proc/{process}/stat", encoding="utf-8") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


@unittest.skipUnless(MPIRUN and os.path.exists(PLUGIN), "no MPI here")
class ProcessesCase(ProgramCase):
    """Programs that one process and several run."""

    # Of steps that take long and exchange little: each exchange costs ranks that have no processor of their own some waiting.
    slow = ("--width", 64, "--block", 64, "--batch", 64, "--accumulate", 2)
    program = "train_gpt"
    environment = ENVIRONMENT
    hosts = itertools.cycle(range(3, 250))

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        text = cls.write("text.txt", words(400))
        cls.flags = ("--data", text, "--layers", "2", "--heads", "2", "--width", "32", "--block", "16", "--batch", "4",
                     "--accumulate", "8", "--warmup", "3", "--dropout", "0.1", "--steps", "6", "--threads", "1")

    @classmethod
    def of_one_job(cls):
        """The environment of a job. Open MPI's jobs share a folder of their user, which each makes and removes: two that start
        or end at once fail over it. So each has a folder of its own."""
        return {**cls.environment, "OMPI_MCA_orte_tmpdir_base": tempfile.mkdtemp(dir=cls.folder)}

    @classmethod
    def start(cls, processes, *flags, **more):
        environment = {**cls.of_one_job(), **more.pop("environment", {})}
        return subprocess.Popen([*RUN, "-np", str(processes), *more.pop("wrap", ()), *cls.command(*flags)], text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True, env=environment, **more)

    def together(self, processes, *flags, status=0, **more):
        """What the processes printed, on standard output and on the other one."""
        job = self.start(processes, *flags, **more)
        out, errors = job.communicate()
        self.assertEqual(job.returncode, status, out + errors)
        return out, errors

    def launch(self, *flags, ranks=((0, {}), (1, {}))):
        """Processes that no MPI has started, by (rank, more of the environment, flags)."""
        # Whose ports nothing else uses. One that the system gave and took back may be given to a listener at all addresses.
        host = f"127.{os.getpid() // 256 % 256}.{os.getpid() % 256}.{next(self.hosts)}"
        jobs = []
        for rank, more, *own in ranks:
            told = {"RANK": rank, "WORLD_SIZE": max(2, len(ranks)), "LOCAL_RANK": rank, "MASTER_ADDR": host, "MASTER_PORT": PORT}
            environment = self.environment | {name: str(value) for name, value in (told | more).items() if value is not None}
            jobs.append(subprocess.Popen(self.command(*flags, *own), text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                         env=environment))
            self.addCleanup(jobs[-1].kill)
        return jobs

    def launched(self, *flags, **how):
        """Standard error and status of such processes."""
        jobs = self.launch(*flags, **how)
        ends = [job.communicate() for job in jobs]
        self.assertEqual(ends[-1][0], "" if len(jobs) > 1 else ends[0][0])  # the first one alone prints
        return [(errors, job.returncode) for (_, errors), job in zip(ends, jobs, strict=True)]

    def launched_summary(self, *flags, **how):
        file = self.path("launched.json")
        for errors, status in self.launched(*flags, "--json", file, **how):
            self.assertEqual(status, 0, errors)
        with open(file, encoding="utf-8") as stream:
            summary = json.load(stream)
        os.remove(file)
        return summary

    def expect_one_result(self, summary, other):
        for name in ("state_sha256", "val_loss", "train_loss"):
            self.assertEqual(summary[name], other[name], name)

    def summary(self, processes, *flags):
        file = self.path(f"of{processes}.json")
        self.together(processes, *flags, "--json", file)
        with open(file, encoding="utf-8") as stream:
            return json.load(stream)

    def log_of(self, *flags, processes=None):
        file = self.path("log.jsonl")
        if processes:
            self.together(processes, *flags, "--log", file)
        else:
            self.succeeds(*flags, "--log", file)
        with open(file, encoding="utf-8") as stream:
            return [json.loads(line) for line in stream if "train/loss" in line]

    def start_and_tell(self, processes, *flags):
        """The job, and its processes by rank."""
        tell = 'echo "$OMPI_COMM_WORLD_RANK $$" >&2; exec "$@"'
        job = self.start(processes, *flags, wrap=("sh", "-c", tell, "-"))
        told = dict(map(int, job.stderr.readline().split()) for _ in range(processes))
        return job, [told[rank] for rank in range(processes)]

    def wait_for(self, file, job):
        """Until the job, which goes on for longer than that, has written it."""
        while not os.path.exists(file):
            self.assertIsNone(job.poll(), file)
            time.sleep(0.05)

    def own_lines(self, errors):
        """Of the program's, without mpirun's remarks."""
        return [line for line in errors.splitlines() if line.startswith((f"{self.program}: ", "rank "))]

    def expect_predicted_ranks(self, processes, *flags):
        """Each process takes what a dry run has predicted for it; returns what all of them said."""
        summary = self.summary(processes, *flags)
        predicted = self.path("predicted.json")
        self.succeeds(*flags, "--device", "dry", "--ranks", processes, "--json", predicted)
        with open(predicted, encoding="utf-8") as stream:
            rehearsed = json.load(stream)["ranks"]
        self.assertEqual([rank["rank"] for rank in summary["ranks"]], list(range(processes)))
        for real, dry in zip(summary["ranks"], rehearsed, strict=True):
            for name in ("peak_bytes_allocated", "peak_bytes_reserved"):
                of = name.replace("allocated", "predicted").replace("reserved", "reserved_predicted")
                self.assertEqual((real[name], real[of]), (dry[of], dry[of]), (name, real["rank"], flags))
            for name in ("parameter_bytes", "optimizer_state_bytes"):
                self.assertEqual(real[name], dry[name], (name, real["rank"], flags))
        return summary

    def expect_one_training(self, counts, *flags):
        """With sharded gradients any number of processes comes to the same bits."""
        flags = (*flags, "--shard", "gradients")
        alone = self.figures(*flags)
        for processes in counts:
            together = self.summary(processes, *flags)
            for name in ("state_sha256", "train_loss", "val_loss", *(f for f in ("val_accuracy", "mean_iou") if f in alone)):
                self.assertEqual(together[name], alone[name], (name, processes, flags))
        return alone
