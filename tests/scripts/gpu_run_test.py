"""scripts/gpu as a whole, on a machine that seems to have a GPU, with programs that print what gpu_run.json holds; and that
this is what the real ones print."""
import itertools
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
RUN = json.loads((HERE / "gpu_run.json").read_text(encoding="utf-8"))
ALLOCATORS = "headroom, cudaMalloc, cudaMallocAsync"
OUTPUTS = {"gpt2_step": RUN["gpt2"][0], "model_step": RUN["models"][0], "kernel_shares": RUN["kernels"], "uploads": RUN["uploads"],
           "allocators": RUN["allocator"][ALLOCATORS]}
PROGRAMS = os.environ.get("HEADROOM_EMULATED_GPU_PROGRAMS")

sys.path.insert(0, str(ROOT / "bench" / "gpu"))
import table  # noqa: E402

NVIDIA_SMI = "echo 'No GPU, 1.2, 9.0, 1 MiB'"
# Builds all of the benchmarks but one, and one of the tests.
CMAKE = """
[ "$1" = --build ] || { echo configure >>"$FAKE/calls" && exit; }
echo "build $6 $8 $9" >>"$FAKE/calls"
mkdir -p build/gpu/bench/gpu
case "$6" in
    gpu_benchmarks) cp "$FAKE"/programs/* build/gpu/bench/gpu ;;
    *) cp "$FAKE/CTestTestfile.cmake" build/gpu
       echo "source.cpp:1: error: refused"
       exit 1 ;;
esac
"""
CTEST = """
add_test(kernels/passes "/bin/true")
add_test(kernels/refused "/no/such/program")
set_tests_properties(kernels/passes kernels/refused PROPERTIES LABELS gpu)
"""


