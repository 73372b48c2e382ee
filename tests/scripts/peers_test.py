"""bench/peers/train.py: its flags and its list of rows on any machine; its trainings where python3 can import torch."""
import contextlib
import importlib
import importlib.util
import io
import json
import math
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
import unittest.mock

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PEERS = ROOT / "bench" / "peers"
sys.path.insert(0, str(PEERS))
import train  # noqa: E402

TORCH = importlib.util.find_spec("torch") and importlib.util.find_spec("torchvision")
EPSILON = 2.0 ** -23  # of f32
GPT = ["--model", "gpt", "--layers", "2", "--width", "64", "--block", "16", "--batch", "4"]
# Models that train in a moment, and the length of the longest sum in their products.
TINY = {
    "gpt": (GPT, 4 * 64),
    "resnet18": (["--model", "resnet18", "--height", "64", "--width", "64", "--batch", "4"], 9 * 512),
    "unet": (["--model", "unet", "--height", "32", "--width", "26", "--batch", "2"], 9 * 1024),  # the width halves unevenly
    "lstm": (["--model", "lstm", "--block", "8", "--batch", "2", "--classes", "65"], 4 * 512),
}
# The others, and the length of their batch's axes.
SMALL = {
    **{model: (["--height", "32", "--width", "32"], (2, 3, 32, 32)) for model in ("vgg16", "vgg16_bn", "mlp", "unet_bilinear")},
    "maskrcnn": (["--height", "64", "--width", "96"], (2, 3, 64, 96)),
    **{model: (["--block", "8"], (2, 8)) for model in ("gpt2", "bert")},
    "gru": (["--block", "8", "--classes", "65"], (8, 2)),
}
COMPILED = ("compiled", "activation memory budget")


def small(model, *more):
    size, shape = SMALL[model]
    return train.parse(["--model", model, *size, "--batch", "2", *more]), shape


def program(*arguments, torch=True):
    """Return code, standard output and error; `torch=False`: as where there is none."""
    with tempfile.TemporaryDirectory() as folder:
        env = dict(os.environ)
        if not torch:
            pathlib.Path(folder, "torch.py").write_text("raise ImportError(\"No module named 'torch'\")", encoding="utf-8")
            env["PYTHONPATH"] = folder
        run = subprocess.run([sys.executable, "-B", str(PEERS / "train.py"), *arguments], capture_output=True, text=True, env=env,
                             check=False)
        return run.returncode, run.stdout, run.stderr


def listed(model, *arguments):
    return train.rows(train.parse(["--model", model, "--list", *arguments]))


class Usage(unittest.TestCase):
    def test_the_peers_are_python(self):
        files = sorted(PEERS.glob("*.py"))
        self.assertGreater(len(files), 10)
        for path in files:
            compile(path.read_text(encoding="utf-8"), str(path), "exec")

    def test_help_needs_no_torch(self):
        code, out, _ = program("--help", torch=False)
        self.assertEqual(code, 0)
        self.assertIn("--technique", out)

    def test_wrong_usage_ends_with_2(self):
        for arguments in ([], ["--model", "gpt3"], [*GPT, "--batch", "0"], [*GPT, "--technique", "magic"],
                          [*GPT, "--technique", "activation memory budget"], [*GPT, "--fraction", "0.5"],
                          [*GPT, "--technique", "activation memory budget", "--fraction", "2"]):
            with self.assertRaises(SystemExit) as ended, contextlib.redirect_stderr(io.StringIO()):
                train.parse(arguments)
            self.assertEqual(ended.exception.code, 2, arguments)

    def test_without_torch_it_says_how_to_get_it(self):
        code, out, error = program(*GPT, torch=False)
        self.assertEqual((code, out), (1, ""))
        self.assertRegex(error, r"^train\.py: .*torch.*; run python3 -m pip install torch==\S+ torchvision transformers\n$")

    def test_a_technique_that_the_model_lacks_is_refused(self):
        for model, technique in (("lstm", "gradient checkpointing"), ("resnet18", "no SDPA"), ("gpt", "NCHW"), ("mlp", "NCHW")):
            self.assertEqual(program("--model", model, "--technique", technique, torch=False),
                             (1, "", f"train.py: {model} has nothing that '{technique}' would change\n"))
            self.assertNotIn(technique, [row["technique"] for row in listed(model)])


