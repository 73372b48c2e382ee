#!/usr/bin/env python3
"""Writes tests/reference/average_precision.json: objects and detections in a few images, and what pycocotools says of
them: the average precision at an overlap of 0.5, of boxes and of masks.

    pip install pycocotools numpy        # once; written with pycocotools 2.0
    scripts/reference/average_precision.py

Masks are the boxes' pixels but for a corner. Sides are whole, so that the file has masks as boxes and corners.
"""
import contextlib
import io
import json
import pathlib

import numpy as np
from pycocotools import mask as coco_mask
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

FILE = pathlib.Path(__file__).resolve().parents[2] / "tests" / "reference" / "average_precision.json"
RANDOM = np.random.default_rng(20240608)
SIDE, IMAGES, CLASSES = 40, 12, 3


def box_within(low, high):
    x, y = RANDOM.integers(0, SIDE - low, 2)
    return [int(x), int(y), int(min(SIDE, x + RANDOM.integers(low, high))), int(min(SIDE, y + RANDOM.integers(low, high)))]


def moved(box):
    """The box, shifted by up to three pixels at each side."""
    x1, y1, x2, y2 = (int(value + RANDOM.integers(-3, 4)) for value in box)
    x1, y1 = max(0, min(x1, SIDE - 2)), max(0, min(y1, SIDE - 2))
    return [x1, y1, min(SIDE, max(x2, x1 + 1)), min(SIDE, max(y2, y1 + 1))]


def corner(box):
    """Rows and columns that the mask lacks at its upper left."""
    return int(RANDOM.integers(0, box[3] - box[1])), int(RANDOM.integers(0, box[2] - box[0]))


def encoded(box, missing):
    pixels = np.zeros((SIDE, SIDE), np.uint8)
    x1, y1, x2, y2 = box
    pixels[y1:y2, x1:x2] = 1
    pixels[y1:y1 + missing[0], x1:x1 + missing[1]] = 0
    return coco_mask.encode(np.asfortranarray(pixels))


def average_precision(objects, found, kind):
    def entry(number, image, each):
        x1, y1, x2, y2 = each["box"]
        rle = encoded(each["box"], each["missing"])
        return {"id": number + 1, "image_id": image, "category_id": each["label"], "bbox": [x1, y1, x2 - x1, y2 - y1],
                "segmentation": rle, "area": float(coco_mask.area(rle)), "iscrowd": int(each.get("crowd", False)),
                "score": each.get("score")}

    with contextlib.redirect_stdout(io.StringIO()):
        truth = COCO()
        truth.dataset = {"images": [{"id": i, "height": SIDE, "width": SIDE} for i in range(IMAGES)],
                         "categories": [{"id": label} for label in range(1, CLASSES + 1)],
                         "annotations": [entry(n, i, each) for n, (i, each) in enumerate(objects)]}
        truth.createIndex()
        results = COCO()
        results.dataset = {**truth.dataset, "annotations": [entry(n, i, each) for n, (i, each) in enumerate(found)]}
        results.createIndex()
        evaluation = COCOeval(truth, results, kind)
        evaluation.evaluate()
        evaluation.accumulate()
        evaluation.summarize()
    return float(evaluation.stats[1])


def scene():
    objects, found = [], []
    for image in range(IMAGES):
        for _ in range(RANDOM.integers(0, 6)):
            each = {"box": box_within(6, 20), "label": int(RANDOM.integers(1, CLASSES + 1))}
            each["missing"] = corner(each["box"])
            if RANDOM.random() < 0.15:
                each["crowd"] = True
            objects.append((image, each))
            for _ in range(RANDOM.integers(0, 4)):
                label = each["label"] if RANDOM.random() < 0.9 else int(RANDOM.integers(1, CLASSES + 1))
                other = {"box": moved(each["box"]), "label": label, "score": round(float(RANDOM.random()), 2)}
                other["missing"] = tuple(min(a, b) for a, b in zip(each["missing"], corner(other["box"])))
                found.append((image, other))
        for _ in range(RANDOM.integers(0, 3)):
            other = {"box": box_within(6, 20), "label": int(RANDOM.integers(1, CLASSES + 1)),
                     "score": round(float(RANDOM.random()), 2)}
            found.append((image, {**other, "missing": corner(other["box"])}))
    return objects, found


def main():
    scenes = []
    for _ in range(4):
        objects, found = scene()
        scenes.append({"side": SIDE, "images": IMAGES,
                       "objects": [{"image": image, **each} for image, each in objects],
                       "found": [{"image": image, **each} for image, each in found],
                       "boxes": average_precision(objects, found, "bbox"),
                       "masks": average_precision(objects, found, "segm")})
    FILE.write_text("[\n" + ",\n".join(json.dumps(each, separators=(",", ":")) for each in scenes) + "]\n")


if __name__ == "__main__":
    main()
