"""Files of weights that people bring, in the forms that other programs write: they begin the training that they should, and
what is assumed or left out is said; else one line says what the file is."""
import json
import os
import struct
import unittest

from program import SOURCE, ProgramCase
from weight_files import gpt2, read_safetensors, safetensors, transposed

KINDS, POSITIONS, LAYERS, WIDTH = 61, 24, 2, 32
BERT = os.path.join(SOURCE, "tests", "reference", "bert_initial.safetensors")  # 13 kinds, 9 positions, 8 wide
TABLE = "bert.embeddings.word_embeddings.weight"


class GivenGpt(ProgramCase):
    program = "train_gpt"
    flags = ("--tokens", "u16", "--block", "16", "--batch", "4", "--steps", "0", "--threads", "1")

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.tokens = [(i * i + 3 * i) % KINDS for i in range(3000)]
        cls.data = cls.write("tokens.bin", struct.pack("<3000H", *cls.tokens))
        cls.tensors = gpt2(KINDS, POSITIONS, LAYERS, WIDTH)

    def model(self, folder, tensors=None, config=None, metadata=None):
        """A file in a folder of its own, with its config.json."""
        os.makedirs(self.path(folder))
        if config is not None:
            self.write(f"{folder}/config.json", config if isinstance(config, str) else json.dumps(config))
        return self.write(f"{folder}/model.safetensors", safetensors(tensors or self.tensors, metadata))

    def loss(self, file, *flags):
        return self.figures("--data", self.data, "--from", file, *flags)["val_loss"]

    def says(self, file, *flags):
        return self.succeeds("--data", self.data, "--from", file, *flags)

    def test_config_json_says_the_number_of_heads(self):
        plain = self.model("plain")
        losses = {heads: self.loss(plain, "--heads", heads) for heads in (1, 2, 4)}
        self.assertEqual(len(set(losses.values())), 3)
        assumed = "assuming 1 attention heads, as no config.json beside it says how many; --heads sets them"
        self.assertIn(f"{plain}: {assumed}\n", self.says(plain))
        self.assertNotIn("heads", self.says(plain, "--heads", 4))
        self.assertEqual(self.loss(plain), losses[1])
        config = {"model_type": "gpt2", "n_head": 4, "n_embd": WIDTH, "n_layer": LAYERS, "activation_function": "gelu_new"}
        file = self.model("config", config=config)
        self.assertEqual(self.loss(file), losses[4])
        self.assertNotIn("heads", self.says(file))
        self.fails(2, ["--data", self.data, "--from", file, "--heads", 2], "--heads 2: it is 4 in the configuration of", file)
        for name, change, part in (("other", {"n_embd": 768}, '"n_embd" is 768, but the weights have 32'),
                                   ("swish", {"activation_function": "swish"}, "swish"),
                                   ("none", {"n_head": 0}, '"n_head" must be a whole number of at least 1, got 0')):
            self.fails(1, ["--data", self.data, "--from", self.model(name, config={**config, **change})], f"{name}/config.json", part)
        self.fails(1, ["--data", self.data, "--from", self.model("torn", config="{")], "torn/config.json: a model's configuration must be a JSON object")
        self.assertEqual(self.loss(self.model("foreign", config={"name": "of another thing"})), losses[1])

    def test_checkpoints_of_nanogpt_begin_a_training(self):
        tensors = gpt2(KINDS, POSITIONS, LAYERS, WIDTH, bias=False)
        names = ("c_attn.weight", "c_proj.weight", "c_fc.weight")
        nano = {f"_orig_mod.transformer.{name}": transposed(*tensor) if name.endswith(names) else tensor
                for name, tensor in tensors.items()}
        nano["_orig_mod.lm_head.weight"] = tensors["wte.weight"]
        file = self.model("nano", nano, metadata={"model_args": json.dumps({"n_head": 2, "n_embd": WIDTH, "dropout": 0.2})})
        same = self.model("same", tensors)
        loss = self.loss(file)
        self.assertEqual(loss, self.loss(same, "--heads", 2, "--activation", "gelu_erf"))
        self.assertNotEqual(loss, self.loss(same, "--heads", 2))
        printed = self.says(file)
        self.assertIn(f'{file}: the prefix "_orig_mod." of all names is left out\n', printed)
        self.assertIn(f"{file}: GELU is in its exact form; --activation changes that\n", printed)
        self.assertEqual(self.loss(file, "--activation", "gelu_tanh"), self.loss(same, "--heads", 2))
        flags = ("--data", self.data, "--from", file, "--steps", 5)
        whole = self.figures(*flags)
        self.expect_predicted(whole)
        saved = self.path("stopped.safetensors")
        self.succeeds(*flags, "--stop-after", 2, "--save", saved)
        self.assertEqual(self.figures("--resume", saved, "--steps", 5)["state_sha256"], whole["state_sha256"])
        self.fails(2, [*flags, "--no-bias=false"], "--no-bias")

    def test_prefixes_and_parts(self):
        whole = self.loss(self.model("whole"))
        for i, prefix in enumerate(("module.", "_orig_mod.module.")):
            file = self.model(f"prefix{i}", {prefix + name: tensor for name, tensor in self.tensors.items()})
            self.assertEqual(self.loss(file), whole)
            self.assertEqual(self.says(file).count(f'{file}: the prefix "{prefix}" of all names is left out\n'), 1)
        os.makedirs(self.path("parts"))
        parts = [f"model-0000{i + 1}-of-00002.safetensors" for i in range(2)]
        part_of = {name: parts[i % 2] for i, name in enumerate(sorted(self.tensors))}
        for part in parts:
            self.write(f"parts/{part}", safetensors({name: self.tensors[name] for name in part_of if part_of[name] == part}))
        index = self.write("parts/model.safetensors.index.json", json.dumps({"metadata": {}, "weight_map": part_of}))
        self.assertEqual(self.loss(index), whole)
        self.fails(1, ["--data", self.data, "--from", self.path(f"parts/{parts[0]}")], parts[0], "it is one of several parts")
        os.remove(self.path(f"parts/{parts[1]}"))
        self.fails(1, ["--data", self.data, "--from", index], "index.json: its part", parts[1], "is missing")

    def test_other_files_are_told_by_their_kind(self):
        for name, contents, part in (("lfs", "version https://git-lfs.github.com/spec/v1\noid sha256:aa\nsize 12\n", "Git LFS"),
                                     ("page", "<!DOCTYPE html><html></html>", "a web page"),
                                     ("old.pth", b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.", "scripts/convert_pth")):
            for flag in ("--from", "--resume"):
                line = self.fails(1, ["--data", self.data, flag, self.write(name, contents)], name, part)
                self.assertNotIn("claims", line)

    def test_weights_are_no_training_to_resume(self):
        file = self.model("weights")
        line = "holds weights, not a checkpoint that --resume could continue from; --from starts from them"
        self.fails(1, ["--resume", file], f"{file}: {line}")
        small = ("--data", self.data, "--vocabulary", KINDS, "--layers", 1, "--width", 16, "--steps", 1)
        saved = self.path("saved.safetensors")
        self.succeeds(*small, "--save", saved)
        self.fails(1, ["--resume", saved, "--optimizer", "sgd", "--steps", 2],
                   f"--resume {saved}: it was trained with the optimizer adamw, and can't be resumed with sgd")
        plain = self.path("plain.safetensors")
        self.succeeds(*small, "--optimizer", "sgd", "--momentum", 0, "--save", plain)
        self.fails(1, ["--resume", plain, "--momentum", 0.9, "--steps", 2], "lacks sgd.velocity.", "another model or optimizer")

    def test_tokens_of_numpy_are_read_without_their_header(self):
        def npy(kind, form):
            header = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': ({len(self.tokens)},), }}".ljust(117) + "\n"
            return (b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header.encode() +
                    struct.pack(f"<{len(self.tokens)}{form}", *self.tokens))

        flags = ("--vocabulary", KINDS, "--layers", 1, "--steps", 3)
        plain = self.figures("--data", self.data, *flags)
        array = self.figures("--data", self.write("tokens.npy", npy("<u2", "H")), *flags)
        self.assertEqual((array["state_sha256"], array["val_loss"]), (plain["state_sha256"], plain["val_loss"]))
        self.fails(1, ["--data", self.write("long.npy", npy("<i8", "q")), *flags], "long.npy", "numbers are '<i8'",
                   "save array.astype('uint16')")


class GivenBert(ProgramCase):
    program = "train_text"
    flags = ("--model", "bert", "--block", "9", "--batch", "4", "--steps", "0", "--threads", "1")

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.text = cls.write("text.txt", "the quick fox jumps. The dog. " * 40)
        cls.lower = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "quick", "fox", "##es", "jump", "##s", ".", "dog"]
        cls.pieces = cls.write("vocab.txt", "\n".join(cls.lower))
        cls.tensors = read_safetensors(BERT)

    def run_with(self, name, tensors, *flags, run=None):
        file = self.write(f"{name}.safetensors", safetensors(tensors))
        return (run or self.figures)("--data", self.text, "--vocabulary", self.pieces, "--from", file, *flags)

    def test_old_names_and_bare_models_begin_a_training(self):
        want = self.run_with("plain", self.tensors, "--heads", 2)["val_loss"]
        old = {name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): tensor
               for name, tensor in self.tensors.items()}
        self.assertNotEqual(old.keys(), self.tensors.keys())
        self.assertEqual(self.run_with("old", old, "--heads", 2)["val_loss"], want)
        body = {name: tensor for name, tensor in self.tensors.items() if not name.startswith("cls.")}
        bare = {name.removeprefix("bert."): tensor for name, tensor in body.items()}
        bare["pooler.dense.bias"] = ([1], [0.0])
        losses = set()
        for name, tensors in (("headless", body), ("bare", bare)):
            printed = self.run_with(name, tensors, run=self.succeeds)
            self.assertIn(f"the head stays as initialised: {self.path(name)}.safetensors lacks cls.predictions.", printed)
            figures = self.run_with(name, tensors, "--steps", 3)
            self.expect_predicted(figures)
            losses.add(figures["val_loss"])
        self.assertEqual(len(losses), 1)
        self.assertNotIn("as initialised", self.run_with("plain", self.tensors, run=self.succeeds))

    def test_a_decoder_of_its_own_is_refused(self):
        shape, values = self.tensors[TABLE]
        tied = {**self.tensors, "cls.predictions.decoder.weight": (shape, values)}
        self.assertEqual(self.run_with("tied", tied)["val_loss"], self.run_with("plain", self.tensors)["val_loss"])
        own = {**self.tensors, "cls.predictions.decoder.weight": (shape, [x + 1 for x in values])}
        self.run_with("own", own, run=lambda *flags: self.fails(1, flags, "cls.predictions.decoder.weight differs from", TABLE))

    def test_config_json_says_the_number_of_heads(self):
        os.makedirs(self.path("folder"))
        two = self.run_with("plain", self.tensors, "--heads", 2)["val_loss"]
        self.assertIn("assuming 1 attention heads", self.run_with("plain", self.tensors, run=self.succeeds))
        self.write("folder/config.json", json.dumps({"num_attention_heads": 2, "hidden_size": 8}))
        self.assertEqual(self.run_with("folder/model", self.tensors)["val_loss"], two)
        self.assertNotEqual(self.run_with("plain", self.tensors)["val_loss"], two)

    def test_a_cased_vocabulary_keeps_capital_letters(self):
        def losses(vocabulary, *flags):
            return self.figures("--data", self.text, "--vocabulary", vocabulary, "--width", 8, "--heads", 2, *flags)["val_loss"]

        os.makedirs(self.path("cased"))
        cased = self.write("cased/vocab.txt", "\n".join([*self.lower, "The"]))
        printed = self.succeeds("--data", self.text, "--vocabulary", cased)
        self.assertIn(f"{cased}: the text keeps its capital letters; --case changes that\n", printed)
        self.assertIn(f"{self.pieces}: the text is read in lower case;", self.succeeds("--data", self.text, "--vocabulary", self.pieces))
        keep, lower = (losses(cased, "--case", case) for case in ("keep", "lower"))
        self.assertNotEqual(keep, lower)
        self.assertEqual(losses(cased), keep)
        self.runs.clear()
        self.write("cased/tokenizer_config.json", '{"do_lower_case": true}')
        self.assertEqual(losses(cased), lower)
        self.assertEqual(losses(cased, "--case", "keep"), keep)
        self.fails(2, ["--data", self.text, "--case", "keep"], "--case is for the vocab.txt")


