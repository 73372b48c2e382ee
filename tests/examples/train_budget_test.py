"""--budget: the training keeps within it, with the peak that was predicted, and the bits of one without a plan."""
import json
import os
import re
import unittest

from idx_files import images, labels
from program import SHARDS, ProgramCase, data_file, shard

PAGE = 2 << 20
AMPLE = 4 << 30  # more than any of them takes
BUDGETS = int(os.environ.get("HEADROOM_BUDGETS", "5" if SHARDS == 1 else "3"))  # of each program


class Budget:
    """What holds for every program. `flags` have two steps or three, of one that takes several pages."""

    ways = ("cheap", "blocks")  # by hand, but for keeping all
    batch_norm = False
    fewest_pages = 2  # between the least budget and keeping all

    def test_keeps_within_every_budget(self):
        kept = self.figures("--recompute", "none")
        whole = self.figures("--budget", AMPLE)
        self.assertEqual(whole["peak_bytes_reserved"], kept["peak_bytes_reserved"])
        self.assertEqual(whole["keep_all_bytes"], kept["peak_bytes_reserved"])
        floor, keep_all = whole["floor_bytes"], whole["keep_all_bytes"]
        pages = (keep_all - floor) // PAGE
        self.assertGreaterEqual(pages, self.fewest_pages, "nothing to plan")
        budgets = sorted({floor + round(i * pages / (BUDGETS - 1)) * PAGE for i in range(BUDGETS)})
        before, hashes, peaks = float("inf"), {}, set()
        for budget in budgets:
            with self.subTest(budget=budget):
                figures = self.figures("--budget", budget)
                self.assertLessEqual(figures["peak_bytes_reserved"], budget)
                peaks.add(figures["peak_bytes_reserved"])
                self.assertEqual(figures["peak_bytes_reserved"], figures["peak_bytes_reserved_predicted"])
                self.assertEqual(figures["peak_bytes_allocated"], figures["peak_bytes_predicted"])
                self.assertEqual(figures["replayed_ops"], figures["replayed_ops_predicted"])
                self.assertLessEqual(figures["step_seconds_predicted"], before)
                before = figures["step_seconds_predicted"]
                self.assertEqual((figures["fits"], figures["budget_bytes"]), (True, budget))
                self.assertEqual((figures["floor_bytes"], figures["keep_all_bytes"]), (floor, keep_all))
                division = (figures["batch"], figures["accumulate"])
                if division not in hashes:
                    plain = self.figures("--recompute", "none", "--batch", division[0], "--accumulate", division[1])
                    self.assertIsNone(plain["floor_bytes"])
                    hashes[division] = plain["state_sha256"]
                self.assertEqual(figures["state_sha256"], hashes[division], "a plan changes no bit")
                dry = self.figures("--budget", budget, "--device", "dry")
                for name in ("peak_bytes_reserved_predicted", "replayed_ops_predicted", "step_seconds_predicted"):
                    self.assertEqual(dry[name], figures[name])
        self.assertEqual(self.figures("--budget", floor)["floor_bytes"], floor)
        if len(budgets) >= 64:
            self.assertGreaterEqual(len(peaks), 16)

    def test_names_the_least_budget(self):
        whole = self.figures("--budget", AMPLE)
        floor = whole["floor_bytes"]
        file = self.path("refused.json")
        run = self.run_program("--budget", floor - PAGE, "--json", file)
        self.assertEqual(run.returncode, 3)
        line = f"{self.program}: --budget {floor - PAGE}: the least found is {floor} bytes; use --budget {floor}"
        if self.batch_norm:
            line += f", or --split-batch, with which the least found is {self.figures('--budget', AMPLE, '--split-batch')['floor_bytes']} bytes"
        self.assertEqual(run.stderr, line + "\n")
        with open(file, encoding="utf-8") as stream:
            figures = json.load(stream)
        self.assertEqual((figures["fits"], figures["floor_bytes"], figures["batch"]), (False, floor, self.batch))
        self.assertEqual(figures["keep_all_bytes"], whole["keep_all_bytes"])
        self.assertIsNone(figures["state_sha256"])

    def test_no_way_by_hand_is_better(self):
        dry = ("--device", "dry")
        floor = self.figures("--budget", AMPLE)["floor_bytes"]
        for way in self.ways:
            with self.subTest(way=way):
                by_hand = self.figures(*dry, "--recompute", way)
                peak = by_hand["peak_bytes_reserved_predicted"]
                self.assertGreater(by_hand["step_seconds_predicted"], 0)
                self.assertLessEqual(floor, peak)
                planned = self.figures(*dry, "--budget", peak)
                self.assertLessEqual(planned["step_seconds_predicted"], by_hand["step_seconds_predicted"] * (1 + 1e-9))


