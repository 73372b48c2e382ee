"""scripts/gpu as a whole, on a machine that seems to have a GPU, with programs that print what gpu_run.json holds; and that
this is what the real ones print."""
import itertools
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
RUN = json.loads((HERE / "gpu_run.json").read_text(encoding="utf-8"))
ALLOCATORS = "headroom, cudaMalloc, cudaMallocAsync"
OUTPUTS = {"gpt2_step": RUN["gpt2"][0], "model_step": RUN["models"][0], "kernel_shares": RUN["kernels"], "uploads": RUN["uploads"],
           "allocators": RUN["allocator"][ALLOCATORS], "train_segmentation": RUN["segmentation"][0]}
PROGRAMS = os.environ.get("HEADROOM_EMULATED_GPU_PROGRAMS")
SEGMENTATION = pathlib.Path(os.environ.get("HEADROOM_BUILD_DIR", "missing"), "examples", "train_segmentation")

sys.path.insert(0, str(ROOT / "bench" / "gpu"))
import steps  # noqa: E402
import table  # noqa: E402

NVIDIA_SMI = """
[ "$1" = -L ] && echo "GPU 0: none" && exit
echo 'No GPU, 1.2, 9.0, 1 MiB'
"""
# Builds all of the benchmarks but one, and some of the tests.
CMAKE = """
[ "$1" = --build ] || { echo configure >>"$FAKE/calls" && echo "$*" >"$FAKE/configured" && exit; }
shift 5
echo "build $*" >>"$FAKE/calls"
mkdir -p build/gpu/bench/gpu build/gpu/examples
case "$1" in
    gpu_benchmarks) cp "$FAKE"/programs/* build/gpu/bench/gpu
       mv build/gpu/bench/gpu/train_segmentation build/gpu/examples ;;
    *) cp "$FAKE/CTestTestfile.cmake" build/gpu
       echo "source.cpp:1: error: refused"
       exit 1 ;;
esac
"""
CTEST = """
add_test(kernels/passes "/bin/true")
add_test(kernels/refused "/no/such/program")
add_test(dist/one_rank "/bin/true")
add_test(dist/emulated "/bin/false")
set_tests_properties(kernels/passes kernels/refused PROPERTIES LABELS "kernels;gpu")
set_tests_properties(dist/one_rank PROPERTIES LABELS "dist;gpu")
set_tests_properties(dist/emulated PROPERTIES LABELS dist)
"""
PRINTS = """#!/bin/sh
echo "{name} $*" >>"$FAKE/calls"
for file; do :; done
[ {name} = train_segmentation ] && exec cp "$FAKE/{name}.json" "$file"
cat "$FAKE/{name}.json"
"""
BUILDS = ["configure", "build gpu_benchmarks train_segmentation -- -k 0"]
FIGURES = ["gpt2_step", "kernel_shares", *["gpt2_step"] * 3, *["model_step"] * 2, *["train_segmentation"] * 2, *["model_step"] * 2]


