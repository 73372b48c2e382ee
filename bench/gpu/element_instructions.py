#!/usr/bin/env python3
"""Counts the instructions that an element of bf16 costs on a GPU, by disassembling; needs nvcc and cuobjdump, no GPU.

    bench/gpu/element_instructions.py --headers build/release/include [--before OTHER/include] [--out FILE.json]

`--headers` is a build's folder of includes (memory/, kernels/); `--before` that of another state, to compare with.
Counted is the straight path to the kernel's first unconditional EXIT: addresses, loads and stores included, calls of
slow paths (of a division, say) as one instruction.
"""
import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from runs import headed, text_of  # noqa: E402

SOURCE = pathlib.Path(__file__).with_suffix(".cu")
ELEMENTS = 8


def disassembled(options, headers, folder):
    cubin = pathlib.Path(folder) / "count.cubin"
    subprocess.run([options.nvcc, "-std=c++20", "-O3", f"-arch={options.architecture}", "--expt-relaxed-constexpr",
                    f"-I{headers}/memory", f"-I{headers}/kernels", "-cubin", "-o", cubin, SOURCE], check=True)
    return subprocess.run([options.cuobjdump, "-sass", cubin], check=True, capture_output=True, text=True).stdout


def counted(text):
    """By direction and function: what one element takes, and how much of it special function units do."""
    results = {"forward": {}, "backward": {}}
    for part in text.split("Function : ")[1:]:
        direction, function = re.match(r"\S*?(forward|backward)INS\w+?_\d+(\w+?)E+v", part).groups()
        instructions = re.findall(r"^\s+/\*[0-9a-f]{4,}\*/\s+(.*?);", part, re.MULTILINE)
        end = next(i for i, instruction in enumerate(instructions) if instruction.strip() == "EXIT")
        special = sum("MUFU" in instruction for instruction in instructions[:end])
        results[direction][function] = {"instructions": round((end + 1) / ELEMENTS, 1),
                                        "special": round(special / ELEMENTS, 1)}
    return results


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--headers", required=True)
    parser.add_argument("--before")
    parser.add_argument("--architecture", default="sm_90")
    parser.add_argument("--nvcc", default="nvcc")
    parser.add_argument("--cuobjdump", default="cuobjdump")
    parser.add_argument("--out")
    options = parser.parse_args()
    version = subprocess.run([options.nvcc, "--version"], check=True, capture_output=True, text=True).stdout
    result = {"what": "instructions of pointwise kernels for an element, by disassembly", "nvcc": re.search(r"V(\d\S+)", version)[1],
              "architecture": options.architecture, "dtype": "bf16"}
    with tempfile.TemporaryDirectory() as folder:
        result["now"] = counted(disassembled(options, options.headers, folder))
        if options.before:
            result["before"] = counted(disassembled(options, options.before, folder))
    text = text_of(headed(result)) + "\n"
    if options.out:
        pathlib.Path(options.out).write_text(text)
    print(text, end="")


if __name__ == "__main__":
    main()