@shard(0)
class TrainGpt(Budget, ProgramCase):
    program = "train_gpt"
    batch = 5  # a prime, here and below: a planner looks for plans of each divisor
    ways = ("cheap", "mlp", "blocks")

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        text = cls.write("text.txt", "the quick brown fox jumps over the lazy dog. " * 60)
        cls.flags = ("--data", text, "--steps", "3", "--layers", "6", "--width", "64", "--heads", "2", "--block", "64",
                     "--batch", "5", "--threads", "1", "--sample", "0")

    def test_wrong_usage(self):
        for flags in (["--budget", "6XB"], ["--budget", "0"], ["--budget", "-1"], ["--keep-batch"], ["--split-batch"],
                      ["--budget", "1GB", "--memory-limit", "1GB"], ["--budget", "1GB", "--recompute", "blocks"],
                      ["--budget", "1GB", "--recompute", "blocks"], ["--budget", "1GB", "--keep-batch", "--split-batch"]):
            with self.subTest(flags=flags):
                self.fails(2, flags)
        for flags in (["--calibrate", self.path("c.json"), "--device", "dry"],
                      ["--calibrate", self.path("c.json"), "--costs", self.path("c.json")]):
            with self.subTest(flags=flags):
                self.fails(2, flags, "--calibrate")
        self.fails(1, ["--budget", "900TB"], "--budget 900000000000000: the device has")
        self.fails(1, ["--budget", "5GiB", "--device", "dry", "--gpu-memory", "4GiB"],
                   "the GPU has 4.3 GB (4294967296 bytes), of which a training may take 3.7 GB (3665821696 bytes)",
                   "use at most --budget 3665821696")

    def test_no_split_is_advised_that_needs_as_much(self):
        run = self.run_program("--layers", 1, "--width", 8, "--block", 8, "--batch", 2, "--keep-batch", "--budget", PAGE // 2)
        self.assertRegex(run.stderr, r"^train_gpt: --budget \d+: the least found is (\d+) bytes; use --budget \1\n$")

    def test_a_plan_is_for_its_program(self):
        file = self.path("plan.json")
        floor = self.figures("--budget", AMPLE)["floor_bytes"]
        planned = self.figures("--budget", floor, "--save-plan", file)
        followed = self.figures("--plan", file)
        for name in ("batch", "accumulate", "replayed_ops", "peak_bytes_reserved", "state_sha256"):
            self.assertEqual(followed[name], planned[name])
        self.assertGreater(planned["replayed_ops"], 0)
        for flags, part in ((("--layers", 5), "its op"), (("--block", 32), "with other shapes, dtypes or inputs"),
                            (("--dtype", "bf16"), "with other shapes, dtypes or inputs")):
            with self.subTest(flags=flags):
                self.fails(1, ["--plan", file, *flags], "the plan is for another program", part)
        with open(file, encoding="utf-8") as stream:
            text = stream.read()
        for name, damaged in (("cut", text[:len(text) // 2]), ("empty", ""), ("other", "{}"),
                              ("version", text.replace('"headroom_plan": 2', '"headroom_plan": 1')),
                              ("answer", text.replace("recompute", "forget", 1)),
                              ("path", text.replace("blocks.0", "blocks.9"))):
            with self.subTest(damaged=name):
                self.fails(1, ["--plan", self.write("damaged.json", damaged)], "damaged.json")
        self.fails(1, ["--plan", self.path("missing.json")], "missing.json")
        batch, accumulate = planned["batch"], planned["accumulate"]
        has = f"has {accumulate} micro-batches of {batch}; leave this out"
        self.succeeds("--plan", file, "--batch", batch, "--accumulate", accumulate)
        self.succeeds("--plan", file, "--batch", batch * accumulate)  # what it divides
        self.fails(1, ["--plan", file, "--batch", 7], f"--batch 7: the plan of {file} {has}")
        self.fails(1, ["--plan", file, "--accumulate", 7], f"--batch 5 --accumulate 7: the plan of {file} {has}")
        saved = self.path("planned.safetensors")
        self.succeeds("--plan", file, "--save", saved, "--stop-after", 1)
        self.fails(1, ["--resume", saved, "--batch", 7], f"--batch 7: the plan of {saved} {has}")
        self.fails(2, ["--plan", file, "--budget", floor])
        self.fails(2, ["--save-plan", file], "--save-plan needs --budget, --keep-batch or --split-batch")

    def test_measures_within_a_limit(self):
        """Plans that take more are not tried."""
        floor = self.figures("--budget", AMPLE)["floor_bytes"]
        file = self.path("limited.json")
        self.succeeds("--recompute", "blocks", "--memory-limit", floor + 2 * PAGE, "--calibrate", file)
        self.assertTrue(os.path.exists(file))

    def test_goes_by_what_was_measured(self):
        file = self.path("costs.json")
        floor = self.figures("--budget", AMPLE)["floor_bytes"]
        budget = floor + 2 * PAGE
        figures = self.figures("--budget", budget, "--calibrate", file)
        with open(file, encoding="utf-8") as stream:
            costs = json.load(stream)
        self.assertEqual(costs["threads"], 1)
        self.assertTrue(costs["machine"] and costs["build"])
        self.assertEqual(len({(op["op"], op["form"]) for op in costs["ops"]}), len(costs["ops"]))
        self.assertGreater(sum(op["forward_seconds"] + op["backward_seconds"] for op in costs["ops"]), 0)
        self.assertEqual(self.figures("--budget", budget)["costs"], "assumed")
        self.assertEqual(figures["costs"], "measured")
        self.expect_predicted(figures)
        plain = self.figures("--recompute", "none", "--batch", figures["batch"], "--accumulate", figures["accumulate"])
        self.assertEqual(figures["state_sha256"], plain["state_sha256"], "measuring changes no bit")
        for flags in ((), ("--device", "dry")):  # the same plan again
            again = self.figures("--budget", budget, "--costs", file, *flags)
            for name in ("batch", "accumulate", "replayed_ops_predicted", "step_seconds_predicted", "peak_bytes_reserved_predicted"):
                self.assertEqual(again[name], figures[name])
        took = r"(?m)^a step took \S+ s, predicted \S+ s"
        self.assertNotRegex(self.succeeds(), took)
        self.assertRegex(self.succeeds("--budget", budget), took + " from assumed rates$")
        self.assertRegex(self.succeeds("--costs", file), took + "$")
        self.assertIn("times are measured", self.succeeds("--budget", budget, "--costs", file, "--explain", "--device", "dry"))
        with open(file, encoding="utf-8") as stream:
            text = stream.read()
        for name, damaged, part in (("cut", text[:len(text) // 2], "not a valid file of costs"),
                                    ("empty", "", "not a valid file of costs"), ("other", "{}", "not a valid file of costs"),
                                    ("version", text.replace('"headroom_costs": 1', '"headroom_costs": 2'), "the version is not supported"),
                                    ("time", text.replace('"forward_seconds":', '"forward_seconds":-', 1), "a time must be at least 0"),
                                    ("threads", text.replace('"threads": 1', '"threads": 3'), "3 threads"),
                                    ("machine", text.replace(costs["machine"], "abacus"), "measured on abacus"),
                                    ("build", text.replace(f'"build": "{costs["build"]}"', '"build": "0.0.9"'), "measured by Headroom 0.0.9")):
            with self.subTest(damaged=name):
                self.fails(1, ["--budget", budget, "--costs", self.write("damaged.json", damaged)], "damaged.json", part)
        self.fails(1, ["--costs", file, "--threads", 2], "measured on", "1 thread", "2 threads")
        self.fails(1, ["--costs", file, "--device", "dry", "--gpu-memory", "8GB"], "measured on")
        self.fails(1, ["--costs", self.path("missing.json")], "missing.json")

    def test_explains_the_plan(self):
        floor = self.figures("--budget", AMPLE)["floor_bytes"]
        text = self.succeeds("--budget", floor, "--explain", "--device", "dry")
        self.assertRegex(text, r"(?m)^blocks\.\*\.mlp +\d+ +\d+ +\d+\.\d+ +\d+$")
        self.assertRegex(text, r"(?m)^micro-batch, by module +ops +recomputed +ms added +bytes at the peak$")
        peak, kept, rest = map(int, re.search(r"the peak of (\d+) bytes is .*: (\d+) bytes of kept activations "
                                              r"and (\d+) of weights, gradients, optimizer state and temporaries\n", text).groups())
        self.assertEqual((peak, kept), (kept + rest, int(re.search(r"(?m)^all .* (\d+)$", text)[1])))
        again = int(re.search(r"(?m)^all +\d+ +(\d+)", text)[1])
        figures = self.figures("--budget", floor, "--device", "dry")
        self.assertEqual(again * figures["accumulate"], figures["replayed_ops_predicted"])
        for way in ("--keep-batch", "--split-batch"):
            self.assertIn("\nall ", self.succeeds(way, "--explain", "--device", "dry", "--gpu-memory", "4GiB"))
        self.fails(2, ["--explain"], "--explain needs --budget, --keep-batch or --split-batch")

    def test_keeps_the_batch_if_told(self):
        kept = self.figures("--budget", AMPLE, "--keep-batch")
        self.assertEqual(self.figures("--budget", kept["floor_bytes"], "--keep-batch")["batch"], 5)
        self.assertGreater(kept["floor_bytes"], self.figures("--budget", AMPLE)["floor_bytes"])

    def test_a_training_that_is_resumed_keeps_its_batch(self):
        file = self.path("half.safetensors")
        self.succeeds("--stop-after", 1, "--save", file)
        floor = self.figures("--budget", AMPLE, "--keep-batch")["floor_bytes"]
        figures = self.figures("--resume", file, "--budget", floor)
        self.assertEqual(figures["batch"], 5)
        self.assertEqual(figures["state_sha256"], self.figures("--recompute", "none")["state_sha256"])

    def test_a_training_that_is_resumed_has_the_plan_that_it_was_saved_with(self):
        file = self.path("planned.safetensors")
        budget = self.figures("--budget", AMPLE)["floor_bytes"]
        planned = self.figures("--budget", budget, "--stop-after", 1, "--save", file)
        rest = self.figures("--resume", file)
        for name in ("batch", "accumulate", "replayed_ops", "peak_bytes_reserved"):
            self.assertEqual(rest[name], planned[name], name)
        self.assertGreater(rest["replayed_ops"], 0)
        self.assertEqual(rest["state_sha256"], self.figures("--budget", budget)["state_sha256"])
        kept = self.figures("--resume", file, "--recompute", "none", "--batch", rest["batch"], "--accumulate", rest["accumulate"])
        self.assertEqual(kept["replayed_ops"], 0)
        self.assertEqual(kept["state_sha256"], rest["state_sha256"])


class Images(Budget):
    """Of train_images: so many digits that the test draws, and flags beside those that both models share."""

    program = "train_images"

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        os.makedirs(cls.path("data"))
        cls.write("data/t10k-images-idx3-ubyte", images(cls.count))
        cls.write("data/t10k-labels-idx1-ubyte", labels(cls.count))
        cls.flags = ("--data", cls.path("data"), "--batch", str(cls.batch), "--steps", "2", "--threads", "1", "--augment", "none",
                     *cls.model_flags)


@shard(1)
class TrainPerceptron(Images, ProgramCase):
    batch = 509
    count = 540
    model_flags = ("--model", "mlp", "--layers", "40", "--hidden", "128", "--validation", "20")


@shard(2)
class TrainResNet(Images, ProgramCase):
    batch_norm = True
    batch = 23
    count = 60
    model_flags = ("--model", "resnet18", "--height", "64", "--width", "64", "--validation", "10")

    def test_keeps_the_batch_unless_told(self):
        floor = self.figures("--budget", AMPLE)["floor_bytes"]
        self.assertEqual(self.figures("--budget", floor)["batch"], 23, "its norms take the statistics of a micro-batch")
        self.assertLess(self.figures("--budget", AMPLE, "--split-batch")["floor_bytes"], floor)


@shard(3)
class TrainSegmentation(Budget, ProgramCase):
    batch_norm = True
    program = "train_segmentation"
    batch = 4
    flags = ("--base-width", "8", "--height", "96", "--width", "96", "--clouds", "20", "--validation", "4", "--batch", "4",
             "--steps", "2", "--threads", "1")


@shard(4)
class TrainText(Budget, ProgramCase):
    program = "train_text"
    batch = 16
    ways = ("layers",)

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        text = cls.write("text.txt", "the quick brown fox jumps over the lazy dog. " * 80)
        cls.flags = ("--data", text, "--model", "lstm", "--layers", "4", "--width", "64", "--block", "64", "--batch", "16",
                     "--steps", "3", "--threads", "1")

    def test_checkpoints_over_time_are_a_choice(self):
        kept = ("--keep-batch",)
        whole = self.figures(*kept, "--budget", AMPLE)
        least = self.figures(*kept, "--budget", whole["floor_bytes"], "--save-plan", self.path("plan.json"))
        self.assertEqual((whole["choice"], least["choice"]), (None, "layers"))
        self.assertEqual(least["state_sha256"], whole["state_sha256"])
        followed = self.figures("--plan", self.path("plan.json"))
        for name in ("peak_bytes_reserved", "replayed_ops", "state_sha256"):
            self.assertEqual(followed[name], least[name])


def whole(case):
    """A class of a program by its own sizes, for the night."""
    return unittest.skipUnless(os.environ.get("HEADROOM_WHOLE_BUDGETS") and case.data, "by its own sizes at night, where the data is")(case)


@whole
class WholeGpt(Budget, ProgramCase):
    program = "train_gpt"
    batch = 12
    ways = ("cheap", "mlp", "blocks")
    data = data_file("tinyshakespeare.txt")
    flags = ("--data", data, "--steps", "3")


@whole
class WholeGptOf12Blocks(WholeGpt):
    flags = (*WholeGpt.flags, "--layers", "12")


@whole
class WholePerceptron(Budget, ProgramCase):
    program = "train_images"
    batch = 60
    fewest_pages = 1
    data = data_file("t10k-images-idx3-ubyte.gz")
    flags = ("--data", os.path.dirname(data or ""), "--steps", "3", "--model", "mlp", "--layers", "40")


@whole
class WholeResNet(WholePerceptron):
    batch_norm = True
    flags = (*WholePerceptron.flags[:4], "--model", "resnet18", "--height", "64", "--width", "64")


@whole
class WholeSegmentation(Budget, ProgramCase):
    program = "train_segmentation"
    batch = 4
    batch_norm = True
    data = "drawn"
    flags = ("--steps", "3")


@whole
class WholeText(Budget, ProgramCase):
    program = "train_text"
    batch = 32
    ways = ("layers",)
    data = data_file("tinyshakespeare.txt")
    flags = ("--data", data, "--steps", "3", "--model", "lstm")


if __name__ == "__main__":
    unittest.main()
