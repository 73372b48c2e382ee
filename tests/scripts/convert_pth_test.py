"""scripts/convert_pth: state dicts become safetensors, names and dtypes kept; anything else is refused in one line."""
import contextlib
import importlib.machinery
import importlib.util
import io
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

try:
    import safetensors
    import torch
    from safetensors.torch import load_file
except ImportError:
    torch = None

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts/convert_pth"


sys.dont_write_bytecode = True
LOADER = importlib.machinery.SourceFileLoader("convert_pth", str(SCRIPT))
convert_pth = importlib.util.module_from_spec(importlib.util.spec_from_loader("convert_pth", LOADER))
LOADER.exec_module(convert_pth)


class Convert(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.source = pathlib.Path(folder.name) / "model.pth"
        self.target = pathlib.Path(folder.name) / "model.safetensors"

    def run_script(self, *flags):
        """Its message where it fails, else nothing; in this process, which imports PyTorch once."""
        arguments = ["convert_pth", str(self.source), str(self.target), *flags]
        output = io.StringIO()
        with unittest.mock.patch("sys.argv", arguments), contextlib.redirect_stdout(output):
            try:
                convert_pth.main()
            except SystemExit as end:
                return end.code
        self.said = output.getvalue()

    def converted(self, saved, *flags):
        torch.save(saved, self.source)
        self.assertIsNone(self.run_script(*flags))
        self.assertEqual(len(list(self.target.parent.iterdir())), 2)
        return load_file(self.target)

    def refused(self, *parts, flags=()):
        message = self.run_script(*flags)
        self.assertNotIn("\n", message)
        for part in ("convert_pth: ", *parts):
            self.assertIn(part, message)
        self.assertFalse(self.target.exists())

    @unittest.skipUnless(torch, "PyTorch is not installed")
    def test_no_path_breaks_the_line(self):
        self.source = self.source.with_name("mo\n\x1b[31mdel.pth")
        self.refused("mo??[31mdel.pth: no such file")

    def test_without_pytorch_it_says_so(self):
        blocker = self.source.parent / "modules"
        (blocker / "safetensors").mkdir(parents=True)
        (blocker / "safetensors/__init__.py").write_text("raise ImportError('No module named torch')\n")
        done = subprocess.run([sys.executable, SCRIPT, self.source, self.target], text=True, capture_output=True,
                              env={**os.environ, "PYTHONPATH": str(blocker)})
        self.assertEqual((done.returncode, done.stderr),
                         (1, "convert_pth: No module named torch; pip install torch safetensors numpy\n"))

    @unittest.skipUnless(torch, "PyTorch is not installed")
    def test_names_shapes_dtypes_and_values_stay(self):
        weight = torch.arange(24.0).reshape(2, 3, 4)
        state = {"conv1.weight": weight, "half": weight.to(torch.bfloat16), "strided": weight.transpose(0, 2),
                 "tied": weight, "bn1.num_batches_tracked": torch.tensor(7), "mask": torch.tensor([True, False])}
        got = self.converted(state)
        self.assertEqual(got.keys(), state.keys())
        for name, x in state.items():
            self.assertEqual(got[name].dtype, x.dtype)
            self.assertTrue(torch.equal(got[name], x), name)

    @unittest.skipUnless(torch, "PyTorch is not installed")
    def test_finds_the_state_dict_and_drops_module(self):
        state = {"module.fc.weight": torch.ones(2, 2), "module.fc.bias": torch.zeros(2)}
        plain = {"fc.weight", "fc.bias"}
        self.assertEqual(self.converted(state).keys(), plain)
        for nested in ({"epoch": 3, "state_dict": state}, {"model": state, "optimizer": {"lr": 0.1}},
                       {"model": {"state_dict": state}}):
            self.assertEqual(self.converted(nested).keys(), plain)
        mixed = {"module.fc.weight": torch.ones(2), "head": torch.ones(1)}
        self.assertEqual(self.converted(mixed).keys(), mixed.keys())

    @unittest.skipUnless(torch, "PyTorch is not installed")
    def test_usual_keys_and_wrappers_are_known_and_said(self):
        for key in ("state_dict", "model_state_dict", "model", "net", "params", "weights", "model_state", "module"):
            self.assertEqual(self.converted({"epoch": 3, key: {"fc.weight": torch.ones(2)}}).keys(), {"fc.weight"})
            self.assertIn(f"; of {key}\n", self.said)
        for prefix in ("module.", "model.", "_orig_mod.", "_orig_mod.module.", "module._orig_mod.model."):
            state = {f"{prefix}fc.weight": torch.ones(2), f"{prefix}model.bias": torch.zeros(2)}
            self.assertEqual(self.converted(state).keys(), {"fc.weight", "model.bias"})
            self.assertIn(f'; without the prefix "{prefix}" of all names\n', self.said)
        self.assertEqual(self.converted({"n_averaged": torch.tensor(9), "module.fc.weight": torch.ones(2)}).keys(), {"fc.weight"})
        self.assertIn("left out, as they are not tensors: n_averaged", self.said)
        self.assertEqual(self.converted({"fc.weight": torch.ones(2)}).keys(), {"fc.weight"})
        self.assertNotIn(";", self.said)

    @unittest.skipUnless(torch, "PyTorch is not installed")
    def test_a_key_names_the_dict_to_take(self):
        states = {name: {"fc.weight": torch.full((2,), float(i))} for i, name in enumerate(("generator", "critic"))}
        self.assertEqual(self.converted(states, "--key", "critic")["fc.weight"][0], 1)
        self.assertIn("; of critic\n", self.said)
        self.assertEqual(self.converted({"gan": {"critic": {"state_dict": states["critic"]}}, "model": states["generator"]},
                                        "--key", "gan", "--key", "critic")["fc.weight"][0], 1)
        self.assertIn("; of gan / critic / state_dict\n", self.said)
        self.target.unlink()
        torch.save(states, self.source)
        self.refused("model.pth", "none under a usual name; name one with --key: generator, critic")
        self.refused("--key ema: there is no dict of that name; the names are: generator, critic", flags=("--key", "ema"))
        self.refused("--key x: there is no dict of that name; the names are: none", flags=("--key", "critic", "--key", "x"))

    @unittest.skipUnless(torch, "PyTorch is not installed")
    def test_what_nanogpt_says_of_its_model_is_kept(self):
        arguments = {"n_layer": 2, "n_head": 4, "bias": False, "dropout": 0.0, "vocab_size": None}
        state = {"_orig_mod.transformer.wte.weight": torch.ones(2, 2)}
        got = self.converted({"model": state, "optimizer": {"state": {}}, "model_args": arguments, "iter_num": 3})
        self.assertEqual(got.keys(), {"transformer.wte.weight"})
        with safetensors.safe_open(self.target, "pt") as file:
            self.assertEqual(json.loads(file.metadata()["model_args"]), arguments)
        self.converted({"model": state, "model_args": [1]})
        with safetensors.safe_open(self.target, "pt") as file:
            self.assertEqual(file.metadata(), {"format": "pt"})

    @unittest.skipUnless(torch, "PyTorch is not installed")
    def test_leaves_out_what_stands_beside_the_tensors(self):
        state = {"module.inc.weight": torch.ones(2), "mask_values": [0, 1], "epoch": 3}
        self.assertEqual(self.converted(state).keys(), {"inc.weight"})
        self.assertIn("left out, as they are not tensors: mask_values, epoch", self.said)

    @unittest.skipUnless(torch, "PyTorch is not installed")
    def test_refuses_what_is_no_state_dict(self):
        self.refused("model.pth", "no such file")
        self.source.write_bytes(b"not a file of PyTorch's")
        self.refused("model.pth", "not a file of tensors")
        for saved, part in ((torch.ones(3), "Tensor"), ({}, "dict"), ({"epoch": 3}, "'epoch' is int"),
                            ({"x": torch.ones(2), "ema": {"x": torch.ones(2)}}, "'ema' is dict"),
                            ({"x": torch.ones(2).to_sparse()}, "x is"), ({1: torch.ones(1)}, "1 is Tensor"),
                            ({"x": torch.ones(2, dtype=torch.complex64)}, "complex64"),
                            ({"x": torch.empty(2, device="meta")}, "x is a meta tensor")):
            torch.save(saved, self.source)
            self.refused("model.pth", part)
        torch.save(torch.nn.Linear(2, 2), self.source)
        self.refused("model.pth", "without running code")

    @unittest.skipUnless(torch, "PyTorch is not installed")
    def test_what_cannot_be_written_is_refused_in_one_line(self):
        torch.save({"x": torch.ones(2)}, self.source)
        with unittest.mock.patch("safetensors.torch.save_file", side_effect=ValueError("no such dtype\nmore")):
            self.refused("model.safetensors", "can't be written as safetensors (no such dtype)")
        self.assertEqual(len(list(self.target.parent.iterdir())), 1)

    @unittest.skipUnless(torch, "PyTorch is not installed")
    def test_a_folder_that_is_not_there_is_named(self):
        torch.save({"x": torch.ones(2)}, self.source)
        self.target = self.source.parent / "missing" / "model.safetensors"
        self.refused("model.safetensors", "No such file")


if __name__ == "__main__":
    unittest.main()
