"""train_gpt under mpirun with a GPU for each process: emulated ones, and the NCCL of tests/dist/fake_nccl."""
import json
import os
import pathlib
import socket
import subprocess
import sys
import unittest
from unittest import mock

from processes import ENVIRONMENT, ProcessesCase
from program import EXAMPLES, SOURCE, words

sys.path.insert(0, os.path.join(SOURCE, "bench", "gpu"))
import parts  # noqa: E402
import table  # noqa: E402
from runner import Runner  # noqa: E402

PROGRAM = os.path.join(os.environ.get("HEADROOM_EXAMPLES_TESTS_DIR", ""), "emulated_train_gpt")
NCCL = os.path.abspath(os.path.join(EXAMPLES, "..", "libfake_nccl.so"))


@unittest.skipUnless(os.path.exists(PROGRAM), "no emulated GPU in this build")
class GpuProcesses(ProcessesCase):
    program = os.path.abspath(PROGRAM)
    environment = {**ENVIRONMENT, "HEADROOM_NCCL": NCCL}

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        text = cls.write("text.txt", words(200))
        cls.flags = ("--data", text, "--device", "cuda", "--layers", "1", "--heads", "1", "--width", "8", "--block", "8", "--batch",
                     "2", "--accumulate", "3", "--warmup", "1", "--dropout", "0.1", "--steps", "3")

    def refused(self, processes, *flags, status=1, **environment):
        errors = self.together(processes, *flags, status=status, environment=environment)[1]
        return [line for line in errors.splitlines() if line.startswith("train_gpt: ")]

    def test_train_with_the_bits_of_one_and_in_the_memory_that_is_predicted(self):
        alone = self.figures("--shard", "gradients")
        summary = self.summary(2, "--shard", "gradients")
        for name in ("state_sha256", "val_loss", "train_loss"):
            self.assertEqual(summary[name], alone[name], name)
        self.assertEqual([rank["rank"] for rank in summary["ranks"]], [0, 1])
        for rank in summary["ranks"]:
            self.assertEqual(rank["peak_bytes_allocated"], rank["peak_bytes_predicted"])
            self.assertEqual(rank["peak_bytes_reserved"], rank["peak_bytes_reserved_predicted"])
            self.assertGreater(rank["sent_bytes"], 0)

    def test_predicted_for_a_gpu_that_is_elsewhere(self):
        flags = ("--device", "dry", "--gpu-memory", "8GiB", "--width", 64)
        (alone,) = self.figures(*flags, "--ranks", 1)["ranks"]
        ranks = self.figures(*flags, "--ranks", 3, "--shard", "gradients")["ranks"]
        self.assertEqual([rank["rank"] for rank in ranks], [0, 1, 2])
        for rank in ranks:
            self.assertEqual(rank["parameter_bytes"], alone["parameter_bytes"])
            self.assertLess(rank["optimizer_state_bytes"], alone["optimizer_state_bytes"] / 2)

    def test_resume_with_any_number(self):
        flags = ("--shard", "gradients")
        first, then = self.path("first.safetensors"), self.path("then.safetensors")
        self.together(2, *flags, "--stop-after", 1, "--save", first)
        self.succeeds(*flags, "--resume", first, "--stop-after", 1, "--save", then)
        self.assertEqual(self.summary(2, *flags, "--resume", then)["state_sha256"], self.figures(*flags)["state_sha256"])

    def launched(self, *flags, ranks=((0, {}), (1, {}))):
        """Standard error and status of processes that no MPI has started, by (rank, more of the environment, flags)."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        jobs = []
        for rank, more, *own in ranks:
            told = {"RANK": rank, "WORLD_SIZE": 2, "LOCAL_RANK": rank, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
            environment = self.environment | {name: str(value) for name, value in (told | more).items() if value is not None}
            jobs.append(subprocess.Popen(self.command(*flags, *own), text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                         env=environment))
        ends = [job.communicate() for job in jobs]
        self.assertEqual(ends[-1][0], "" if len(jobs) > 1 else ends[0][0])  # the first one alone prints
        return [(errors, job.returncode) for (_, errors), job in zip(ends, jobs, strict=True)]

    def test_started_by_a_launcher_that_brings_no_mpi(self):
        together = self.summary(2)
        file = self.path("launched.json")
        # torchrun itself listens at the port that it names.
        port = 20000 + os.getpid() % 10000
        agent = {"TORCHELASTIC_USE_AGENT_STORE": "True", "MASTER_PORT": port}
        one_each = {"LOCAL_RANK": 0}  # of two machines
        for ranks in (((0, {}), (1, {})), ((0, {"LOCAL_RANK": None}), (1, {})), ((0, agent), (1, {"MASTER_PORT": port + 1})),
                      ((0, one_each), (1, one_each)), ((0, {"MASTER_ADDR": "::1"}), (1, {"MASTER_ADDR": "[::1]"})),
                      ((0, {"NCCL_COMM_ID": f"here:{port}"}), (1, {"NCCL_COMM_ID": f"here:{port}", "MASTER_ADDR": None}))):
            for errors, status in self.launched("--json", file, ranks=ranks):
                self.assertEqual(status, 0, errors)
            with open(file, encoding="utf-8") as stream:
                summary = json.load(stream)
            for name in ("state_sha256", "val_loss", "train_loss"):
                self.assertEqual(summary[name], together[name], name)
            self.assertEqual([rank["peak_bytes_allocated"] for rank in summary["ranks"]],
                             [rank["peak_bytes_allocated"] for rank in together["ranks"]])
            os.remove(file)

    def test_hosts_without_mpi_say_more_than_their_window_holds(self):
        flags = ("--width", "384", "--steps", "1", "--shard", "gradients")  # pieces of 1.1 MiB of optimizer state
        file = self.path("launched.json")
        for errors, status in self.launched(*flags, "--json", file):
            self.assertEqual(status, 0, errors)
        with open(file, encoding="utf-8") as stream:
            self.assertEqual(json.load(stream)["state_sha256"], self.summary(2, *flags)["state_sha256"])

    def test_more_processes_than_a_machine_has_gpus_are_on_several(self):
        each = {"WORLD_SIZE": 3, "LOCAL_RANK": 0}
        for errors, status in self.launched(ranks=[(rank, each) for rank in range(3)]):
            self.assertEqual(status, 0, errors)

    def test_errors_of_processes_without_mpi_end_them(self):
        for errors, status in self.launched(ranks=((0, {}), (1, {}, "--lr", "0.5"))):
            self.assertEqual(status, 1, errors)
            self.assertIn("process 1 has", errors)

    def test_the_script_for_real_gpus_compares_ranks_with_one(self):
        folder = pathlib.Path(self.path("build"))
        (folder / "examples").mkdir(parents=True)
        (folder / "examples" / "train_gpt").symlink_to(self.program)
        small = ("--layers", "1", "--heads", "1", "--width", "8", "--block", "8", "--batch", "1")
        with mock.patch.multiple(parts, BUILD=folder, TRAINED_BY_RANKS=small, say=lambda _: None):
            with mock.patch.dict(os.environ, self.environment):
                runner = Runner(3600)

            tests = {"passed": 1, "failed": [], "skipped": [], "not_run": [], "stopped": False}

            def lines(result):
                return list(table.dist({"gpus": 2, "tests": tests, **result}))

            result = parts.ranks(runner, 2, quick=True)
            self.assertEqual(result["one"]["state_sha256"], result["all"]["state_sha256"], result)
            self.assertIn("2 ranks over NCCL, 2 GPUs: the bits of one", lines(result)[-1])
            runner.ours["HEADROOM_NCCL"] = "/nowhere/libnccl.so.2"
            result = parts.ranks(runner, 2, quick=True)
            self.assertRegex(result["error"], "^all: [^$]*NCCL")
            self.assertTrue(lines(result)[-1].startswith("! 2 ranks over NCCL, 2 GPUs: "))
            (folder / "examples" / "train_gpt").unlink()
            self.assertIn("was not built", parts.ranks(runner, 2, quick=True)["error"])

    def test_launchers_that_say_too_little_are_refused_in_one_line(self):
        for more, part in (({"RANK": None}, "WORLD_SIZE is set, and RANK is not"), ({"WORLD_SIZE": None}, "RANK is set, and WORLD_SIZE"),
                           ({"RANK": 2}, 'RANK is "2", and no number from 0 to 1'), ({"RANK": "x"}, 'RANK is "x"'),
                           ({"LOCAL_RANK": 2}, "LOCAL_RANK"), ({"LOCAL_WORLD_SIZE": 3}, "LOCAL_WORLD_SIZE"),
                           ({"MASTER_PORT": 70000}, "MASTER_PORT"), ({"MASTER_ADDR": None}, "MASTER_ADDR and MASTER_PORT"),
                           ({"MASTER_PORT": None}, "start with mpirun")):
            ((errors, status),) = self.launched(ranks=((0, more),))
            self.assertEqual(status, 1, errors)
            self.assertIn(part, errors)
            self.assertEqual(errors.count("\n"), 1, errors)
        ((errors, status),) = self.launched("--device", "cpu", ranks=((0, {}),))
        self.assertEqual((status, errors.count("\n")), (1, 1), errors)
        self.assertIn("bring no MPI, by which processes on CPUs reach each other: start with mpirun", errors)

    def test_misuse_is_one_line(self):
        (line,) = self.refused(4)
        self.assertIn("4 processes of this machine need a GPU each, and it has 3: start with mpirun -np 3", line)
        (line,) = self.refused(2, HEADROOM_NCCL="/nowhere/libnccl.so.2")
        self.assertIn("several GPUs: NCCL", line)
        self.assertIn("install NVIDIA's NCCL", line)
        (line,) = self.refused(2, "--graphs", status=2)
        self.assertIn("--graphs is for one process", line)


if __name__ == "__main__":
    unittest.main()
