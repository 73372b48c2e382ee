"""The parts of scripts/gpu: each runs programs that are built, and returns what gpu.json has of them."""
import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import time
import xml.etree.ElementTree as xml

from runner import BUILD, ROOT, output_of, read_json, say

PEERS = ROOT / "bench" / "peers"
BENCH = BUILD / "bench" / "gpu"
TRACES = ROOT / "bench" / "traces" / "recorded"
# Small programs: compute-sanitizer makes kernels some hundred times slower. First what no emulator runs.
SANITIZED = ["kernels_attention_library_cuda_test", "kernels_convolution_library_cuda_test", "kernels_matmul_cuda_test",
             "kernels_attention_cuda_test", "kernels_copy_devices_test", "kernels_fill_devices_test", "kernels_gather_devices_test"]
FILTER = "--gtest_filter=*Cuda.*:*/bf16/contiguous/gpu:*/f64/gaps/gpu"  # few of the table's rows
TRAINED_BY_RANKS = ["--layers", "6", "--heads", "6", "--width", "384", "--block", "256", "--batch", "16", "--dropout", "0.1"]
TO_REPORT = 10  # seconds that ctest has for its report


def with_steps(flags, steps, warmup):
    return [*shlex.split(flags), "--steps", str(steps), "--warmup", str(warmup)]


def gpt2(step, runner, quick):
    """A row: of gpt2_step, or of PyTorch's."""
    flags = with_steps(re.sub(r"--batch \d+", "--batch 2", step.flags) if quick else step.flags, *((3, 2) if quick else (20, 5)))
    if step.name.startswith("torch"):
        compiled = ["--compile"] if step.name == "torch compiled" else []
        return runner.object_of([sys.executable, str(PEERS / "gpt2_torch.py"), *compiled, *flags], env=dict(os.environ))
    return runner.object_of([str(BENCH / "gpt2_step"), *flags])


def model(step, runner, quick):
    """A row: of model_step, or of train.py by the same names."""
    steps = 3 if quick else 20
    if not step.name.startswith("torch"):
        return runner.object_of([str(BENCH / "model_step"), "--device", "cuda", *with_steps(step.flags, steps, 2 if quick else 5)])
    technique = ["--technique", "compiled"] if step.name == "torch compiled" else []
    result = runner.object_of([sys.executable, str(PEERS / "train.py"), "--device", "cuda", "--optimizer", "sgd", *technique,
                               *shlex.split(step.flags), "--steps", str(2 * steps)], env=dict(os.environ))  # the second half is timed
    if "error" in result:
        return result
    words = shlex.split(step.flags)
    sizes = {name: int(words[words.index(f"--{name}") + 1]) for name in ("batch", "height", "width")}
    return {"model": words[words.index("--model") + 1], "dtype": words[words.index("--dtype") + 1], **sizes,
            "parameters": result["parameters"], "seconds": result["step_seconds"], "samples_per_second": sizes["batch"] / result["step_seconds"],
            "loss": result["loss"], "peak_bytes": result["peak_bytes_allocated"]}


def segmentation(step, runner, quick):
    """A row: of train_segmentation, on images that it draws; its plan is for the budget."""
    file = BUILD / "segmentation.json"
    file.unlink(missing_ok=True)
    return runner.object_of([str(BUILD / "examples" / "train_segmentation"), "--device", "cuda", *shlex.split(step.flags), "--clouds", "8",
                             "--validation", "1", "--steps", "2" if quick else "5", "--json", str(file)], file=file)


def kernels(runner, quick):
    return runner.object_of([str(BENCH / "kernel_shares"), *(["--small"] if quick else [])], rest="]}")


def uploads(runner, _):
    return runner.object_of([str(BENCH / "uploads")])