class Run(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.tree = pathlib.Path(folder.name, "tree")
        self.out = pathlib.Path(folder.name, "out")
        self.fake = pathlib.Path(folder.name, "fake")
        for path in (ROOT / "scripts" / "gpu", ROOT / "bench" / "runs.py", *(ROOT / "bench" / "gpu").glob("*.py")):
            copy = self.tree / path.relative_to(ROOT)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, copy)
        for name, text in (("nvidia-smi", NVIDIA_SMI), ("nvcc", ""), ("cmake", CMAKE)):
            self.write(f"bin/{name}", f"#!/bin/sh\n{text}\n")
        for name, value in OUTPUTS.items():
            self.write(f"{name}.json", json.dumps({key: each for key, each in value.items() if key != "flags"}))
            self.write(f"programs/{name}", PRINTS.format(name=name))
        self.write("CTestTestfile.cmake", CTEST)
        self.write("calls", "")
        self.env = {**os.environ, "FAKE": str(self.fake), "PATH": f"{self.fake / 'bin'}:{os.environ['PATH']}"}
        self.command = [sys.executable, "-B", str(self.tree / "scripts" / "gpu"), "--out", str(self.out)]

    def write(self, name, text):
        path = self.fake / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        path.chmod(0o755)

    def calls(self, names=True):
        lines = (self.fake / "calls").read_text(encoding="utf-8").splitlines()
        return [line if line.startswith("build") or not names else line.split()[0] for line in lines]

    def results(self):
        def refuse(word):
            self.fail(f"{word} is no JSON")
        return json.loads((self.out / "gpu.json").read_text(encoding="utf-8"), parse_constant=refuse)

    def run_script(self, *arguments):
        """Return code, results, and what it started."""
        code = subprocess.run([*self.command, *arguments], cwd=self.tree, env=self.env, capture_output=True, check=False).returncode
        return code, self.results(), self.calls()

    @unittest.skipUnless(shutil.which("ctest"), "ctest is not in the PATH")
    def test_does_what_is_wanted_most_first_and_all_that_was_built(self):
        (self.fake / "programs" / "uploads").unlink()
        code, results, calls = self.run_script()
        self.assertEqual(code, 1)
        self.assertEqual(calls, [*BUILDS, *FIGURES, "build gpu -- -k 0", *["gpt2_step"] * 5, *["model_step"] * 4, *["gpt2_step"] * 4,
                                 "allocators"])
        self.assertEqual(results["build"], {"CMake's files": "done", "gpu_benchmarks train_segmentation": "done", "gpu": "failed"})
        self.assertEqual(results["kernels"], RUN["kernels"])
        self.assertEqual(results["segmentation"], [{**RUN["segmentation"][0], "flags": f"{steps.SEGMENTATION} --dtype {dtype}"}
                                                   for dtype in ("f16", "f32")])
        self.assertEqual(results["uploads"], {"error": "was not built"})
        self.assertEqual((results["tests"]["passed"], results["tests"]["not_run"]), (1, ["kernels/refused"]))
        self.assertEqual((results["dist"]["gpus"], results["dist"]["tests"]["passed"], results["dist"]["tests"]["failed"]), (1, 1, []))
        missing = {str(step) for step in steps.STEPS if step.name.startswith("torch") or step.part in ("tests", "uploads")}
        self.assertEqual(set(results["not_done"]) - {"sanitizer"}, missing | {"build: gpu"})
        self.assertEqual(sorted(path.name for path in self.out.iterdir()),
                         ["build.log", "dist.log", "dist.xml", "gpu.json", "gpu.txt", "tests.log", "tests.xml"])
        self.assertIn("refused", (self.out / "build.log").read_text(encoding="utf-8"))
        self.assertEqual((self.out / "gpu.txt").read_text(encoding="utf-8"), table.table(results) + "\n")

    def test_the_first_call_has_the_figures_by_these_flags(self):
        code, results, calls = self.run_script("--call", "1")
        self.assertEqual((code, calls), (0, [*BUILDS, *FIGURES]))
        self.assertEqual(results["not_done"], [f"gpt2: torch compiled {steps.GPT2}"])
        flags = [line.split(" --steps")[0].split(" --clouds")[0] for line in self.calls(names=False) if line.split()[0] in FIGURES]
        large = "--base-width 64 --height 1400 --width 2100 --batch 4 --budget 10GiB --split-batch --dtype"
        self.assertEqual(flags, [
            "gpt2_step --dtype bf16 --batch 64", "kernel_shares ", "gpt2_step --dtype bf16 --batch 64 --half-residual",
            "gpt2_step --dtype bf16 --batch 64 --nondeterministic", "gpt2_step --dtype bf16 --batch 64 --tune",
            "model_step --device cuda --model resnet50 --dtype bf16 --batch 256 --height 224 --width 224 --classes 1000",
            "model_step --device cuda --model unet --dtype bf16 --batch 1 --height 1400 --width 2100 --classes 4",
            f"train_segmentation --device cuda {large} f16", f"train_segmentation --device cuda {large} f32",
            "model_step --device cuda --model lstm --dtype bf16 --batch 64 --height 128",
            "model_step --device cuda --model lstm --dtype bf16 --batch 64 --height 128 --graphs"])

    @unittest.skipUnless(shutil.which("ctest"), "ctest is not in the PATH")
    def test_the_second_call_has_the_tests(self):
        code, results, calls = self.run_script("--call", "2")
        self.assertEqual((code, calls), (1, ["configure", "build gpu -- -k 0"]))
        self.assertEqual((results["dist"]["tests"]["passed"], results["tests"]["passed"]), (1, 1))
        self.assertEqual(results["not_done"], ["build: gpu", "tests"])

    def test_a_program_of_a_call_is_stopped_in_time_and_those_behind_it_run(self):
        """With five seconds for each step."""
        path = self.tree / "bench" / "gpu" / "steps.py"
        path.write_text(re.sub(r"1, (seconds=)?\d+\),\n", r"1, \g<1>5),\n", path.read_text(encoding="utf-8")), encoding="utf-8")
        head = {"copy_gigabytes_per_second": 3000.0, "product_teraflops": 700.0}
        text = json.dumps({**head, "kernels": RUN["kernels"]["kernels"]}).removesuffix("]}")
        self.write("programs/kernel_shares", f"#!/bin/sh\necho '{text}'\nexec sleep 1000\n")  # more than all of the call's time
        code, results, _ = self.run_script("--call", "1")
        self.assertEqual((code, results["kernels"]), (0, {**head, "kernels": RUN["kernels"]["kernels"], "error": "stopped"}))
        self.assertEqual(results["not_done"], ["kernels", f"gpt2: torch compiled {steps.GPT2}"])

    def test_takes_parts_and_dtypes(self):
        code, results, calls = self.run_script("--only", "kernels,gpt2", "--dtypes", "f16")
        self.assertEqual((code, calls), (0, ["configure", "build gpu_benchmarks -- -k 0", "kernel_shares", "gpt2_step", "gpt2_step"]))
        self.assertEqual([row["flags"] for row in results["gpt2"]], ["--dtype f16 --batch 64", "--dtype f16 --batch 64 --graphs"])
        self.assertEqual(sorted(results["seconds"]), ["build", "gpt2", "kernels"])

    def test_builds_everything_where_nothing_else_is_wanted(self):
        code, results, calls = self.run_script("--only", "build")
        self.assertEqual((code, calls), (1, [*BUILDS, "build gpu -- -k 0"]))
        self.assertNotIn("gpt2", results)

    def test_an_older_program_does_not_pass_for_a_new_one(self):
        self.run_script("--only", "uploads")
        (self.fake / "programs" / "uploads").unlink()
        self.assertEqual(self.run_script("--only", "uploads")[1]["uploads"], {"error": "was not built"})

    def test_is_built_for_the_first_gpu_with_what_was_brought(self):
        self.write("bin/nvidia-smi", f"#!/bin/sh\n{NVIDIA_SMI}echo 'Another, 1.2, 7.5, 1 MiB'\n")
        self.write("usr/lib/libbrought.so", "")
        archive = self.fake / "deps.tar.gz"
        subprocess.run(["tar", "-czf", archive, "-C", self.fake, "usr"], check=True)
        self.run_script("--only", "uploads", "--deps", str(archive))
        words = (self.fake / "configured").read_text(encoding="utf-8").split()
        brought = self.tree / "build" / "gpu" / "deps" / "usr"
        self.assertTrue((brought / "lib" / "libbrought.so").exists())
        for word in ("-DHEADROOM_CUDA=ON", "-DHEADROOM_CUDA_ARCHITECTURES=90-real", f"-DCMAKE_PREFIX_PATH={brought}"):
            self.assertIn(word, words)

    def test_what_was_not_done_in_time_is_named(self):
        code, results, calls = self.run_script("--limit", "0")
        self.assertEqual((code, results["build"], calls), (1, {"CMake's files": "stopped at the limit"}, []))
        self.assertEqual(results["not_done"], [str(step) for step in steps.STEPS])

    def test_what_was_not_done_is_named_where_the_script_was_killed(self):
        self.write("programs/kernel_shares", '#!/bin/sh\necho "kernel_shares $$" >>"$FAKE/calls"\nexec sleep 1000\n')
        with subprocess.Popen([*self.command, "--call", "1"], cwd=self.tree, env=self.env, stdout=subprocess.DEVNULL) as script:
            while "kernel_shares" not in self.calls() and script.poll() is None:
                time.sleep(0.05)
            script.kill()
        os.kill(int(self.calls(names=False)[-1].split()[1]), signal.SIGKILL)
        self.assertEqual(self.results()["not_done"], [str(step) for step in steps.wanted(1, [], steps.DTYPES)[2:]])

    def test_what_is_not_finite_is_null(self):
        text = json.dumps({**OUTPUTS["gpt2_step"], "loss": 1.0}).replace('"loss": 1.0', '"loss": NaN')
        self.write("gpt2_step.json", text)
        results = self.run_script("--only", "gpt2", "--dtypes", "f32")[1]
        self.assertEqual([row["loss"] for row in results["gpt2"]], [None] * 2)
        self.assertIn("! the loss is not finite", (self.out / "gpu.txt").read_text(encoding="utf-8"))


