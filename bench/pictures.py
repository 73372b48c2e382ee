"""The pictures of docs/models.md: the programs train by their defaults and draw what the models make of images that they have
not seen; some of it goes side by side into one file for each program. Takes five minutes on two idle cores. Needs Pillow:

    pip install pillow
    python3 bench/pictures.py --data FOLDER --examples build/release/examples --out docs
"""

import argparse
import os
import pathlib
import subprocess
import tempfile

from PIL import Image

GAP = 6
# How many pictures, in how many columns, and by what the programs' are made smaller.
SHEETS = {"images": (12, 6, 1), "segmentation": (4, 2, 2), "detection": (4, 2, 1)}


def drawn(command):
    """What a program draws, in the order of the names."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([*command, "--pictures", folder], check=True)
        return [Image.open(path).convert("RGB") for path in sorted(pathlib.Path(folder).glob("*.png"))]


def sheet(pictures, columns, smaller):
    """All of one size, row by row, in 32 colours."""
    pictures = [picture.reduce(smaller) for picture in pictures]
    width, height = (side + GAP for side in pictures[0].size)
    whole = Image.new("RGB", (columns * width - GAP, -(-len(pictures) // columns) * height - GAP), "white")
    for i, picture in enumerate(pictures):
        whole.paste(picture, (i % columns * width, i // columns * height))
    return whole.quantize(32, dither=Image.Dither.NONE)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--examples", required=True, help="folder with the programs")
    parser.add_argument("--data", required=True, help="MNIST's t10k-* files")
    parser.add_argument("--out", required=True, help="folder for models_*.png")
    parser.add_argument("--only", nargs="+", choices=list(SHEETS), default=list(SHEETS))
    flags = parser.parse_args()
    for what in flags.only:
        count, columns, smaller = SHEETS[what]
        command = [os.path.join(flags.examples, f"train_{what}"), *(["--data", flags.data] if what == "images" else [])]
        path = pathlib.Path(flags.out) / f"models_{what}.png"
        sheet(drawn(command)[:count], columns, smaller).save(path, optimize=True)
        print(f"{path}: {path.stat().st_size // 1024} KiB", flush=True)


if __name__ == "__main__":
    main()