class GivenUNet(ProgramCase):
    program = "train_segmentation"
    flags = ("--height", "32", "--width", "32", "--clouds", "8", "--validation", "2", "--batch", "2", "--steps", "0",
             "--base-width", "2", "--threads", "1")

    def test_wrapped_weights_with_counts_of_any_kind(self):
        saved = self.path("saved.safetensors")
        self.succeeds("--steps", 2, "--save", saved)
        tensors = {name: tensor for name, tensor in read_safetensors(saved).items() if not name.startswith("adamw.")}
        counts = {name.replace("running_mean", "num_batches_tracked"): ([1], [2.0]) for name in tensors if "running_mean" in name}
        self.assertEqual(len(counts), 18)
        wrapped = {f"module.{name}": tensor for name, tensor in {**tensors, **counts}.items()}
        file = self.write("wrapped.safetensors", safetensors(wrapped))
        self.assertEqual(self.figures("--from", file)["val_loss"], self.figures("--from", saved)["val_loss"])
        self.assertEqual(self.figures("--from", file)["state_sha256"], self.figures("--from", saved)["state_sha256"])
        self.assertEqual(self.succeeds("--from", file).count(f'{file}: the prefix "module." of all names is left out\n'), 1)
        self.assertNotIn("is left out", self.succeeds("--from", saved))


if __name__ == "__main__":
    unittest.main()
