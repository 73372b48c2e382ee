"""train_gpt given what it cannot use: the exit code, one line that says what is wrong, and no lost checkpoint."""
import json
import os
import re
import struct
import unittest

from program import ProgramCase


def safetensors(metadata, tensors=b""):
    header = json.dumps({"__metadata__": metadata}).encode()
    return struct.pack("<Q", len(header)) + header + tensors


class TrainGptErrors(ProgramCase):
    program = "train_gpt"

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.text = cls.write("text.txt", "the quick brown fox jumps over the lazy dog. " * 20)
        cls.flags = ("--layers", "1", "--heads", "2", "--width", "16", "--block", "8", "--batch", "2", "--warmup", "3",
                     "--threads", "1")
        cls.checkpoint = cls.path("good.safetensors")
        run = cls.run_program("--data", cls.text, "--steps", 3, "--save", cls.checkpoint)
        assert run.returncode == 0, run.stderr

    def with_text(self, *flags):
        return ("--data", self.text, *flags)

    def test_texts_that_cannot_be_used(self):
        for name, contents, part in [
                ("empty.txt", "", "is empty"),
                ("short.txt", "abcdefgh", "8 tokens are too few"),
                ("binary.txt", b"text\0with zeros" * 50, "byte 4 is zero"),
                ("latin1.txt", b"x" * 1234 + b"\xe9" + b"y" * 500, "1234"),
                ("cut.txt", b"y" * 500 + b"\xc3", "500"),
        ]:
            with self.subTest(name=name):
                self.fails(1, ["--data", self.write(name, contents)], name, part)
        self.fails(1, ["--data", self.path("missing.txt")], "missing.txt", "no such file")
        self.fails(1, ["--data", self.folder], self.folder)

    def test_any_file_can_be_read_as_bytes(self):
        binary = self.write("any.bin", bytes(range(256)) * 4)
        self.fails(1, ["--data", binary], "any.bin")
        self.assertIn("1024 tokens of 256 kinds", self.succeeds("--data", binary, "--bytes", "--steps", 1, "--sample", 9))
        self.fails(1, ["--data", self.write("empty.bin", b""), "--bytes"], "is empty")

    def test_wrong_usage(self):
        for flags in (["--layers", 0], ["--layers", -1], ["--layers", 1.5], ["--layers", "x"], ["--layers", 10**30],
                      ["--width", 0], ["--heads", 3], ["--block", 0], ["--batch", 0], ["--batch", 2**40],
                      ["--accumulate", 0], ["--steps", -1], ["--lr", -1], ["--lr", "nan"], ["--lr", "inf"],
                      ["--dropout", 1], ["--dropout", "nan"], ["--beta2", 1], ["--seed", -1], ["--seed", 2**64],
                      ["--memory-limit", -1], ["--memory-limit", "1e6"], ["--device", "tpu"], ["--dtype", "f64"],
                      ["--recompute", "all"], ["--threads", -1], ["--top-k", -1], ["--temperature", -1],
                      ["--sample", -1], ["--stop-after", -1], ["--bogus"], ["surplus"], ["--layers"],
                      ["--vocabulary", 100], ["--min-lr", 0.1, "--lr", 0.01], ["--half-residual"]):
            with self.subTest(flags=flags):
                self.fails(2, self.with_text(*flags), "--help", flags[0])
        self.fails(2, [], "--data is required")
        self.assertIn("--recompute", self.succeeds("--help"))

    def test_a_flag_of_an_earlier_release_says_its_name_of_today(self):
        for flags, name in ((["--checkpoint"], "--recompute blocks"), (["--average", 0.9], "--ema-decay"), (["--average=0.9"], "--ema-decay"),
                            (["--clip", 0.5], "--max-grad-norm"), (["--clip"], "--max-grad-norm")):
            with self.subTest(flags=flags):
                old = flags[0].split("=")[0]
                self.fails(2, self.with_text(*flags), f"train_gpt: {old} is called {name} now (--help lists the options)")
                self.assertNotIn(old, self.succeeds("--help"))

    def test_wrong_usage_says_what_was_meant(self):
        for flags, part in [(["--layer", 2], "there is no --layer; the nearest is --layers"),
                            (["--memory-limit", 2, "GB"], "2 is a number of bytes; write 2GB"),
                            (["--memory-limit", 4096, "GB"], "GB belongs to no option"),
                            (["--steps"], "--steps: a value is missing"), (["--lr", 1, "--lr", 2], "--lr is given twice"),
                            (["--batch", "1e2"], "1e2 is not a whole number in [1, "),
                            (["--memory-limit", 0.5], "0.5 has no unit; write 0.5GB")]:
            with self.subTest(flags=flags):
                self.fails(2, self.with_text(*flags), part)
        self.fails(2, ["--dta", self.text], "there is no --dta; the nearest is --data; --data is required")
        self.fails(2, [self.text], "text.txt belongs to no option; --data is required")

    def test_no_path_breaks_a_line(self):
        odd = "o\nd\x1b[31md\x7f"
        shown = "o?d?[31md?"
        with open(self.text, encoding="utf-8") as text:
            data = self.write(f"{odd}.txt", text.read())
        file = self.path(f"{odd}.safetensors")
        whole = ("--data", data, "--steps", 2, "--save", file, "--best", self.path(f"{odd}.best"))
        outputs = [self.succeeds(*whole, "--memory-history", self.path(f"{odd}.html"), "--pictures", self.path(odd)),
                   self.succeeds("--resume", file, "--steps", 3, "--data", self.text)]
        for printed in outputs:
            self.assertIn(shown, printed)
            self.assertNotRegex(printed, r"[\x00-\x09\x0b-\x1f\x7f]")
        for line in ("resuming ", "saved to ", "the best so far: saved to ", "memory history written to ", "losses in "):
            self.assertRegex("".join(outputs), f"{line}.*{re.escape(shown)}")
        for status, flags in [(1, ["--data", odd]), (1, ["--resume", odd]), (2, [odd]), (2, ["--data", data, "--lr", odd]),
                              (2, ["--data", data, f"--{odd}"]), (1, ["--resume", file, "--width", 32]),
                              (1, ["--data", data, "--save", f"{odd}/none/x"]), (2, ["--data", data, "--device", odd]),
                              (1, ["--data", data, "--save", data]), (2, ["--data", data, "--memory-history", odd])]:
            self.assertNotRegex(self.fails(status, flags, shown), r"[\x00-\x1f\x7f]")

    def test_a_path_need_not_be_utf_8(self):
        with open(self.text, "rb") as text:
            data = os.fsencode(self.path("latin-")) + b"\xe9.txt"
            with open(data, "wb") as copy:
                copy.write(text.read())
        name, file = os.fsdecode(data), self.path("latin.safetensors")
        whole = self.figures("--data", name, "--steps", 5)
        self.figures("--data", name, "--steps", 5, "--stop-after", 2, "--save", file)
        self.assertEqual(self.figures("--resume", file)["state_sha256"], whole["state_sha256"])

    def test_data_may_grow_where_that_is_said(self):
        text = self.write("grows.txt", "the quick brown fox jumps over the lazy dog. " * 20)
        file = self.path("grows.safetensors")
        self.succeeds("--data", text, "--steps", 4, "--stop-after", 2, "--save", file)
        self.write("grows.txt", "the quick brown fox jumps over the lazy dog. " * 30)
        self.fails(1, ["--resume", file], "it was trained on 802 samples, but there are 1207 now; --changed-data continues")
        self.assertIn("step 4/4", self.succeeds("--resume", file, "--changed-data"))

    def test_memory_that_does_not_suffice(self):
        for limit in ("4096", "1MiB"):
            self.fails(1, self.with_text("--memory-limit", limit), "memory limit: ", "bytes are less than a page of 2097152 bytes")
        dry = self.with_text("--device", "dry")
        self.fails(1, [*dry, "--gpu-memory", "1MB"], "simulated GPU: ", "less than a page")
        self.fails(1, [*dry, "--gpu-memory", "600MB"], "memory reserve: 629145600 of the simulated GPU's 600000000 bytes", "less than a page")
        self.fails(2, [*dry, "--gpu-memory", 0], "--gpu-memory must be above 0")
        for flags, help in [(["--width", 1 << 20], "or a device with 211.1 TB"),
                            (["--width", 1 << 10, "--memory-limit", "2MiB"], "or --memory-limit "),
                            (["--width", 1 << 20, "--gpu-memory", "2GB"], "or --gpu-memory ")]:
            self.fails(3, [*dry, *flags], "use a smaller model " + help)
        resumed = ["--data", self.text, "--resume", self.checkpoint, "--device", "dry", "--gpu-memory"]
        line = self.fails(3, [*resumed, "602MiB"], "a resumed training keeps its batch", "use --gpu-memory ")
        suffices = int(re.search(r"--gpu-memory (\d+)", line)[1])
        self.succeeds(*resumed, suffices)
        self.fails(3, [*resumed, suffices - (2 << 20)], "use --gpu-memory ")

    def test_a_card_by_its_name(self):
        dry = self.with_text("--device", "dry")
        turing = [*dry, "--gpu", "rtx-2080-ti"]
        printed = self.succeeds(*turing, "--dtype", "f16")
        self.assertIn("the RTX 2080 Ti has 11.6 GB (11553462026 bytes), of which a training may take 10.9 GB", printed)
        self.assertIn("629.1 MB (629145600 bytes) are left to CUDA", printed)
        for more in ((), ("--budget", "1GiB"), ("--json", self.path("bf16.json"))):
            self.fails(1, [*turing, "--dtype", "bf16", *more],
                       "bf16 needs a GPU of compute capability 8.0, but this one has 7.5: use f16 (--dtype f16)")
        self.assertFalse(os.path.exists(self.path("bf16.json")))
        self.succeeds(*dry, "--gpu", "A100 80GB", "--dtype", "bf16")
        self.fails(2, [*dry, "--gpu", "RTX 2080"], '"RTX 2080"', "RTX 2080 Ti, T4")
        self.fails(2, self.with_text("--gpu", "T4"), "--gpu is for --device dry")
        self.fails(2, self.with_text("--gpu-reserve", "1GiB"), "--gpu-reserve is for --device cuda, or dry with --gpu")
        self.fails(2, [*dry, "--gpu-reserve", "1GiB"], "--gpu-reserve")

    def test_a_card_is_as_fast_as_its_data_sheet_says(self):
        dry = self.with_text("--device", "dry", "--width", 768, "--heads", 12, "--block", 256)
        seconds = [self.figures(*dry, "--gpu", name, "--dtype", "f16")["step_seconds_predicted"]
                   for name in ("T4", "RTX 2080 Ti", "RTX 3090", "RTX 4090", "H100", "H200")]
        self.assertEqual(seconds, sorted(seconds, reverse=True))
        self.assertGreater(seconds[0], 5 * seconds[-1])

    def test_a_budget_stays_below_what_is_left_to_cuda(self):
        small = self.with_text("--device", "dry", "--gpu", "RTX 3060", "--gpu-memory", "1GiB")
        line = self.fails(1, [*small, "--budget", "1GiB"], "--budget 1073741824: the RTX 3060 has 1.1 GB", "629.1 MB")
        most = int(re.search(r"use at most --budget (\d+)", line)[1])
        self.assertEqual(most, (1 << 30) - (600 << 20))
        self.succeeds(*small, "--budget", most)
        self.fails(1, [*small, "--budget", most + 1], f"use at most --budget {most}")
        self.succeeds(*small, "--gpu-reserve", "100MiB", "--budget", most + 1)
        self.fails(1, [*small, "--ranks", 2, "--accumulate", 2, "--budget", most], "buffers of NCCL among them", "use at most --budget ")

    def test_a_gpu_that_is_not_there(self):
        if self.run_program(*self.with_text("--device", "cuda", "--steps", 0, "--stop-after", 0)).returncode == 0:
            self.skipTest("there is a GPU, or an emulated one")
        for flags in ((), ("--gpu-reserve", "1GiB"), ("--tune", self.path("tuning")), ("--graphs",), ("--fit-scratch",), ("--libraries",),
                      ("--keep-batch",)):
            self.fails(1, self.with_text("--device", "cuda", *flags), "cuda: ")

    def test_a_rehearsed_gpu_takes_no_real_device(self):
        self.fails(2, self.with_text("--device", "cpu", "--gpu-memory", 10**9), "--gpu-memory")
        self.fails(3, self.with_text("--device", "dry", "--gpu-memory", 602 << 20), "out of memory", "less the reserve of 629.1 MB")

    def test_places_that_cannot_be_written_are_known_before_training(self):
        for flag in ("--save", "--json"):
            self.fails(1, self.with_text(flag, self.path("no/such.file"), "--steps", 10**9), flag, "no folder")
            self.fails(1, self.with_text(flag, self.folder, "--steps", 10**9), flag, "is a folder")
        self.fails(1, self.with_text("--tensorboard", self.text, "--steps", 10**9), "--tensorboard", "is a file")

    def test_an_output_is_no_input_and_no_other_output(self):
        def contents():
            with open(self.text, "rb") as text, open(self.checkpoint, "rb") as checkpoint:
                return text.read(), checkpoint.read()

        before = contents()
        link = self.path("link.html")
        os.symlink(self.text, link)
        for flag, name in [("--save", self.text), ("--best", self.text), ("--json", self.text), ("--log", self.text),
                           ("--memory-history", link), ("--tune", self.text)]:
            self.fails(1, self.with_text(flag, name, "--steps", 2), flag, "it is the file of --data")
        for flag in ("--json", "--log"):
            self.fails(1, self.with_text("--resume", self.checkpoint, "--steps", 5, flag, self.checkpoint), flag,
                       "it is the file of --resume")
        same = self.path("same")
        self.fails(1, self.with_text("--save", same, "--best", os.path.join(self.folder, ".", "same")), "--best",
                   "it is the file of --save")
        self.assertEqual(contents(), before)

    def test_a_checkpoint_takes_the_place_of_a_file_alone(self):
        fifo, link, real = self.path("fifo"), self.path("link"), self.path("real")
        os.mkfifo(fifo)
        for flag in ("--save", "--best"):  # said before there is something to save
            for device in (fifo, "/dev/full"):
                log = self.path("refused.jsonl")
                self.fails(1, self.with_text("--steps", 1, flag, device, "--log", log), device, "not a regular file")
                self.assertFalse(os.path.exists(log) and os.path.getsize(log))
        os.symlink(real, link)
        self.succeeds(*self.with_text("--steps", 1, "--save", link))
        self.assertTrue(os.path.islink(link) and os.path.isfile(real))

    def test_a_full_disk_leaves_the_old_checkpoint(self):
        with open(self.checkpoint, "rb") as file:
            before = file.read()
        for limit in (0, 100, 5000):
            self.fails(1, self.with_text("--steps", 5, "--resume", self.checkpoint, "--save", self.checkpoint),
                       "good.safetensors", "unchanged", largest_file=limit)
            with open(self.checkpoint, "rb") as file:
                self.assertEqual(file.read(), before)
            self.assertFalse([name for name in os.listdir(os.path.dirname(self.checkpoint)) if name.endswith(".partial")])

    def test_files_that_are_no_checkpoints(self):
        with open(self.checkpoint, "rb") as file:
            good = file.read()
        for name, contents, part in [
                ("text", "no checkpoint at all, but long enough", "a text file that begins with \"no checkpoint at all"),
                ("empty", b"", "0 bytes"),
                ("truncated", good[:-1], "truncated"),
                ("half", good[:len(good) // 2], "truncated"),
                ("longer", good + b"x", "1 bytes follow"),
                ("foreign", safetensors({"format": "pt"}), "holds weights, not a checkpoint that --resume could continue from"),
                ("older", safetensors({"train_gpt": "{}"}), "from before format 1"),
                ("newer", safetensors({"headroom.checkpoint": "2"}), "of format 2, but this version reads 1"),
                ("no_values", safetensors({"headroom.checkpoint": "1"}), 'lacks "random.seed"'),
        ]:
            with self.subTest(name=name):
                self.fails(1, self.with_text("--resume", self.write(name, contents)), name, part)
        self.fails(1, self.with_text("--resume", self.path("none")), "none", "No such file")
        self.fails(1, self.with_text("--resume", self.folder), "is a folder")

    def test_a_state_that_lies(self):
        with open(self.checkpoint, "rb") as file:
            good = file.read()
        length = struct.unpack("<Q", good[:8])[0]
        header = json.loads(good[8:8 + length])
        data = good[8 + length:]
        state = header["__metadata__"]
        told = json.loads(state["train_gpt"])
        for field, value in [("adamw.steps", "3.5"), ("adamw.steps", "-3"), ("adamw.calls", "-1"), ("steps", "-1"),
                             ("random.counter", "x"), ("loader.epoch", "-1"), ("loader.batch", ""),
                             ("accumulator.loss_scale", "0"), ("accumulator.good_steps", "-1"),
                             ("train_gpt.flags", "{{{"), ("train_gpt.flags", "[3]"), ("train_gpt.flags", '{"lr": 3}'),
                             ("best_validation_loss", "x"), ("train_gpt", "{{{"), ("train_gpt", "[3]"), ("train_gpt", "{}"),
                             ("train_gpt", json.dumps({**told, "model": 3})),
                             ("train_gpt", json.dumps({**told, "training": None}))]:
            with self.subTest(field=field, value=value):
                header["__metadata__"] = {**state, field: value}
                text = json.dumps(header).encode()
                lying = self.write("lying", struct.pack("<Q", len(text)) + text + data)
                self.fails(1, self.with_text("--resume", lying), "lying")

    def test_a_checkpoint_of_another_training(self):
        other = self.write("other.txt", "different characters: 0123456789 " * 30)
        longer = self.write("longer.txt", "the quick brown fox jumps over the lazy dog. " * 30)
        for flags, part in [(["--width", 32], "width 16, not 32"), (["--layers", 2], "layers 1, not 2"),
                            (["--dropout", 0.5], "dropout"), (["--seed", 2], "seed 1337, not 2"),
                            (["--dtype", "bf16"], "dtype"), (["--accumulate", 2], "accumulate"),
                            (["--data", other], "vocabulary"), (["--batch", 3], "batch"),
                            (["--positions", 64], "positions 8, not 64"), (["--block", 16], "block 8, not 16"),
                            (["--block", 4, "--positions", 8], "block 8, not 4")]:
            with self.subTest(flags=flags):
                data = () if "--data" in flags else ("--data", self.text)
                self.fails(1, [*data, *flags, "--resume", self.checkpoint], "good.safetensors", part)
        self.fails(1, ["--data", longer, "--resume", self.checkpoint], "good.safetensors", "samples")

    def test_a_training_that_is_done(self):
        self.assertIn("nothing to train: 3 steps are done, 2 were asked for",
                      self.succeeds("--resume", self.checkpoint, "--steps", 2))

    def test_a_loss_that_is_not_finite_stops_and_saves_nothing(self):
        for flags in ([], ["--dtype", "bf16"], ["--recompute", "blocks", "--accumulate", 2], ["--dtype", "f16"]):
            with self.subTest(flags=flags):
                line = self.fails(1, self.with_text(*flags, "--lr", "1e25", "--steps", 200, "--save", self.path("nan")),
                                  "not finite", "lower --lr")
                self.assertRegex(line, r"^train_gpt: step \d+: the (loss|gradient) is not finite; the first output that is "
                                       r"not finite is that of (the model|[a-z0-9.]+);")
                self.assertFalse(os.path.exists(self.path("nan")))


if __name__ == "__main__":
    unittest.main()