class Table(unittest.TestCase):
    def test_shows_all_and_marks_what_should_not_be(self):
        text = table.table(RUN)
        marked = [line.strip()[2:] for line in text.splitlines() if line.strip().startswith("!")]
        self.assertEqual([re.sub(r" +", " ", line) for line in marked], [
            "build of gpu: failed", "GPT-2 torch compiled --dtype bf16 --batch 64: stopped",
            "2 times the host waited for the GPU, in steps that were timed", "3 times the allocator did, in steps that were timed",
            "4 calls of the driver by the allocator, in steps that were timed", "19.00 GB were predicted",
            "attention not all by cuDNN: cuDNN 9.15.1, frontend 1.15.0; own kernels at least once: no deterministic gradient",
            "products not all by cuBLASLt: cuBLASLt 13.1.0; own kernels for 1 of the products: [16384 x 50257 x 768] bf16 (all of it)",
            "graphs were refused: cudaErrorStreamCaptureUnsupported",
            "attention not all by cuDNN: own kernels: cuDNN can't be loaded",
            "products not all by cuBLASLt: matmul: cuBLASLt is not there", "the loss is not finite",
            "2 times the host waited for the GPU, in steps that were timed", "19.00 GB were predicted",
            "graphs were refused: cudaErrorStreamCaptureUnsupported",
            "convolutions not all by cuDNN: cuDNN 9.19.0, frontend 1.32.0; own kernels at least once: no plan",
            f"torch compiled {steps.RESNET50}: stopped",
            "11.00 GB of reserved memory, of which 7.50 GB were predicted", "more than the budget", "the loss is not finite",
            "products not all by cuBLASLt: cuBLASLt 13.1.0; own kernels for 1 of the products: [49152 x 3072 x 768] bf16 gelu_tanh "
            "inner (what stands beside it)",
            "skipped: NcclCuda.MovesBytesAndTakesMemory", "2 ranks over NCCL, 2 GPUs: other bits than one, 1.75 times its 1,000 tokens/s",
            "failed: kernels/fill_devices_test", "not run: kernels/copy_devices_test",
            "skipped: BlasApi.NvidiasLibraryTakesEveryDescription", "allocator, torch, expandable segments: ended with 1",
            "racecheck kernels_fill_devices_test: stopped:", "not done: uploads", f"not done: gpt2: torch compiled {steps.GPT2}"])
        self.assertRegex(text, "GPT-2 bf16 +headroom +batch +64")
        for part in ("headroom --graphs ", "headroom --half-residual ", "100,000 tokens/s", " - tokens/s", "2,560.0 samples/s",
                     "20.50 for the host to queue it", "5.00 for the host to queue it", "4000 the first", "0.60 GB CUDA's",
                     "250 ms a step, 32 ops run again; planned in 8.5 s, for 125 ms", "25.0% of memory", "75.0% of tensor cores", "- ms",
                     "copy by a feed", "1.0200 reserved", "150 ns a call", "1.2500 reserved"):
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


