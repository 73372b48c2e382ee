#!/usr/bin/env python3
"""Writes tests/reference/coco.json: annotations as COCO has them, each with the mask that pycocotools makes of it.

    pip install pycocotools numpy        # once; written with pycocotools 2.0
    scripts/reference/coco.py

The file is one that data::CocoImages reads; each annotation has "expected" beside its own keys, the lengths of the runs of
its mask. tests/data/coco_test.cpp makes the images.
"""
import json
import pathlib

import numpy as np
from pycocotools import mask as coco

FILE = pathlib.Path(__file__).resolve().parents[2] / "tests" / "reference" / "coco.json"
RANDOM = np.random.default_rng(20240607)


def runs(pixels):
    """Of a mask, down the columns, zeros first."""
    flat = pixels.flatten(order="F")
    edges = np.flatnonzero(np.diff(np.concatenate([[0], flat, [1 - flat[-1]]])))
    lengths = np.diff(np.concatenate([[0], edges]))
    return [int(length) for length in lengths]


def polygon(height, width, points):
    """Coordinates with one or two digits, as annotators have them; some reach out of the image."""
    xy = RANDOM.uniform(-0.15, 1.15, (points, 2)) * (width, height)
    return [float(value) for value in np.round(xy, int(RANDOM.integers(1, 3))).flatten()]


def main():
    images = [{"id": 7, "file_name": "a.png", "height": 37, "width": 53},
              {"id": 3, "file_name": "b.png", "height": 64, "width": 20},
              {"id": 12, "file_name": "empty.png", "height": 8, "width": 9}]
    annotations = []
    for i in range(48):
        image = images[i % 2]
        height, width = image["height"], image["width"]
        if i % 4 < 2:
            shape = [polygon(height, width, int(RANDOM.integers(3, 9))) for _ in range(1 + i % 3)]
            if i == 4:
                shape = [[0, 0, width, 0, width, height, 0, height]]
            encoded = coco.merge(coco.frPyObjects(shape, height, width))
        else:
            blob = (RANDOM.random((height, width)) < 0.3).astype(np.uint8)
            blob[3:height // 2, 4:width // 2] = 1
            encoded = coco.encode(np.asfortranarray(blob))
            counts = encoded["counts"].decode() if i % 4 == 2 else runs(blob)
            shape = {"size": [height, width], "counts": counts}
        annotations.append({"id": 1000 + i, "image_id": image["id"], "category_id": [90, 1, 18][i % 3],
                            "iscrowd": int(i % 8 == 7), "bbox": [1.5, 2.25, 10, 20.5], "segmentation": shape,
                            "expected": runs(coco.decode(encoded))})
    categories = [{"id": 18, "name": "dog"}, {"id": 1, "name": "person"}, {"id": 90, "name": "toothbrush"}]
    lines = ",\n".join(json.dumps(annotation, separators=(",", ":")) for annotation in annotations)
    FILE.write_text(f'{{"info":{{"images":"none"}},"annotations":[\n{lines}],\n"images":{json.dumps(images)},\n'
                    f'"categories":{json.dumps(categories)}}}\n')


if __name__ == "__main__":
    main()
