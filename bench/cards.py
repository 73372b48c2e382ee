"""The largest published GPT-2 that trains on each of five graphics cards, as what_fits rehearses it: no card is needed, and
nothing is measured. A step is 32 sequences of 1,024 tokens, with products in f16 and AdamW.

    python3 bench/cards.py --what-fits build/release/examples/what_fits --out bench/results
"""

import argparse

from runs import figures_of, write_result

SIZES = {"GPT-2 medium, 355M": (24, 1024), "GPT-2 large, 774M": (36, 1280), "GPT-2 XL, 1.5B": (48, 1600)}
CARDS = ("--gpu-memory", "8GB", "--gpu", "RTX 2080 Ti,RTX 3060,T4,RTX 3090")
STEP = ("--block", "1024", "--classes", "50257", "--batch", "32", "--dtype", "f16", "--methods", "none,blocks,plan", "--largest", "batch")


def rows_of(what_fits, name):
    layers, width = SIZES[name]
    print(name, flush=True)
    figures = figures_of([what_fits, "--model", "gpt", "--layers", str(layers), "--width", str(width), *STEP, *CARDS])
    for row in figures["rows"]:
        yield {**row, "model": name, "layers": layers, "width": width}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--what-fits", required=True, help="the program")
    parser.add_argument("--out", required=True, help="folder for the result file")
    flags = parser.parse_args()
    rows = [row for name in SIZES for row in rows_of(flags.what_fits, name)]
    write_result(flags.out, "cards.json", {"what": "which GPT-2 trains on which card, as rehearsed; nothing is measured",
                                           "flags": " ".join((*STEP, *CARDS)), "rows": rows})


if __name__ == "__main__":
    main()
