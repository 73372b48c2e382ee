"""train_text as a whole: an LSTM, a GRU and a BERT on a small text."""
import math
import os
import re
import struct
import unittest

from program import SOURCE, ProgramCase

MODELS = ("lstm", "gru", "bert")
BERT = os.path.join(SOURCE, "tests", "reference", "bert_initial.safetensors")  # 13 kinds, 9 positions, 8 wide
PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "quick", "fox", "##es", "jump", "##s", ".", "dog"]


class TrainText(ProgramCase):
    program = "train_text"

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.text = cls.write("text.txt", "the quick fox jumps over the lazy dogs. " * 25 + "é\n")
        cls.flags = ("--data", cls.text, "--layers", "2", "--width", "16", "--heads", "2", "--block", "12", "--batch", "4",
                     "--warmup", "3", "--steps", "6", "--threads", "2")
        cls.pieces = cls.write("vocab.txt", "\n".join(PIECES) + "\n")

    def test_learns_and_reports(self):
        data = self.write("abcd.txt", "abcd" * 600)
        for model, below in (("lstm", 0.3), ("gru", 0.3), ("bert", 1.0)):  # log(4) = 1.4 and log(7) = 1.9 at first
            figures = self.figures("--model", model, "--data", data, "--steps", 60, "--lr", "0.01", "--batch", 16)
            self.assertLess(figures["val_loss"], below, model)
            self.assertEqual("val_accuracy" in figures, model == "bert")
            self.assertGreater(figures["tokens_per_second"], 0)
            self.expect_predicted(figures)
        self.assertGreater(figures["val_accuracy"], 0.35)
        kinds = 27
        layer = 2 * 16 * 16 + 2 * 16
        for model, gates in (("lstm", 4), ("gru", 3)):
            self.assertEqual(self.figures("--model", model)["parameters"], 2 * kinds * 16 + 2 * gates * layer)

    def test_recomputing_changes_no_bit(self):
        for model in MODELS:
            flags = ("--model", model, "--block", 40, "--width", 32)
            kept = self.figures(*flags)
            self.expect_predicted(kept)
            for how in ("layers", "cheap") if model == "bert" else ("layers",):
                again = self.figures(*flags, "--recompute", how)
                self.assertEqual(again["state_sha256"], kept["state_sha256"], flags)
                self.assertLess(again["peak_bytes_allocated"], kept["peak_bytes_allocated"], flags)
                self.expect_predicted(again)

    def test_validations_change_no_bit_of_a_training(self):
        for model in MODELS:
            self.expect_validations_change_nothing("--model", model, "--steps", 4, "--dropout", 0.1)

    def test_the_last_tenth_validates(self):
        text = self.write("split.txt", "abcd" * 450 + "zyxw" * 50)
        for model in MODELS:
            figures = self.figures("--model", model, "--data", text, "--steps", 60, "--lr", 0.02, "--warmup", 0)
            self.assertLess(figures["train_loss"], 1.5, model)
            self.assertGreater(figures["val_loss"], 4, model)  # of letters that the training split lacks

    def test_validations_see_no_dropout_the_same_hidden_tokens_and_the_whole_split(self):
        for model in MODELS:
            self.expect_validations_alike("--model", model, "--dropout", 0.5)
            self.expect_seen_in_training_alone("--model", model, ways=[("--dropout", share) for share in (0, 0.1, 0.5)])
            self.expect_validations_by_any_batch("--model", model, batches=(4, 1, 7, 60))

    def test_the_learning_rate_in_the_log_is_the_one_that_is_applied(self):
        for model in MODELS:
            self.expect_logged_rates_are_applied("--model", model, optimizers=("sgd",))

    def test_a_stopped_and_resumed_training_is_the_uninterrupted_one(self):
        for model in MODELS:
            file = self.path(f"{model}.safetensors")
            whole = self.figures("--model", model, "--accumulate", 2)
            self.succeeds("--model", model, "--accumulate", 2, "--stop-after", 3, "--save", file)
            resumed = self.figures("--model", model, "--accumulate", 2, "--resume", file)
            for figure in ("state_sha256", "val_loss"):
                self.assertEqual(resumed[figure], whole[figure], model)
            self.expect_predicted(resumed)
            other = MODELS[MODELS.index(model) - 1]
            self.fails(1, ["--model", other, "--accumulate", 2, "--resume", file], f"{model}.safetensors", "it was trained with")

    def test_other_ways_are_predicted_too(self):
        for model in MODELS:
            self.expect_predicted(self.figures("--model", model, "--dtype", "bf16", "--accumulate", 3, "--recompute", "layers"))
        dry = self.figures("--model", "gru", "--device", "dry", "--gpu-memory", 10**9)
        self.assertIsNone(dry["val_loss"])
        line = self.fails(3, ["--width", 256, "--memory-limit", "6MiB"], "out of memory")
        self.assertIn("use a smaller model", line)

    def test_texts_go_on(self):
        for model in ("lstm", "gru"):
            flags = ("--model", model, "--sample", 30, "--bytes")
            self.expect_predicted(self.figures(*flags))
            self.assertRegex(self.succeeds(*flags, "--temperature", 0), "(?s)\n\n.{30,}\n\npeak memory")
        tokens = self.write("tokens.bin", struct.pack("<900H", *(i * i % 61 for i in range(900))))
        flags = ("--model", "gru", "--data", tokens, "--tokens", "u16", "--sample", 9)
        self.assertRegex(self.succeeds(*flags, "--vocabulary", 61), r"\n\n(\d+ ){8}\d+\n\npeak memory")
        self.fails(1, [*flags, "--vocabulary", 5], "tokens.bin", "outside of the vocabulary of 5")

    def test_hidden_tokens_are_filled_in(self):
        data = self.write("abcd.txt", "abcd" * 600)
        flags = ("--model", "bert", "--data", data, "--lr", "0.01", "--batch", 16, "--sample", 60)
        self.expect_predicted(self.figures(*flags))
        given, filled_in = re.search("(?s)\n\ngiven:\n(.*)\n\nfilled in:\n(.*)\n\npeak memory",
                                     self.succeeds(*flags, "--steps", 60)).groups()
        self.assertEqual((len(given), len(filled_in)), (60, 60))
        self.assertIn("_", given)
        right = [sum(x == y for x, y in zip(text, 15 * "abcd")) for text in (given, filled_in)]
        self.assertLess(*right)
        self.assertIn("filled in:", self.succeeds(*flags[:-1], 10**6, "--bytes", "--steps", 0))  # the whole split

    def test_a_file_of_bert_is_begun_with(self):
        flags = ("--model", "bert", "--vocabulary", self.pieces, "--from", BERT, "--width", 8, "--block", 9, "--lr", 0.01)
        figures = self.figures(*flags)
        self.expect_predicted(figures)
        self.assertLess(figures["val_loss"], 2 * math.log(13))
        file = self.path("from.safetensors")
        self.succeeds(*flags, "--stop-after", 2, "--save", file)
        own = ("--model", "bert", "--width", 8, "--block", 9, "--lr", 0.01)
        self.assertEqual(self.figures(*own, "--resume", file)["state_sha256"], figures["state_sha256"])
        self.fails(2, ["--model", "bert", "--from", BERT], "--width 16: it is 8 in", "bert_initial")
        self.fails(2, [*flags[:-4], "--block", 10], "--block 10", "9 positions")
        self.fails(1, ["--model", "bert", "--width", 8, "--block", 9, "--from", BERT], "it knows 13 kinds", "--vocabulary")
        self.fails(1, ["--model", "bert", "--width", 8, "--from", self.write("foreign", struct.pack("<Q", 2) + b"{}")],
                   "foreign", "not a BERT model")
        self.assertNotIn("\n\n", self.succeeds("--model", "gru", "--vocabulary", self.pieces, "--steps", 0))

    def test_a_bert_validates_on_a_text_so_short_that_tokens_are_rarely_hidden(self):
        short = self.write("twenty.txt", "abcde" * 4)  # two windows of a token each to validate on
        figures = self.figures("--model", "bert", "--data", short, "--block", 3, "--batch", 1)
        self.assertLess(figures["val_loss"], 2 * math.log(8))
        self.assertIn(figures["val_accuracy"], (0, 0.5, 1))
        self.expect_predicted(figures)

    def test_data_that_cannot_be_used(self):
        empty, short = self.write("empty.txt", ""), self.write("short.txt", "abcdefgh")
        part = self.write("part.txt", "abcdefghij" * 5)  # enough to train on, not to validate
        for model in MODELS:
            self.fails(1, ["--model", model, "--data", empty], "empty.txt", "empty")
            self.fails(1, ["--model", model, "--data", short], "short.txt", "8 tokens are too few")
            self.fails(1, ["--model", model, "--data", self.path("none")], "none", "no such file")
            self.fails(2, ["--model", model, "--block", 0], "--block")
        self.fails(1, ["--model", "bert", "--data", part], "part.txt", "5 tokens are too few for a window of 12")
        self.fails(1, ["--model", "bert", "--batch", 400], "text.txt", "400")
        self.fails(1, ["--model", "bert", "--vocabulary", self.path("none")], "none", "no such file")
        self.fails(1, ["--model", "bert", "--vocabulary", self.text], "text.txt", "[PAD]")
        self.fails(1, ["--vocabulary", self.pieces, "--data", short], "short.txt", "--block")

    def test_wrong_usage(self):
        for flags, part in ((["--model", "rnn"], "--model"), (["--vocabulary", 61], "--vocabulary 61"),
                            (["--recompute", "cheap"], "--recompute cheap is not for --model lstm"),
                            (["--from", BERT], "--from"), (["--hidden", 8], "--hidden"), (["--positions", 20], "--positions"),
                            (["--model", "bert", "--heads", 3], "--heads 3"),
                            (["--model", "bert", "--top-k", 3], "--top-k is not for --model bert"),
                            (["--model", "bert", "--temperature", 1], "--temperature is not for --model bert"),
                            (["--model", "bert", "--block", 2], "--block"), (["--model", "bert", "--positions", 8], "8 positions"),
                            (["--vocabulary", self.pieces, "--bytes"], "--bytes"),
                            (["--tokens", "u16", "--vocabulary", 0], "--vocabulary 0")):
            self.fails(2, flags, part)


if __name__ == "__main__":
    unittest.main()