class Rows(unittest.TestCase):
    def test_each_model_has_some_that_change_one_thing_each(self):
        for model in train.FAMILY:
            rows = listed(model, "--batch", "6")
            baseline = rows[0]
            self.assertEqual(baseline["technique"], "baseline", model)
            self.assertGreaterEqual(len(rows), 11)
            self.assertEqual(len({(row["technique"], row["name"]) for row in rows}), len(rows))
            for row in rows:
                flags = train.parse(["--model", model, *row["arguments"]])
                changed = {key for key in ("dtype", "optimizer", "batch", "accumulate") if row[key] != baseline[key]}
                self.assertEqual(changed, {"gradient accumulation": {"batch", "accumulate"}, "smaller batch": {"batch"},
                                           "mixed precision": {"dtype"}, "optimizer": {"optimizer"}}.get(row["technique"], set()))
                for key in ("technique", "dtype", "optimizer", "batch", "accumulate"):
                    self.assertEqual(getattr(flags, key), row[key])

    def test_micro_batches_divide_the_batch(self):
        def names(batch, technique):
            return [row["name"] for row in listed("gpt2", "--batch", batch, "--techniques", technique)]
        self.assertEqual(names("4", "accumulation"), ["2 x 2", "4 x 1"])
        self.assertEqual(names("6", "gradient accumulation"), ["2 x 3"])
        self.assertEqual(names("6", "smaller_batch"), ["batch 3", "batch 1"])
        self.assertEqual(names("1", "accumulation,smaller_batch"), [])

    def test_f16_is_of_gpus(self):
        def dtypes(*arguments):
            return [row["dtype"] for row in listed("gpt2", "--techniques", "mixed_precision", *arguments)]
        self.assertEqual((dtypes(), dtypes("--device", "cuda")), (["bf16"], ["bf16", "f16"]))
        self.assertEqual(dtypes("--dtype", "bf16"), ["f32"])

    def test_budgets_are_those_that_were_asked_for(self):
        rows = listed("gpt", "--techniques", "plan,chunked_loss", "--fractions", "0.2,1")
        self.assertEqual([row["name"] for row in rows], ["budget 0.2", "budget 1"])
        self.assertEqual(rows[0]["arguments"][-2:], ["--fraction", "0.2"])

    def test_the_list_is_json_and_needs_no_torch(self):
        code, out, error = program("--model", "unet", "--list", torch=False)
        self.assertEqual((code, json.loads(out), error), (0, listed("unet"), ""))

    def test_models_and_techniques_are_headrooms(self):
        models = (ROOT / "examples" / "models" / "models.cpp").read_text(encoding="utf-8")
        names = re.findall(r'\{"(\w+)", [\w:<>]+\(', models[models.index("std::map<std::string, Model> named{"):])
        published = (ROOT / "examples" / "images" / "classifier.hpp").read_text(encoding="utf-8")
        names += re.findall(r'^ +\{"(\w+)", \w+::\w+\(\), true\}', published, re.MULTILINE)
        self.assertGreater(len(names), 10)
        self.assertLessEqual(set(names), set(train.FAMILY))
        usual = dict(re.findall(r"(\w+) = (\d+)", (ROOT / "examples" / "models" / "models.hpp").read_text(encoding="utf-8").split("kUsualSizes")[0]))
        self.assertEqual({name: int(size) for name, size in usual.items()}, train.SIZES)
        sizes = {name.replace("_", ""): {key: int(size) for key, size in re.findall(r"\.(\w+) = (\d+)", text)}
                 for name, text in re.findall(r"^Model (\w+)\([^)]*\) \{\n    return \{\.sizes = \{([^}]*)\}", models, re.MULTILINE)}
        sizes["unet_bilinear"] = sizes["unet"]
        self.assertEqual(sizes, train.SIZES_OF)
        techniques = (ROOT / "examples" / "models" / "techniques.cpp").read_text(encoding="utf-8")
        for short, technique in list(train.TECHNIQUES.items())[:6]:
            self.assertIn(f'{{"{short}", ', techniques)
            self.assertIn(f'("{technique}"', techniques)