def ctest(runner, out, labels, name):
    """ctest ends by itself in time to write its report; tests that then still run count as failed. `labels`: ctest's flags;
    `name`: of the log and of the report in `out`."""
    say(f"tests: {' '.join(labels)}")
    report, log = out / f"{name}.xml", out / f"{name}.log"
    report.unlink(missing_ok=True)
    command = ["ctest", "--test-dir", str(BUILD), *labels]
    known = json.loads(output_of([*command, "--show-only=json-v1"]) or "{}").get("tests", [])
    if not known:
        return {"passed": 0, "failed": [f"no test has {' '.join(labels)}"], "skipped": [], "not_run": [], "stopped": False, "code": 1}
    seconds = runner.left(900)
    stop = int(time.time() + max(2, seconds - TO_REPORT))  # a time of the day for ctest: were it past, it would be tomorrow's
    command += ["-j", str(max(4, os.cpu_count() // 2)), "--no-tests=error", "--verbose", "--output-junit", str(report),
                "--stop-time", time.strftime("%H:%M:%S", time.gmtime(stop))]
    with open(log, "w", encoding="utf-8") as file:  # ctest's own knows of a test when it has ended
        env = {**runner.ours, "TZ": "UTC0"}  # ctest knows time zones of full hours only
        code = runner.run(command, seconds, stdout=file, stderr=subprocess.STDOUT, env=env)[0]
    names = {"failed": [], "passed": []}
    if not report.exists():
        names["failed"].append(f"ctest ended with {code}")
        code = code or 1
    else:
        for case in xml.parse(report).getroot().iter("testcase"):
            if case.get("status") != "notrun":  # where there is no program
                names["failed" if case.find("failure") is not None else "passed"].append(case.get("name"))
    begun = {name for some in names.values() for name in some}
    not_run = [test["name"] for test in known if test["name"] not in begun]
    skipped = set(re.findall(r"\[  SKIPPED \] (\S+\.\S+[^,\s])", log.read_text(errors="replace")))
    return {"passed": len(names["passed"]), "failed": names["failed"], "skipped": sorted(skipped), "not_run": not_run,
            "stopped": time.time() >= stop - 1, "code": code or int(bool(not_run))}


def tests(runner, out):
    return ctest(runner, out, ["-L", "^gpu$", "-LE", "^dist$"], "tests")


def count_gpus():
    """That programs see."""
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
    return len(chosen.split(",") if chosen else re.findall(r"^GPU ", output_of(["nvidia-smi", "-L"]), re.MULTILINE))


def dist(runner, out, gpus, quick):
    """NCCL itself, by a test with one rank on one GPU, which NCCL allows no second one; on several GPUs also a training."""
    result = {"gpus": gpus, "tests": ctest(runner, out, ["-L", "^gpu$", "-L", "^dist$"], "dist")}
    return result if gpus < 2 else {**result, **ranks(runner, gpus, quick)}


def ranks(runner, gpus, quick):
    """A rank for each GPU over NCCL, which need no MPI, beside one rank: bits, loss and speed."""
    command = [str(BUILD / "examples" / "train_gpt"), "--data", str(ROOT / "docs" / "guide.md"), "--device", "cuda", "--shard",
               "gradients", "--accumulate", str(2 * gpus), "--steps", "3" if quick else "30", *TRAINED_BY_RANKS]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    launcher = {"WORLD_SIZE": str(gpus), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    start = ('others=; for RANK in $(seq 1 $((WORLD_SIZE - 1))); do export RANK; "$@" & others="$others $!"; done; RANK=0 "$@"; '
             'code=$?; for other in $others; do wait "$other" || code=$?; done; exit $code')
    result = {"ranks": gpus}
    if not os.access(command[0], os.X_OK):
        return {**result, "error": "train_gpt was not built"}
    for name, begin, env in (("one", [], {}), ("all", ["/bin/sh", "-c", start, "-"], launcher)):
        file = BUILD / f"dist_{name}.json"
        file.unlink(missing_ok=True)
        say(f"train_gpt by {gpus if begin else 1} rank{'s' if begin else ''}")
        code, text = runner.run([*begin, *command, "--json", str(file)], 240, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                env={**runner.ours, **env})
        if code != 0:
            return {**result, "error": f"{name}: {text.strip()[-1000:]}{', stopped' if code == 124 else ''}"}
        summary = read_json(file.read_text(encoding="utf-8"))
        result[name] = {key: summary[key] for key in ("state_sha256", "val_loss", "tokens_per_second")}
    return result


def allocator(runner, torch):
    traces = sorted(str(path) for path in TRACES.glob("*.trace.gz"))
    results = {"headroom, cudaMalloc, cudaMallocAsync": runner.object_of([str(BENCH / "allocators"), *traces])}
    if torch:
        file = BUILD / "allocator_torch.json"
        for name, options in (("torch", ""), ("torch, expandable segments", "expandable_segments:True")):
            file.unlink(missing_ok=True)
            results[name] = runner.object_of([sys.executable, str(PEERS / "allocator_torch.py"), "--json", str(file), *traces], file=file,
                                             env={**os.environ, "PYTORCH_CUDA_ALLOC_CONF": options})
    return results


def sanitizer(runner, keep):
    tool = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
    if not os.access(tool, os.X_OK):
        return {"compute-sanitizer": "is not installed"}
    results = {}
    for name in SANITIZED:
        for kind in ("memcheck", "racecheck"):
            say(f"{kind} {name}")
            command = [tool, "--tool", kind, "--error-exitcode", "9", str(BUILD / "tests" / "kernels" / name), FILTER]
            code, text = runner.run(command, 120, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=runner.ours)
            results[f"{kind} {name}"] = "clean" if code == 0 else ("stopped: " if code == 124 else "") + text[-2000:]
            keep(results)
    return results
