"""train_gpt under mpirun with a GPU for each process: the emulated ones, which are two, and the NCCL of tests/dist/fake_nccl."""
import os
import unittest

from processes import ENVIRONMENT, ProcessesCase
from program import EXAMPLES, words

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

    def test_misuse_is_one_line(self):
        (line,) = self.refused(3)
        self.assertIn("3 processes of this machine need a GPU each, and it has 2: start with mpirun -np 2", line)
        (line,) = self.refused(2, HEADROOM_NCCL="/nowhere/libnccl.so.2")
        self.assertIn("several GPUs: NCCL", line)
        self.assertIn("install NVIDIA's NCCL", line)
        (line,) = self.refused(2, "--graphs", status=2)
        self.assertIn("--graphs is for one process", line)


if __name__ == "__main__":
    unittest.main()