@unittest.skipUnless(TORCH, "python3 can't import torch and torchvision")
class Trainings(unittest.TestCase):
    def test_a_step_that_takes_too_long_ends_the_training(self):
        training = importlib.import_module("training")
        flags = train.parse([*GPT, "--longest", "1"])
        waits = unittest.mock.patch.object(training.Training, "step", lambda _: time.sleep(2))  # the first one may
        make = importlib.import_module("tokens").MODELS["gpt"]
        with waits, self.assertRaises(TimeoutError):
            training.trained(make, flags, 2)

    def loss(self, size, *arguments):
        """Of the third step."""
        flags = train.parse([*size, "--steps", "3", "--threads", "1", "--no-peak", *arguments])
        with contextlib.redirect_stdout(io.StringIO()) as out:
            result = train.run(flags)
        self.assertEqual(out.getvalue(), "")
        return result["loss"]

    def test_rows_of_the_same_arithmetic_have_the_same_loss(self):
        for model, (size, length) in TINY.items():
            # A processor without instructions for bf16 has no LSTM in it.
            left_out = COMPILED if model != "lstm" else (*COMPILED, "mixed precision")
            rows = [row for row in listed(*size[1:], "--optimizer", "sgd") if row["technique"] not in left_out]
            losses = {(row["technique"], row["name"]): self.loss(size, *row["arguments"]) for row in rows}
            baseline = losses["baseline", "keep all"]
            of_batch = {row["batch"]: losses["smaller batch", row["name"]] for row in rows if row["technique"] == "smaller batch"}
            for row in rows:
                with self.subTest(model=model, technique=row["technique"], name=row["name"]):
                    loss = losses[row["technique"], row["name"]]
                    self.assertTrue(math.isfinite(loss))
                    if row["technique"] == "gradient checkpointing":
                        self.assertEqual(loss, baseline)
                    elif row["technique"] in ("no SDPA", "NCHW"):
                        self.assertAlmostEqual(loss, baseline, delta=length * EPSILON * baseline)
                    elif row["technique"] == "gradient accumulation":  # micro-batches have the same samples
                        expected = of_batch[row["batch"]]
                        self.assertAlmostEqual(loss, expected, delta=length * EPSILON * expected)

    def test_each_model_takes_a_step_and_has_blocks_if_it_lists_them(self):
        training = importlib.import_module("training")
        for model in SMALL:
            if model == "bert" and not importlib.util.find_spec("transformers"):
                continue
            with self.subTest(model=model):
                flags, shape = small(model)
                make = importlib.import_module(train.FAMILY[model]).MODELS[model]
                _, batch, blocks = make(flags, "cpu")
                self.assertEqual(tuple(batch[0].shape), shape)
                self.assertEqual(len(list(blocks)) == 0, train.lacks(model, "gradient checkpointing"))
                trained = training.Training(make, flags)
                self.assertTrue(math.isfinite(trained.step()))
                self.assertTrue(all(parameter.grad is None for parameter in trained.model.parameters()))

    def test_the_second_half_of_the_steps_counts(self):
        training = importlib.import_module("training")
        flags = train.parse([*GPT, "--steps", "5"])
        flags.peak = False
        model = importlib.import_module("torch").nn.Linear(2, 2)
        made = unittest.mock.Mock(model=model), 1.0, [9.0, 9.0, 1.0, 1.0, 1.0]
        with unittest.mock.patch.object(training, "trained", lambda *_: made):
            self.assertEqual(training.measured(None, flags)["step_seconds"], 1.0)

    def test_attention_is_plain_without_sdpa(self):
        tokens, training = importlib.import_module("tokens"), importlib.import_module("training")
        for technique, plain in (("baseline", False), ("no SDPA", True)):
            with unittest.mock.patch.object(tokens, "plain_attention", side_effect=tokens.plain_attention) as attention:
                training.Training(tokens.MODELS["gpt"], train.parse([*GPT, "--technique", technique])).step()
            self.assertEqual(attention.called, plain, technique)

    def test_products_have_the_dtype_that_is_asked_for(self):
        torch, training = importlib.import_module("torch"), importlib.import_module("training")
        for dtype, autocast in (("f32", False), ("bf16", True)):
            seen = []
            made = training.Training(importlib.import_module("tokens").MODELS["gpt"], train.parse([*GPT, "--dtype", dtype]))
            made.model.register_forward_hook(lambda *_, seen=seen: seen.append(torch.is_autocast_enabled("cpu")))
            made.step()
            self.assertEqual(seen, [autocast], dtype)

    def test_a_budget_of_activations_is_handed_over(self):
        training = importlib.import_module("training")
        make = importlib.import_module("tokens").MODELS["gpt"]
        for more, budget in (((), 1.0), (("--technique", "activation memory budget", "--fraction", "0.3"), 0.3)):
            training.Training(make, train.parse([*GPT, *more]))
            self.assertEqual(training.functorch.activation_memory_budget, budget)
        training.Training(make, train.parse(GPT))

    def test_matrices_decay_alone(self):
        torch = importlib.import_module("torch")
        linear = torch.nn.Linear(3, 4)
        groups = importlib.import_module("training").adamw(linear, decay=0.25).param_groups
        self.assertEqual([(group["weight_decay"], group["params"]) for group in groups], [(0.25, [linear.weight]), (0.0, [linear.bias])])

    def test_images_lie_as_the_technique_says(self):
        torch = importlib.import_module("torch")
        for technique, layout in (("baseline", torch.channels_last), ("NCHW", torch.contiguous_format)):
            flags, _ = small("vgg16_bn", "--technique", technique)
            model, batch, _ = importlib.import_module("images").MODELS["vgg16_bn"](flags, "cpu")
            for array in (batch[0], next(weight for weight in model.parameters() if weight.dim() == 4 and weight.shape[1] > 3)):
                self.assertTrue(array.is_contiguous(memory_format=layout), technique)

    def test_a_gpt_is_initialised_as_gpt2(self):
        model = importlib.import_module("tokens").Gpt(65, 16, 8, 2, 128)
        of = {name: parameter.std().item() for name, parameter in model.blocks[3].named_parameters()}
        for name, deviation in (("up.weight", 0.02), ("down.weight", 0.02 / math.sqrt(16)), ("projection.weight", 0.02 / math.sqrt(16))):
            self.assertAlmostEqual(of[name], deviation, delta=0.05 * deviation)  # 16,384 values at least: 0.0055 is one deviation

    @unittest.skipUnless(shutil.which("c++") or shutil.which("g++"), "torch.compile needs a C++ compiler")
    def test_a_compiled_model_has_the_same_loss(self):
        size, length = TINY["gpt"]
        baseline = self.loss(size)
        for row in listed(*size[1:], "--techniques", "compiled,plan", "--fractions", "0.3"):
            loss = self.loss(size, *row["arguments"])
            self.assertAlmostEqual(loss, baseline, delta=length * EPSILON * baseline, msg=row["name"])

    def test_checkpointing_lowers_the_peak(self):
        size = [*GPT, "--layers", "8", "--block", "64", "--steps", "1", "--threads", "1"]
        peaks = []
        for technique in ("baseline", "gradient checkpointing"):
            code, out, error = program(*size, "--technique", technique)
            self.assertEqual(code, 0, error)
            result = json.loads(out)
            self.assertEqual(list(result), ["framework", "parameters", "step_seconds", "peak_bytes_allocated",
                                            "peak_bytes_reserved", "loss"])
            self.assertRegex(result["framework"], r"^torch \d+\.\d+\.\d+")
            self.assertIsNone(result["peak_bytes_reserved"])
            self.assertGreater(result["peak_bytes_allocated"], 3 * 4 * result["parameters"])  # weights and moments at least
            peaks.append(result["peak_bytes_allocated"])
        self.assertLess(peaks[1], peaks[0])


if __name__ == "__main__":
    unittest.main()
