"""train_gpt on tokens that another program made, and beginning with a GPT-2 file."""
import json
import math
import os
import struct
import unittest

from program import ProgramCase
from weight_files import gpt2, read_safetensors, safetensors, transposed

LAYERS, WIDTH, POSITIONS, KINDS = 2, 32, 24, 61


def as_gpt2(tensors):
    """Hugging Face's names and layout, of the parameters of one of our checkpoints."""
    names = {"tokens": "wte", "positions": "wpe", "norm": "ln_f", "norm1": "ln_1", "norm2": "ln_2",
             "attention.qkv": "attn.c_attn", "attention.projection": "attn.c_proj", "mlp.up": "mlp.c_fc",
             "mlp.down": "mlp.c_proj"}
    renamed = {}
    for name, (shape, values) in tensors.items():
        if name.startswith("adamw."):
            continue
        module, leaf = name.rsplit(".", 1)
        prefix = ""
        if module.startswith("blocks."):
            _, number, module = module.split(".", 2)
            prefix = f"h.{number}."
        if "." in module and leaf == "weight":  # linear
            shape, values = transposed(shape, values)
        renamed[f"{prefix}{names[module]}.{leaf}"] = (shape, values)
    return renamed


class TrainGptData(ProgramCase):
    program = "train_gpt"

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.flags = ("--threads", "1")
        cls.training = ("--heads", 2, "--block", 16, "--batch", 4, "--warmup", 3, "--steps", 6)
        cls.model = ("--layers", LAYERS, "--width", WIDTH, *cls.training)
        cls.tokens = [(i * i + 3 * i) % KINDS for i in range(3000)]

    def on_tokens(self, file, *flags):
        return ("--data", file, "--tokens", "u16", "--vocabulary", KINDS, *self.model, *flags)

    @classmethod
    def token_file(cls, name, form="H", tokens=None):
        tokens = cls.tokens if tokens is None else tokens
        return cls.write(name, struct.pack(f"<{len(tokens)}{form}", *tokens))

    def test_tokens_of_both_formats_are_the_same_training(self):
        shorts = self.figures(*self.on_tokens(self.token_file("u16.bin")))
        longs = self.figures("--data", self.token_file("u32.bin", "I"), "--tokens", "u32", "--vocabulary", KINDS, *self.model)
        self.assertEqual(shorts["state_sha256"], longs["state_sha256"])
        self.assertEqual(shorts["val_loss"], longs["val_loss"])
        self.expect_predicted(shorts)
        self.assertLess(shorts["val_loss"], math.log(KINDS) + 0.3)

    def test_a_folder_has_both_parts(self):
        os.makedirs(self.path("folder"))
        cut = len(self.tokens) * 9 // 10
        self.token_file("folder/train.bin", tokens=self.tokens[:cut])
        self.token_file("folder/val.bin", tokens=self.tokens[cut:])
        apart = self.figures(*self.on_tokens(self.path("folder")))
        whole = self.figures(*self.on_tokens(self.token_file("whole.bin")))
        self.assertEqual((apart["state_sha256"], apart["val_loss"]), (whole["state_sha256"], whole["val_loss"]))
        os.remove(self.path("folder/val.bin"))
        self.fails(1, self.on_tokens(self.path("folder")), "val.bin")

    def test_samples_are_numbers(self):
        printed = self.succeeds(*self.on_tokens(self.token_file("u16.bin"), "--sample", 9))
        self.assertRegex(printed, r"\n\n(\d+ ){8}\d+\n\npeak memory")

    def test_samples_are_text_where_names_are_known(self):
        # GPT-2's rendering of bytes: a space is U+0120, a newline U+010A; "é" is the bytes c3 and a9, seen as themselves.
        texts = [" the", "a", "\n", "é", "!", " é", "<|endoftext|>"] + [f" w{i}" for i in range(KINDS - 8)]
        seen = {" ": "\u0120", "\n": "\u010a"}
        names = {"".join(seen.get(chr(byte), chr(byte)) for byte in text.encode()): i for i, text in enumerate(texts)}
        flags = self.on_tokens(self.token_file("u16.bin"), "--sample", 400, "--temperature", 5)
        numbers = self.succeeds(*flags).split("\n\n")[1].split()
        self.assertIn(str(KINDS - 1), numbers, "a test without the token that has no name")
        self.assertIn("3", numbers, "a test without the token of two bytes")
        file = self.write("vocab.json", json.dumps(names))
        expected = "".join([*texts, "\ufffd"][int(number)] for number in numbers)
        self.assertIn(f"\n\n{expected}\n\npeak memory", self.succeeds(*flags, "--token-names", file))
        for contents in ("[1]", "{", '{"a": -1}', '{"a": 1e300}', '{"a": 999999999999}', '{"a": "b"}'):
            self.fails(1, [*flags, "--token-names", self.write("wrong.json", contents)], "wrong.json", "vocab.json")
        self.fails(2, ["--data", self.token_file("u16.bin"), "--token-names", file], "--tokens")

    def test_a_resumed_training_reads_the_same_tokens(self):
        flags = self.on_tokens(self.token_file("u16.bin"))
        file = self.path("tokens.safetensors")
        self.succeeds(*flags, "--stop-after", 2, "--save", file)
        self.assertEqual(self.figures("--resume", file)["state_sha256"], self.figures(*flags)["state_sha256"])

    def test_tokens_that_cannot_be_used(self):
        file = self.token_file("u16.bin")
        tokens = ("--tokens", "u16")
        self.fails(1, ["--data", file, *tokens, "--vocabulary", 5], "u16.bin", "outside of the vocabulary of 5")
        self.fails(1, ["--data", self.write("odd.bin", b"abc"), *tokens], "odd.bin", "3 bytes")
        self.fails(1, ["--data", self.token_file("short.bin", tokens=[1] * 9), *tokens], "short.bin", "--block")
        self.fails(2, ["--data", file, "--tokens", "u8"], "--tokens")
        self.fails(2, ["--data", file, *tokens, "--bytes"], "--bytes")
        self.fails(2, ["--data", file, *tokens, "--positions", 8], "--block 64", "8 positions")

    def gpt2_file(self):
        tensors = gpt2(KINDS, POSITIONS, LAYERS, WIDTH)
        return self.write("gpt2.safetensors", safetensors(tensors)), tensors

    def test_begins_with_a_gpt2_file_and_takes_its_sizes(self):
        file, tensors = self.gpt2_file()
        flags = ("--data", self.token_file("u16.bin"), "--tokens", "u16", *self.training, "--lr", 0.01)
        untrained = ("--stop-after", 0)
        saved = self.path("begun.safetensors")
        self.succeeds(*flags, "--from", file, *untrained, "--save", saved)
        packed = {name: struct.pack(f"{len(values)}f", *values) for name, (_, values) in tensors.items()}
        kept = {name: struct.pack(f"{len(values)}f", *values)
                for name, (_, values) in as_gpt2(read_safetensors(saved)).items()}
        self.assertEqual(kept, packed)
        # What was trained begins again where it stood, as another program's file.
        trained = self.path("trained.safetensors")
        before = self.figures(*flags, "--from", file, "--save", trained)
        self.expect_predicted(before)
        self.assertEqual(before["parameters"], sum(len(values) for _, values in tensors.values()))
        again = self.write("again.safetensors", safetensors(as_gpt2(read_safetensors(trained))))
        evaluated = self.figures("--data", self.token_file("u16.bin"), "--tokens", "u16", "--heads", 2, "--block", 16,
                                 "--batch", 4, "--from", again, "--steps", 0)
        self.assertEqual(evaluated["val_loss"], before["val_loss"])
        self.assertEqual(evaluated["peak_bytes_allocated"], evaluated["peak_bytes_predicted"])
        # A resumed training needs the file no more.
        stopped = self.path("from_stopped.safetensors")
        self.succeeds(*flags, "--from", file, "--stop-after", 4, "--save", stopped)
        os.remove(file)
        self.assertEqual(self.figures("--resume", stopped)["state_sha256"], before["state_sha256"])

    def test_a_gpt2_file_that_does_not_fit(self):
        file, tensors = self.gpt2_file()
        data = ("--data", self.token_file("u16.bin"), "--tokens", "u16")
        self.fails(2, [*data, "--from", file, "--layers", 3], "--layers 3", f"{LAYERS} in", "gpt2.safetensors")
        self.fails(2, [*data, "--from", file, "--block", 25], "--block 25", "24 positions")
        saved = self.path("of_a_training.safetensors")
        self.succeeds(*self.on_tokens(data[1], "--stop-after", 0, "--save", saved))
        self.fails(2, [*data, "--from", file, "--resume", saved], "--from")
        text = self.write("text.txt", "the quick brown fox jumps over the lazy dog\n" * 20)
        self.fails(1, ["--data", text, "--block", 16, "--from", file], "gpt2.safetensors", "61 kinds", "--tokens")
        self.fails(1, [*data, "--from", self.path("none")], "none", "No such file")
        self.fails(1, [*data, "--from", self.write("foreign", safetensors({"x": ([1], [0.0])}))], "foreign", "not a GPT-2 model")
        del tensors["ln_f.bias"]
        self.fails(1, [*data, "--block", 16, "--from", self.write("lacking", safetensors(tensors))], "lacking", "ln_f.bias")


if __name__ == "__main__":
    unittest.main()
