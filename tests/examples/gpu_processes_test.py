"""train_gpt under mpirun with a GPU for each process: emulated ones, and the NCCL of tests/dist/fake_nccl."""
import json
import os
import pathlib
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

    def test_keeps_the_reserve_that_is_told(self):
        for flags, said in (((), "629.1 MB (629145600 bytes) are left"), (("--gpu-reserve", "100MiB"), "104.9 MB (104857600 bytes) are left")):
            self.assertIn(said, self.succeeds("--stop-after", 1, *flags))

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

    def test_started_by_a_launcher_that_brings_no_mpi(self):
        together = self.summary(2)
        # torchrun itself listens at the port that it names.
        port = 20000 + os.getpid() % 10000
        agent = {"TORCHELASTIC_USE_AGENT_STORE": "True", "MASTER_PORT": port}
        one_each = [(rank, {"LOCAL_RANK": 0, "HEADROOM_EMULATED_MACHINE": rank}) for rank in range(2)]  # of two machines
        for ranks in (((0, {}), (1, {})), ((0, {"LOCAL_RANK": None}), (1, {})), ((0, agent), (1, {"MASTER_PORT": port + 1})),
                      ((0, {"MASTER_ADDR": "::1"}), (1, {"MASTER_ADDR": "[::1]"}))):
            summary = self.launched_summary(ranks=ranks)
            self.expect_one_result(summary, together)
            self.assertEqual([rank["peak_bytes_allocated"] for rank in summary["ranks"]],
                             [rank["peak_bytes_allocated"] for rank in together["ranks"]])
        self.expect_one_result(self.launched_summary(ranks=one_each), together)

    def test_each_takes_the_only_gpu_that_it_sees(self):
        together = self.summary(2, "--shard", "gradients")
        for gpus in ("10", "31"):
            ranks = [(rank, {"CUDA_VISIBLE_DEVICES": gpu}) for rank, gpu in enumerate(gpus)]
            self.expect_one_result(self.launched_summary("--shard", "gradients", ranks=ranks), together)
        own = 'export CUDA_VISIBLE_DEVICES="$OMPI_COMM_WORLD_LOCAL_RANK"; exec "$@"'
        self.together(2, wrap=("sh", "-c", own, "-"))

    def test_two_that_see_one_gpu_are_refused(self):
        uuid = "GPU-00000000-0000-0000-0000-000000000001"
        for visible in ("1", uuid):
            for errors, status in self.launched(ranks=[(rank, {"CUDA_VISIBLE_DEVICES": visible}) for rank in range(2)]):
                self.assertEqual((status, errors.count("\n")), (1, 1), errors)
                self.assertIn(f"ranks 0 and 1 see the same GPU, {uuid}, but need one each", errors)

    def test_hosts_without_mpi_say_a_lot(self):
        flags = ("--width", "384", "--steps", "1", "--shard", "gradients")  # pieces of 1.1 MiB of optimizer state
        self.expect_one_result(self.launched_summary(*flags), self.summary(2, *flags))

    def test_more_processes_than_a_machine_has_gpus_are_on_several(self):
        each = [(rank, {"LOCAL_RANK": rank % 4, "HEADROOM_EMULATED_MACHINE": rank // 4}) for rank in range(5)]
        for errors, status in self.launched("--accumulate", 5, ranks=each):
            self.assertEqual(status, 0, errors)

    def test_errors_of_processes_without_mpi_end_them(self):
        for errors, status in self.launched(ranks=((0, {}), (1, {}, "--lr", "0.5"))):
            self.assertEqual(status, 1, errors)
            self.assertIn("process 1 has", errors)

    def test_the_script_for_real_gpus_compares_ranks_with_one(self):
        folder = pathlib.Path(self.path("build"))
        for name in ("examples", "docs"):
            (folder / name).mkdir(parents=True)
        self.assertTrue((parts.ROOT / "docs" / "guide.md").exists())
        (folder / "docs" / "guide.md").write_text(words(200), encoding="utf-8")  # a smaller text
        (folder / "examples" / "train_gpt").symlink_to(self.program)
        small = ("--layers", "1", "--heads", "1", "--width", "8", "--block", "8", "--batch", "1")
        with mock.patch.multiple(parts, BUILD=folder, ROOT=folder, TRAINED_BY_RANKS=small, say=lambda _: None):
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
        for more, part in (({"RANK": None}, "WORLD_SIZE is set, but RANK is not"), ({"WORLD_SIZE": None}, "RANK is set, but WORLD_SIZE"),
                           ({"RANK": 2}, 'RANK is "2", which is not a number from 0 to 1'), ({"RANK": "x"}, 'RANK is "x"'),
                           ({"LOCAL_RANK": 2}, "LOCAL_RANK"), ({"LOCAL_WORLD_SIZE": 3}, "LOCAL_WORLD_SIZE"),
                           ({"MASTER_PORT": 70000}, "MASTER_PORT"), ({"MASTER_ADDR": None}, "MASTER_ADDR and MASTER_PORT"),
                           ({"MASTER_PORT": None}, "start with mpirun")):
            ((errors, status),) = self.launched(ranks=((0, more),))
            self.assertEqual(status, 1, errors)
            self.assertIn(part, errors)
            self.assertEqual(errors.count("\n"), 1, errors)

    def test_misuse_is_one_line(self):
        (line,) = self.refused(5, "--accumulate", 5)
        self.assertIn("5 processes on this machine need a GPU each, but it has 4; start with mpirun -np 4", line)
        (line,) = self.refused(2, HEADROOM_NCCL="/nowhere/libnccl.so.2")
        self.assertIn("several GPUs: NCCL", line)
        self.assertIn("install NVIDIA's NCCL", line)
        (line,) = self.refused(2, "--graphs", status=2)
        self.assertIn("--graphs is for one process", line)


if __name__ == "__main__":
    unittest.main()