def printed(program, *flags):
    done = subprocess.run([program, *map(str, flags)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise AssertionError(f"{program} {flags}: {done.stderr}")
    return json.loads(done.stdout)


SCRIPTS = {"framework", "flags"}  # what the script adds to a row


class Programs(unittest.TestCase):
    """What they print is what the test of the script has them print."""

    def test_of_what_no_emulator_runs_print_these_names(self):
        source = (ROOT / "bench" / "gpu" / "allocators.cpp").read_text(encoding="utf-8")
        self.assertEqual(set(re.findall(r'\{"([a-z_]+)", [a-z]', source)), keys(OUTPUTS["allocators"]))
        source = (ROOT / "bench" / "peers" / "gpt2_torch.py").read_text(encoding="utf-8")
        self.assertEqual(set(re.findall(r'"([a-z]\w+)":', source.split("print(json.dumps")[1])), keys(RUN["gpt2"][2]) - {"flags"})


@unittest.skipUnless(PROGRAMS and os.path.exists(f"{PROGRAMS}/kernel_shares"), "needs the programs of an emulated build")
class Emulated(unittest.TestCase):
    def test_a_step_is_as_it_should_be_on_a_gpu(self):
        sizes = dict(layers=1, heads=2, width=32, time=16, vocabulary=64, batch=2, warmup=2, steps=2)
        arguments = [word for name, value in sizes.items() for word in (f"--{name}", value)]
        for dtype, graphs in itertools.product(("bf16", "f16", "f32"), ([], ["--graphs"])):
            row = printed(f"{PROGRAMS}/gpt2_step", "--dtype", dtype, *graphs, *arguments)
            self.assertEqual(row["graphs"], "on" if graphs else "off")
            self.assertEqual(keys(row), keys(RUN["gpt2"][0]) - {"flags"})
            self.assertEqual([line.split(":")[0] for line in table.complaints(row)],
                             ["attention not all by cuDNN", "products not all by cuBLASLt"])
            self.assertGreater(row["host_milliseconds_per_step"], 0)
            self.assertEqual(len(list(table.gpt2([{**row, "flags": ""}]))), 3)

    def test_a_step_of_a_model_prints_its_row(self):
        command = [f"{PROGRAMS}/model_step", "--model", "resnet18", "--height", "32", "--width", "32", "--classes", "4", "--warmup", "1",
                   "--steps", "1"]
        row = printed(*command)
        self.assertEqual(keys(row) | SCRIPTS, keys(RUN["models"][0]))
        self.assertEqual((row["peak_bytes"], row["host_seconds"]), (row["predicted_bytes"], None))
        self.assertEqual(len(list(table.models([{**row, "flags": ""}]))), 1)
        row = printed(*command, "--device", "cuda", "--batch", "2")
        self.assertEqual([line.split(":")[0] for line in table.complaints(row)],  # what the emulator lacks
                         ["attention not all by cuDNN", "convolutions not all by cuDNN", "products not all by cuBLASLt"])
        self.assertGreater(row["host_seconds"], 0)

    def test_a_loss_that_is_not_finite_is_null(self):
        row = printed(f"{PROGRAMS}/gpt2_step", "--layers", 1, "--heads", 2, "--width", 32, "--time", 16, "--vocabulary", 64, "--batch", 2,
                      "--warmup", 1, "--steps", 2, "--lr", 1e30)
        self.assertIsNone(row["loss"])
        self.assertIn("the loss is not finite", list(table.complaints(row)))

    def test_shares_of_kernels_have_rows_of_all_kinds(self):
        result = printed(f"{PROGRAMS}/kernel_shares", "--small")
        self.assertEqual(keys(result), keys(RUN["kernels"]))
        names = [row["name"] for row in result["kernels"]]
        self.assertEqual(len(names), len(set(names)))
        for row in result["kernels"]:
            self.assertTrue(row["milliseconds"] > 0 and row["share_of_copy"] > 0 and row["share_of_product"] >= 0, row)
        for kind, count in {"convolution ResNet ": 5, "convolution data ResNet ": 4, "convolution weight ResNet ": 5, "convolution U-Net ": 2,
                            "convolution data U-Net ": 2, "convolution weight U-Net ": 2, "channel_norm moments": 3, "channel_norm residual": 3,
                            "channel_norm gradient": 3, "lstm_step [": 1, "lstm_step gradient [": 1, "product of an lstm_step": 1}.items():
            self.assertEqual(sum(name.startswith(kind) for name in names), count, kind)
        self.assertEqual(sum(re.match(r"\d+ lstm_step( gradient)?s with products", name) is not None for name in names), 2)
        self.assertEqual(len(list(table.kernels(result))), 1 + 3 + len(names))  # nothing is by cuDNN and cuBLASLt
        some = printed(f"{PROGRAMS}/kernel_shares", "--small", "channel_norm")
        self.assertEqual([row["name"] for row in some["kernels"]], [name for name in names if "channel_norm" in name])

    def test_uploads_print_their_times(self):
        self.assertEqual(keys(printed(f"{PROGRAMS}/uploads", "--megabytes", 1, "--products", 1, "--steps", 1)), keys(RUN["uploads"]))

    def test_programs_take_the_flags_of_each_step(self):
        """By rehearsals; a smaller image is planned for sooner."""
        programs = {"gpt2": f"{PROGRAMS}/gpt2_step", "models": f"{PROGRAMS}/model_step", "segmentation": SEGMENTATION}
        for part, flags in sorted({(step.part, step.flags) for step in steps.STEPS if step.name == "headroom"}):
            if part != "segmentation":
                self.assertIn("predicted_reserved", printed(programs[part], *shlex.split(flags), "--device", "dry"), flags)
            elif SEGMENTATION.exists():
                small = flags.replace("1400", "140").replace("2100", "210")
                subprocess.run([SEGMENTATION, *shlex.split(small), "--device", "dry", "--gpu-memory", "141GB"], check=True, capture_output=True)

    @unittest.skipUnless(SEGMENTATION.exists(), "train_segmentation was not built")
    def test_a_training_within_a_budget_writes_its_row(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, "row.json")
            flags = "--base-width 2 --height 32 --width 32 --batch 2 --budget 256MiB --split-batch --clouds 4 --validation 1 --steps 2 --dtype f32"
            subprocess.run([SEGMENTATION, *shlex.split(flags), "--json", file], check=True, capture_output=True)
            row = {**json.loads(file.read_text(encoding="utf-8")), "framework": "headroom", "flags": flags}
        self.assertEqual(keys(RUN["segmentation"][0]) - set(row), set())
        lines = list(table.segmentation([{**row, "used": 0}]))
        self.assertEqual(len(lines), 1, lines)


if __name__ == "__main__":
    unittest.main()
