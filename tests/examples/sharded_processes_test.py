"""The training programs under mpirun, with shards: the bits, the memory and the files of several processes."""
import json
import os
import signal
import time
import unittest

from idx_files import images, labels
from processes import ProcessesCase
from program import shard


@shard(0)
class ShardedProcesses(ProcessesCase):
    def test_sharded_gradients_give_the_same_bits(self):
        self.expect_one_training((2, 3, 4, 8))
        self.expect_one_training((3,), "--accumulate", 7, "--ema-decay", 0.9, "--max-grad-norm", 0.1, "--recompute", "blocks")

    def test_shards_of_the_state_train_the_same_but_for_rounding(self):
        alone = self.log_of()
        together = self.log_of("--shard", "state", processes=3)
        for one, several in zip(alone, together, strict=True):
            for name in ("train/loss", "train/gradient_norm"):
                self.assertAlmostEqual(several[name], one[name], delta=1e-6 * max(1, abs(one[name])), msg=name)
        states = {self.summary(3, "--shard", "state")["state_sha256"] for _ in range(2)}
        self.assertEqual(len(states), 1)

    def test_peaks_are_predicted_and_state_is_shared(self):
        flags = ("--width", 128, "--steps", 3)
        whole = self.expect_predicted_ranks(2, *flags, "--shard", "none")["ranks"][0]["optimizer_state_bytes"]
        for shard in ("state", "gradients"):
            for processes in (2, 3, 4):  # of four, two have as many micro-batches, and unequal shares
                summary = self.expect_predicted_ranks(processes, *flags, "--shard", shard, "--accumulate", 5)
                for rank in summary["ranks"]:
                    share = -(-64 // processes) / 64
                    self.assertLessEqual(rank["optimizer_state_bytes"], whole * share + 65536, (shard, processes))

    def test_one_plan_keeps_all_within_the_budget(self):
        flags, budget = ("--shard", "gradients", "--layers", 4, "--width", 128, "--block", 64, "--steps", 3), 11_000_000
        planned = self.expect_predicted_ranks(3, *flags, "--budget", budget)
        for rank in planned["ranks"]:
            self.assertLessEqual(rank["peak_bytes_reserved"], budget)
        self.assertGreater(self.summary(3, *flags)["ranks"][0]["peak_bytes_reserved"], budget)
        whole = self.figures(*flags, "--batch", planned["batch"], "--accumulate", planned["accumulate"])
        self.assertEqual(planned["state_sha256"], whole["state_sha256"])

    def test_resumes_with_any_number_of_processes(self):
        flags = ("--shard", "gradients")
        whole = self.figures(*flags)["state_sha256"]
        first, second = self.path("a.safetensors"), self.path("b.safetensors")
        self.together(2, *flags, "--stop-after", 2, "--save", first)
        self.succeeds("--resume", first, "--stop-after", 2, "--save", second)
        self.assertEqual(self.summary(4, "--resume", second)["state_sha256"], whole)

    def test_a_rank_that_was_stopped_for_a_while_changes_nothing(self):
        flags = (*self.slow, "--shard", "gradients", "--steps", 10)
        saved, whole = self.path("stopped.safetensors"), self.figures(*flags)["state_sha256"]
        figures = self.path("stopped.json")
        job, ranks = self.start_and_tell(2, *flags, "--save", saved, "--save-every", 1, "--json", figures)
        self.wait_for(saved, job)
        os.kill(ranks[1], signal.SIGSTOP)
        time.sleep(1)
        os.kill(ranks[1], signal.SIGCONT)
        out, errors = job.communicate()
        self.assertEqual(job.returncode, 0, out + errors)
        with open(figures, encoding="utf-8") as stream:
            self.assertEqual(json.load(stream)["state_sha256"], whole)

    def test_one_rank_out_of_memory_ends_all(self):
        script = 'if [ "$OMPI_COMM_WORLD_RANK" = 1 ]; then exec "$@" --memory-limit 3MB; else exec "$@"; fi'
        _, errors = self.together(3, "--shard", "gradients", "--width", 128, status=3, wrap=("sh", "-c", script, "-"))
        (line,) = self.own_lines(errors)
        self.assertIn("out of memory", line)

    def test_shards_that_differ_are_refused(self):
        script = 'if [ "$OMPI_COMM_WORLD_RANK" = 1 ]; then exec "$@" --shard state; else exec "$@"; fi'
        _, errors = self.together(2, status=1, wrap=("sh", "-c", script, "-"))
        (line,) = self.own_lines(errors)
        self.assertIn("process 1 has", line)
        self.assertIn("shard", line)


@shard(1)
class ShardedText(ProcessesCase):
    """A BERT, whose micro-batches have different numbers of terms."""

    program = "train_text"

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        text = cls.write("quick.txt", "the quick fox jumps over the lazy dogs. " * 25)
        cls.flags = ("--model", "bert", "--data", text, "--layers", "2", "--width", "16", "--heads", "2", "--block", "12", "--batch",
                     "4", "--accumulate", "8", "--warmup", "3", "--dropout", "0.1", "--steps", "3", "--threads", "1")

    def test_sharded_gradients_give_the_same_bits(self):
        self.expect_one_training((2, 3, 4, 8))


@shard(2)
class ShardedImages(ProcessesCase):
    """A network with batch norm, whose running statistics are everybody's."""

    program = "train_images"

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        os.makedirs(cls.path("digits"))
        cls.write("digits/t10k-images-idx3-ubyte", images(150))
        cls.write("digits/t10k-labels-idx1-ubyte", labels(150))
        cls.flags = ("--model", "small", "--data", cls.path("digits"), "--batch", "2", "--accumulate", "8", "--validation", "20",
                     "--warmup", "1", "--steps", "3", "--threads", "1")

    def test_sharded_gradients_give_the_same_bits(self):
        self.expect_one_training((2, 3, 4, 8))


@shard(0)
class ShardedSegmentation(ProcessesCase):
    """A network with batch norm, whose validation counts pixels."""

    program = "train_segmentation"
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.flags = ("--base-width", "2", "--height", "16", "--width", "16", "--clouds", "20", "--validation", "5", "--batch",
                     "2", "--accumulate", "4", "--warmup", "1", "--steps", "3", "--threads", "1")

    def test_sharded_gradients_give_the_same_bits(self):
        self.assertIn("mean_iou", self.expect_one_training((2, 3)))


if __name__ == "__main__":
    unittest.main()