class Run(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.tree = pathlib.Path(folder.name, "tree")
        self.out = pathlib.Path(folder.name, "out")
        self.fake = pathlib.Path(folder.name, "fake")
        for name in ("scripts/gpu", "bench/gpu/table.py", "bench/peers/gpt2_torch.py"):
            (self.tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, self.tree / name)
        for name, text in (("nvidia-smi", NVIDIA_SMI), ("nvcc", ""), ("cmake", CMAKE)):
            self.write(f"bin/{name}", f"#!/bin/sh\n{text}\n")
        for name, value in OUTPUTS.items():
            self.write(f"{name}.json", json.dumps(value))
            self.write(f"programs/{name}", f'#!/bin/sh\necho {name} >>"$FAKE/calls"\ncat "$FAKE/{name}.json"\n')
        self.write("CTestTestfile.cmake", CTEST)
        self.write("calls", "")

    def write(self, name, text):
        path = self.fake / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        path.chmod(0o755)

    def run_script(self, *arguments):
        """Return code, results, and what it started."""
        env = {**os.environ, "FAKE": str(self.fake), "PATH": f"{self.fake / 'bin'}:{os.environ['PATH']}"}
        command = [sys.executable, "-B", str(self.tree / "scripts" / "gpu"), "--out", str(self.out), *arguments]
        code = subprocess.run(command, cwd=self.tree, env=env, capture_output=True, check=False).returncode
        calls = (self.fake / "calls").read_text(encoding="utf-8").splitlines()
        return code, json.loads((self.out / "gpu.json").read_text(encoding="utf-8")), calls

    @unittest.skipUnless(shutil.which("ctest"), "ctest is not in the PATH")
    def test_does_what_is_wanted_most_first_and_all_that_was_built(self):
        (self.fake / "programs" / "uploads").unlink()
        code, results, calls = self.run_script()
        self.assertEqual(code, 1)
        self.assertEqual(calls, ["configure", "build gpu_benchmarks -k 0", *["gpt2_step"] * 6, *["model_step"] * 4, "kernel_shares",
                                 "build gpu -k 0", "build train_gpt -k 0", *["gpt2_step"] * 4, "allocators"])
        self.assertEqual(results["build"], {"CMake's files": "done", "gpu_benchmarks": "done", "gpu": "failed", "train_gpt": "failed"})
        self.assertIn("train_gpt", results["dist"]["error"])
        self.assertEqual(results["kernels"], RUN["kernels"])
        self.assertEqual(results["uploads"], {"error": "was not built"})
        self.assertEqual((results["tests"]["passed"], results["tests"]["not_run"]), (1, ["kernels/refused"]))
        self.assertEqual(sorted(path.name for path in self.out.iterdir()),
                         ["LastTest.log", "build.log", "gpu.json", "gpu.txt", "tests.xml"])
        self.assertIn("refused", (self.out / "build.log").read_text(encoding="utf-8"))
        self.assertEqual((self.out / "gpu.txt").read_text(encoding="utf-8"), table.table(results) + "\n")

    def test_takes_parts_and_dtypes(self):
        code, results, calls = self.run_script("--only", "kernels,gpt2", "--dtypes", "f16")
        self.assertEqual((code, calls), (0, ["configure", "build gpu_benchmarks -k 0", "gpt2_step", "gpt2_step", "kernel_shares"]))
        self.assertEqual(results["gpt2"], [RUN["gpt2"][0]] * 2)
        self.assertEqual(sorted(results["seconds"]), ["build", "gpt2", "kernels"])

    def test_builds_everything_where_nothing_else_is_wanted(self):
        code, results, calls = self.run_script("--only", "build")
        self.assertEqual((code, calls), (1, ["configure", "build gpu_benchmarks -k 0", "build gpu -k 0", "build train_gpt -k 0"]))
        self.assertNotIn("gpt2", results)

    def test_an_older_program_does_not_pass_for_a_new_one(self):
        self.run_script("--only", "uploads")
        (self.fake / "programs" / "uploads").unlink()
        self.assertEqual(self.run_script("--only", "uploads")[1]["uploads"], {"error": "was not built"})

    def test_what_was_not_done_in_time_is_named(self):
        code, results, calls = self.run_script("--limit", "0")
        self.assertEqual((code, results["build"], calls), (1, {"CMake's files": "stopped at the limit"}, []))


class Table(unittest.TestCase):
    def test_shows_all_and_marks_what_should_not_be(self):
        text = table.table(RUN)
        marked = [line.strip()[2:] for line in text.splitlines() if line.strip().startswith("!")]
        self.assertEqual([re.sub(r" +", " ", line) for line in marked], [
            "build of gpu: failed", "GPT-2 bf16 torch compiled batch 64 stopped", "2 times the host waited for the GPU, in steps that were timed",
            "3 times the allocator did, in steps that were timed",
            "4 calls of the driver by the allocator, in steps that were timed", "19.00 GB were predicted",
            "attention not all by cuDNN: cuDNN 9.15.1, frontend 1.15.0; own kernels at least once: no deterministic gradient",
            "products not all by cuBLASLt: cuBLASLt 13.1.0; own kernels for 1 of the products: [16384 x 50257 x 768] bf16 (all of it)",
            "graphs were refused: cudaErrorStreamCaptureUnsupported",
            "attention not all by cuDNN: own kernels: cuDNN can't be loaded",
            "products not all by cuBLASLt: matmul: cuBLASLt is not there",
            "2 times the host waited for the GPU, in steps that were timed", "19.00 GB were predicted",
            "graphs were refused: cudaErrorStreamCaptureUnsupported",
            "convolutions not all by cuDNN: cuDNN 9.19.0, frontend 1.32.0; own kernels at least once: no plan", "resnet50 torch compiled stopped",
            "products not all by cuBLASLt: cuBLASLt 13.1.0; own kernels for 1 of the products: [49152 x 3072 x 768] bf16 gelu_tanh "
            "inner (what stands beside it)",
            "failed: kernels/fill_devices_test", "not run: kernels/copy_devices_test",
            "skipped: BlasApi.NvidiasLibraryTakesEveryDescription", "2 ranks over NCCL, 2 GPUs: other bits than one, 1.75 times its 1,000 tokens/s",
            "allocator, torch, expandable segments: ended with 1",
            "racecheck kernels_fill_devices_test: stopped:"])
        self.assertRegex(text, "GPT-2 bf16 +headroom +batch +64")
        self.assertRegex(text, "GPT-2 bf16 +headroom, graphs +batch +64")
        for part in ("100,000 tokens/s", "2,560.0 images/s", "20.50 of the host", "4.0 s the first", "0.60 GB CUDA's", "25.0 % of memory",
                     "75.0 % of tensor cores", "copy by a feed", "1.0200 reserved", "150 ns a call", "1.2500 reserved"):
            self.assertIn(part, text)

    def test_an_unfinished_run_has_one_too(self):
        for count in range(len(RUN)):
            part = dict(list(RUN.items())[:count])
            if "build" in part:
                self.assertIn("No GPU", table.table(part))


def keys(value):
    """Of all objects in it."""
    if isinstance(value, dict):
        return set(value).union(*map(keys, value.values()))
    return set().union(*map(keys, value)) if isinstance(value, list) else set()


class Programs(unittest.TestCase):
    """What they print is what the test of the script has them print."""

    def test_print_these_names(self):
        for name, value in OUTPUTS.items():
            source = (ROOT / "bench" / "gpu" / f"{name}.cpp").read_text(encoding="utf-8")
            self.assertEqual({key for key in re.findall(r'\\"([^"\\]+)\\":', source) if "{" not in key}, keys(value), name)
        source = (ROOT / "bench" / "peers" / "gpt2_torch.py").read_text(encoding="utf-8")
        self.assertEqual(set(re.findall(r'"([a-z]\w+)":', source.split("print(json.dumps")[1])), keys(RUN["gpt2"][2]))

    @unittest.skipUnless(PROGRAMS and os.path.exists(f"{PROGRAMS}/gpt2_step"), "needs gpt2_step of an emulated build")
    def test_a_step_of_the_emulator_is_as_it_should_be_on_a_gpu(self):
        sizes = dict(layers=1, heads=2, width=32, time=16, vocabulary=64, batch=2, warmup=2, steps=2)
        arguments = [word for name, value in sizes.items() for word in (f"--{name}", str(value))]
        for dtype, graphs in itertools.product(("bf16", "f16", "f32"), ([], ["--graphs"])):
            output = subprocess.run([f"{PROGRAMS}/gpt2_step", "--dtype", dtype, *graphs, *arguments], capture_output=True,
                                    text=True, check=True).stdout
            row = json.loads(output)
            self.assertEqual(row["graphs"], "on" if graphs else "off")
            self.assertEqual(keys(row), keys(RUN["gpt2"][0]))
            self.assertEqual([line.split(":")[0] for line in table.complaints(row)],
                             ["attention not all by cuDNN", "products not all by cuBLASLt"])
            self.assertGreaterEqual(row["milliseconds_per_step"], row["host_milliseconds_per_step"])
            self.assertEqual(len(list(table.gpt2([row]))), 3)


    @unittest.skipUnless(PROGRAMS and os.path.exists(f"{PROGRAMS}/model_step"), "needs model_step of an emulated build")
    def test_a_step_of_a_model_prints_its_row(self):
        command = [f"{PROGRAMS}/model_step", "--model", "resnet18", "--height", "32", "--width", "32", "--classes", "4", "--steps", "1"]
        row = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        self.assertEqual(keys(row), keys(RUN["models"][0]))
        self.assertEqual(row["peak_bytes"], row["predicted_bytes"])
        self.assertEqual(len(list(table.models([row]))), 1)
        row = json.loads(subprocess.run([*command, "--device", "cuda", "--batch", "2"], capture_output=True, text=True, check=True).stdout)
        self.assertEqual([line.split(":")[0] for line in table.complaints(row)],  # what the emulator lacks
                         ["attention not all by cuDNN", "convolutions not all by cuDNN", "products not all by cuBLASLt"])


if __name__ == "__main__":
    unittest.main()
