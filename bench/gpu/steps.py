"""What scripts/gpu does, in the order of what is wanted most, and the two calls that fit into a quarter of an hour."""
import typing


class Step(typing.NamedTuple):
    part: str
    name: str = ""  # of a row: ours, or PyTorch's
    flags: str = ""  # of its program; of a build, CMake's targets
    call: int = 0  # 0: in none
    seconds: int = 0  # of the call's; what the steps before it have left is its, too

    def __str__(self):
        return " ".join(text for text in (f"{self.part}:", self.name, self.flags) if text).removesuffix(":")


LIMITS = {1: 440, 2: 235}  # seconds of a call, with the start and the end of what is stopped
WHAT = {1: "figures", 2: "tests"}

GPT2 = "--dtype bf16 --batch 64"
RESNET50 = "--model resnet50 --dtype bf16 --batch 256 --height 224 --width 224 --classes 1000"
UNET = "--model unet --dtype bf16 --batch 8 --height 512 --width 512 --classes 4"
LARGE_UNET = "--model unet --dtype bf16 --batch 1 --height 1400 --width 2100 --classes 4"
LSTM = "--model lstm --dtype bf16 --batch 64 --height 128"
SEGMENTATION = "--base-width 64 --height 1400 --width 2100 --batch 4 --budget 10GiB --split-batch"


def rows(part, flags):
    """Ours without and with graphs, and PyTorch's, which compiles last."""
    return [Step(part, "headroom", flags), *others(part, flags), Step(part, "torch compiled", flags)]


def others(part, flags):
    return [Step(part, "headroom", f"{flags} --graphs"), Step(part, "torch eager", flags)]


STEPS = [
    Step("build", "", "gpu_benchmarks train_segmentation", 1, 160),
    Step("gpt2", "headroom", GPT2, 1, 16),
    Step("kernels", call=1, seconds=40),
    Step("gpt2", "headroom", f"{GPT2} --half-residual", 1, 12),
    Step("gpt2", "headroom", f"{GPT2} --nondeterministic", 1, 12),
    Step("gpt2", "headroom", f"{GPT2} --tune", 1, 30),
    Step("models", "headroom", RESNET50, 1, 30),
    Step("models", "headroom", LARGE_UNET, 1, 15),
    Step("segmentation", "headroom", f"{SEGMENTATION} --dtype f16", 1, 22),
    Step("segmentation", "headroom", f"{SEGMENTATION} --dtype f32", 1, 33),
    Step("models", "headroom", LSTM, 1, 8),
    Step("models", "headroom", f"{LSTM} --graphs", 1, 8),
    Step("gpt2", "torch compiled", GPT2, 1, 44),
    Step("build", "", "gpu", 2, 135),
    Step("dist", call=2, seconds=30),
    Step("tests", call=2, seconds=60),
    *others("gpt2", GPT2),
    *rows("gpt2", "--dtype bf16 --batch 16"),
    *rows("gpt2", "--dtype bf16 --batch 4"),
    *others("models", RESNET50),
    Step("models", "torch compiled", RESNET50),
    Step("models", "headroom", f"{RESNET50} --tune"),
    *rows("models", UNET),
    *rows("gpt2", "--dtype f16 --batch 64"),
    *rows("gpt2", "--dtype f32 --batch 16"),
    Step("uploads"),
    Step("allocator"),
    Step("sanitizer"),
]
PARTS = list(dict.fromkeys(step.part for step in STEPS))
DTYPES = ["bf16", "f16", "f32"]
NEEDS = {"segmentation": "train_segmentation", "tests": "gpu", "dist": "gpu", "sanitizer": "gpu"}  # else gpu_benchmarks


def wanted(call, parts, dtypes):
    """The steps of a call, or all; of these parts, builds only of what they need. `parts` None: all of them."""
    chosen = [step for step in STEPS if call in (0, step.call) and (not parts or step.part in parts or step.part == "build") and
              (step.part != "gpt2" or step.flags.split()[1] in dtypes)]
    if not parts or "build" in parts:
        return chosen
    needed = {NEEDS.get(step.part, "gpu_benchmarks") for step in chosen if step.part != "build"}
    chosen = [step._replace(flags=" ".join(target for target in step.flags.split() if target in needed)) if step.part == "build" else step
              for step in chosen]
    return [step for step in chosen if step.part != "build" or step.flags]


def plan():
    """The two calls as commands, and what each step of theirs may take."""
    lines = []
    for call, limit in LIMITS.items():
        lines.append(f"scripts/gpu --call {call} --deps build/deps.tar.gz --out results/{call}    # {WHAT[call]}, at most {limit} s")
        lines += [f"{step.seconds:6} s  {step}" for step in STEPS if step.call == call]
    return "\n".join(lines)
