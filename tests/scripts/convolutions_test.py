"""The convolutions that NVIDIA's library plans without a GPU (kernels/cuda_cudnn_convolution_test) are those of the models."""
import importlib.util
import os
import pathlib
import subprocess
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAMS = os.environ.get("HEADROOM_EMULATED_GPU_PROGRAMS", "")
SPEC = importlib.util.spec_from_file_location("plans", ROOT / "bench" / "convolution_plans.py")
plans = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(plans)


class Convolutions(unittest.TestCase):
    @unittest.skipUnless(os.path.exists(f"{PROGRAMS}/model_step"), "needs model_step of an emulated build")
    def test_are_those_of_the_models(self):
        self.assertEqual(sorted(plans.MODELS), sorted(path.stem for path in plans.SHAPES.glob("*.txt")))
        for name, (_, flags) in plans.MODELS.items():
            printed = subprocess.run([f"{PROGRAMS}/model_step", *plans.COMMON, *flags.split()], capture_output=True, text=True,
                                     check=True).stdout
            self.assertEqual(printed, (plans.SHAPES / f"{name}.txt").read_text(encoding="utf-8"), name)

    def test_the_page_is_that_of_the_results(self):
        page = (ROOT / "docs" / "convolution_plans.md").read_text(encoding="utf-8")
        self.assertEqual(page, plans.with_table(page, plans.read_results()))

    def test_results_are_of_these_shapes(self):
        results = plans.read_results()["plans"]
        for name in plans.MODELS:
            lines = (plans.SHAPES / f"{name}.txt").read_text(encoding="utf-8").splitlines()
            self.assertEqual([row["convolution"] for row in results if row["model"] == name], lines)


if __name__ == "__main__":
    unittest.main()
