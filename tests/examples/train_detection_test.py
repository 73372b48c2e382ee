"""train_detection as a whole, on drawn shapes and on a few images that are annotated as COCO's."""
import glob
import json
import os
import struct
import unittest
import zlib

from program import ProgramCase


def png(height, width, shade):
    def chunk(kind, contents):
        return struct.pack(">I", len(contents)) + kind + contents + struct.pack(">I", zlib.crc32(kind + contents))

    rows = b"".join(b"\0" + bytes((shade + 3 * row + column) % 256 for column in range(width)) for row in range(height))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)) +
            chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


class TrainDetection(ProgramCase):
    program = "train_detection"
    flags = ("--height", "64", "--width", "96", "--images", "8", "--validation", "3", "--steps", "3", "--batch", "2",
             "--pyramid", "8", "--hidden", "16", "--regions", "8", "--objects", "3", "--threads", "2")

    @classmethod
    def command(cls, *flags):
        """Without --images where there is --data, and without --steps where there is --epochs."""
        words = super().command(*flags)
        for given, other in (("--data", "--images"), ("--epochs", "--steps")):
            if given in flags and other in words and other not in flags:
                at = words.index(other)
                del words[at:at + 2]
        return words

    @classmethod
    def dataset(cls, name, count=5, each=None, **change):
        """Images of 40 x 60 pixels with two objects each, of two classes. `change`: fields of the first annotation; `each`: of all."""
        os.makedirs(cls.path(name))
        annotations = []
        for i in range(count):
            cls.write(f"{name}/{i}.png", png(40, 60, 40 * i))
            for j in range(2):
                x, y = 5 + 20 * j, 3 + 2 * i
                annotations.append({"id": 10 * i + j, "image_id": i, "category_id": 4 + j, "bbox": [x, y, 16, 20],
                                    "segmentation": [[x, y, x + 16, y, x + 8, y + 20]]})
        for annotation in annotations:
            annotation |= each or {}
        annotations[0] |= change
        cls.write(f"{name}/instances.json", json.dumps({
            "images": [{"id": i, "file_name": f"{i}.png", "height": 40, "width": 60} for i in range(count)],
            "categories": [{"id": 4, "name": "cat"}, {"id": 5, "name": "dog"}], "annotations": annotations}))
        return cls.path(name)

    def test_learns_predicts_and_draws(self):
        folder = self.path("pictures")
        figures = self.figures("--images", 40, "--lr", 0.002, "--warmup", 0, "--steps", 30, "--pictures", folder)
        self.assertLess(figures["val_loss"], 2.5)  # log(4) + 2 log(2) = 2.8 at first, without the boxes' losses
        for name in ("ap50", "mask_ap50"):
            self.assertTrue(0 <= figures[name] <= 1, figures)
        self.expect_predicted(figures)
        self.assertEqual(len(glob.glob(os.path.join(folder, "*.png"))), 2)
        self.assertTrue(os.path.exists(os.path.join(folder, "loss.svg")))

    def test_logs_have_the_losses_of_which_each_steps_is_the_sum(self):
        for model, names in (("maskrcnn", ("objectness", "rpn_box", "classifier", "box", "mask")),
                             ("fasterrcnn", ("objectness", "rpn_box", "classifier", "box"))):
            lines = [line for line in self.logged("--model", model, "--accumulate", 2) if "train/loss" in line]
            self.assertEqual(len(lines), 3)
            for line in lines:
                self.assertEqual({name for name in line if name.startswith("train/")},
                                 {f"train/{name}" for name in ("loss", "gradient_norm", "learning_rate", *names)})
                total = sum(line[f"train/{name}"] for name in names)
                self.assertAlmostEqual(line["train/loss"], total, delta=20 * 2**-24 * total)  # sums of five in f32

    def test_validations_change_no_bit_of_a_training(self):
        self.expect_validations_change_nothing()

    def test_validations_see_no_augmentation(self):
        data = self.dataset("alike", 8)
        with open(self.path("alike/instances.json"), encoding="utf-8") as file:
            contents = json.load(file)
        for i, annotation in enumerate(contents["annotations"]):
            annotation |= {name: contents["annotations"][i % 2][name] for name in ("category_id", "bbox", "segmentation")}
        self.write("alike/instances.json", json.dumps(contents))
        for i in range(8):
            self.write(f"alike/{i}.png", png(40, 60, 0))
        folder = self.path("alike/pictures")
        self.succeeds("--data", data, "--validation", 4, "--batch", 4, "--steps", 0, "--pictures", folder)
        pictures = []
        for path in glob.glob(os.path.join(folder, "*.png")):  # of the images as they are validated, and of what is there
            with open(path, "rb") as file:
                pictures.append(file.read())
        self.assertEqual(len(pictures), 4)
        self.assertEqual(len(set(pictures)), 1)

    def test_other_images_validate_than_train(self):
        data = self.dataset("split", 4)
        others = {f"{data}/{i}.png": png(40, 60, 40 * i + 100) for i in range(4)}
        self.expect_each_image_in_one_split(others, 1, "--data", data, "--validation", 1, "--batch", 3)

    def test_an_epoch_takes_whole_batches(self):
        for flags, steps in ((("--batch", 3, "--epochs", 2), 4), (("--batch", 2, "--accumulate", 3, "--epochs", 1), 1)):
            self.assertEqual(self.figures(*flags)["steps"], steps)

    def test_a_stopped_and_resumed_training_is_the_uninterrupted_one(self):
        file = self.path("stopped.safetensors")
        whole = self.figures()
        self.succeeds("--stop-after", 1, "--save", file)
        resumed = self.figures("--resume", file, "--workers", 0)
        for figure in ("state_sha256", "val_loss", "ap50"):
            self.assertEqual(resumed[figure], whole[figure])
        self.fails(1, ["--resume", file, "--regions", 4], "regions 8, not 4")

    def test_recomputing_changes_no_bit(self):
        whole = self.figures()
        for recompute in ("cheap", "blocks"):
            figures = self.figures("--recompute", recompute)
            self.assertEqual(figures["state_sha256"], whole["state_sha256"])
            self.expect_predicted(figures)

    def test_other_numbers_are_predicted_too(self):
        self.expect_predicted(self.figures("--model", "fasterrcnn", "--accumulate", 3, "--batch", 1, "--steps", 2,
                                           "--height", 70))
        figures = self.figures("--device", "dry", "--backbone", "resnet50")
        self.assertGreater(figures["parameters"], 23_000_000)
        self.assertNotIn("ap50", figures)

    def test_images_annotated_as_coco(self):
        data = self.dataset("coco")
        file = self.path("figures.json")
        printed = self.succeeds("--data", data, "--validation", 1, "--steps", 1, "--json", file)
        self.assertIn("4 images of 2 classes to train on, 1 others to validate", printed)
        with open(file, encoding="utf-8") as stream:
            self.expect_predicted(json.load(stream))
        saved = self.path("coco.safetensors")
        self.succeeds("--data", data, "--validation", 1, "--steps", 1, "--save", saved)
        self.assertIn("step 2/2", self.succeeds("--data", data, "--validation", 1, "--steps", 2, "--resume", saved))

    def test_odd_annotations_are_left_out_counted_and_said(self):
        polygons = [[5, 3, 21, 3, 13, 23], [5, 3, 6, 4]]
        for i, (change, what) in enumerate((
                ({"bbox": [5, 3, 16, 0]}, "; 1 annotation left out, such as .*: annotation 0: the box .* has no area"),
                ({"bbox": [70, 3, 16, 5]}, "; 1 annotation left out, such as .*: annotation 0: the box .* is outside"),
                ({"segmentation": []}, "; 1 annotation left out, such as .*: annotation 0 has no mask"),
                ({"image_id": 77}, "; 1 annotation left out, such as .*: annotation 0 belongs to image 77, which is missing"),
                ({"category_id": 9}, "; 1 annotation left out, such as .*: annotation 0 has category 9"),
                ({"segmentation": {"size": [40, 60], "counts": [0, 100]}}, "; 1 annotation left out, .* runs of 100 pixels"),
                ({"segmentation": polygons}, "; of 1 annotation some polygons are left out, such as .*: annotation 0: a polygon needs .* and has 4"))):
            data = self.dataset(f"odd{i}", **change)
            trained = () if i > 4 else ("--device", "dry")  # those of odd masks; a rehearsal reads the same
            printed = self.succeeds("--data", data, "--validation", 1, "--steps", 1, *trained)
            self.assertIn("4 images of 2 classes to train on, 1 others to validate", printed)
            self.assertRegex(printed, what)
        self.assertIn("left out", self.succeeds("--data", self.path("odd0"), "--skip-bad-boxes", "--device", "dry"))  # of old scripts

    def test_values_are_read_as_python_reads_them(self):
        data = self.dataset("plain")
        whole = self.figures("--data", data, "--validation", 1, "--steps", 1)["state_sha256"]
        with open(self.path("plain/instances.json"), encoding="utf-8") as file:
            contents = json.load(file)
        for crowd in (None, False, 0.0):
            for annotation in contents["annotations"]:
                annotation |= {"iscrowd": crowd, "image_id": float(annotation["image_id"]), "category_id": str(annotation["category_id"])}
            for image in contents["images"]:
                image |= {"height": 40.0, "width": 60.0}
            self.write("plain/instances.json", json.dumps(contents))
            self.runs.clear()
            self.assertEqual(self.figures("--data", data, "--validation", 1, "--steps", 1)["state_sha256"], whole)

    def test_objects_that_have_no_place_are_said(self):
        data = self.dataset("many")
        with open(self.path("many/instances.json"), encoding="utf-8") as file:
            contents = json.load(file)
        contents["annotations"] += [contents["annotations"][0] | {"id": 100 + i} for i in range(299)]
        self.write("many/instances.json", json.dumps(contents))
        flags = ("--data", data, "--validation", 1, "--steps", 1, "--device", "dry")
        self.assertIn("; 298 objects left out, the smallest of images with more than --objects 3", self.succeeds(*flags))
        self.assertNotIn("left out", self.succeeds(*flags, "--objects", 301))

    def test_data_that_cannot_be_used(self):
        self.fails(1, ["--data", self.path("missing")], "missing", "is not a folder")
        masks = self.dataset("masks", each={"segmentation": []})
        self.fails(1, ["--data", masks], "has no object to learn; 10 annotations left out", "annotation 0 has no mask",
                   "; --model fasterrcnn learns boxes without masks")
        self.succeeds("--data", masks, "--model", "fasterrcnn", "--steps", 1)
        away = self.dataset("away", each={"image_id": 9})
        self.assertNotIn("fasterrcnn", self.fails(1, ["--data", away], "has no object to learn", "annotation 0 belongs to image 9"))
        nothing = self.dataset("nothing", count=2)
        self.write("nothing/instances.json", json.dumps({
            "images": [{"id": i, "file_name": f"{i}.png", "height": 40, "width": 60} for i in range(2)],
            "categories": [{"id": 4, "name": "cat"}], "annotations": []}))
        self.fails(1, ["--data", nothing], "instances.json", "has no object to learn")
        good = self.dataset("good")
        self.fails(1, ["--data", good, "--classes", 2], "dog", "not in 1 to 1")
        self.fails(1, ["--data", good, "--validation", 5], "--validation 5", "none is left to train on")
        self.fails(1, ["--data", good, "--batch", 3], "--batch 3", "2 images to train on")
        self.write("good/0.png", png(40, 61, 0))
        self.fails(1, ["--data", good, "--steps", 4], "0.png", "is 61 wide, 40 high", "1 of 5 images can't be used")
        os.remove(self.path("good/0.png"))
        self.fails(1, ["--data", good, "--steps", 4], "0.png: no such file", "1 of 5 images can't be used")
        printed = self.succeeds("--data", good, "--steps", 4, "--validation", 1, "--skip-bad-images")
        self.assertIn("0.png: no such file", printed)
        self.fails(2, ["--skip-bad-images"], "--skip-bad-images", "--data")
        self.write("good/other.json", "{}")
        self.fails(1, ["--data", good], "several JSON files", "--annotations")

    def test_a_validation_of_one_class_says_so(self):
        data = self.dataset("onesided")
        with open(self.path("onesided/instances.json"), encoding="utf-8") as file:
            contents = json.load(file)
        for annotation in contents["annotations"]:
            annotation["category_id"] = 4
        self.write("onesided/instances.json", json.dumps(contents))
        flags = ("--data", data, "--validation", 1, "--steps", 1)
        self.assertRegex(self.succeeds(*flags), r"AP50 \d+\.\d\d%; only class cat occurs in it\n")
        del contents["categories"][1]
        self.write("onesided/instances.json", json.dumps(contents))
        self.assertNotIn("occurs", self.succeeds(*flags))
        contents["annotations"] = contents["annotations"][:1]
        self.write("onesided/instances.json", json.dumps(contents))
        printed = self.succeeds(*flags, "--seed", 3) + self.succeeds(*flags, "--seed", 4)
        self.assertIn("; no class occurs in it\n", printed)

    def test_given_weights_are_the_beginning(self):
        saved = self.path("saved.safetensors")
        whole = self.figures("--steps", 1, "--save", saved)
        flags = ("--from", saved, "--steps", 0)
        self.assertEqual(self.figures(*flags)["val_loss"], whole["val_loss"])
        printed = self.succeeds(*flags, "--classes", 6, "--device", "dry")
        self.assertIn(f"; the head stays as initialised: that of {saved} is not for 6 classes", printed)
        self.succeeds(*flags, "--model", "fasterrcnn")
        self.fails(2, [*flags, "--hidden", 17], "--hidden 17", "it is 16")
        self.fails(2, [*flags, "--backbone", "resnet50"], "--backbone resnet50", "it is resnet18")
        self.fails(1, ["--from", self.path("missing.safetensors")], "missing.safetensors")

    def test_labels_are_ids_where_the_head_has_torchvisions_classes(self):
        data = self.dataset("ids")  # categories 4 and 5
        with open(self.path("ids/instances.json"), encoding="utf-8") as file:
            contents = json.load(file)
        others = [{"id": i, "name": f"other {i}"} for i in (1, 2, 3)]
        filled = self.write("filled.json", json.dumps({**contents, "categories": others + contents["categories"]}))
        beyond = self.write("beyond.json", json.dumps({**contents, "categories": [*contents["categories"], {"id": 91, "name": "far"}]}))
        saved = self.path("coco.safetensors")
        self.succeeds("--data", data, "--validation", 1, "--classes", 91, "--steps", 1, "--save", saved)
        flags = ("--data", data, "--validation", 1, "--from", saved, "--steps", 0)
        dry = ("--device", "dry")  # which says as much of labels and heads
        ids = self.figures(*flags)["val_loss"]
        self.assertEqual(ids, self.figures(*flags, "--annotations", filled, "--labels", "order", "--classes", 91)["val_loss"])
        self.assertNotEqual(ids, self.figures(*flags, "--labels", "order", "--classes", 91)["val_loss"])
        printed = self.succeeds(*flags, *dry)
        self.assertIn(f"labels are the categories' ids, as in the head of {saved}, which has 91 classes; --labels order", printed)
        self.assertNotIn("as initialised:", printed)
        for more in (("--labels", "order"), ("--classes", 6), ("--labels", "ids", "--classes", 92)):
            printed = self.succeeds(*flags, *more, *dry)
            self.assertIn(f"; the head stays as initialised: that of {saved} is not for", printed)
            self.assertNotIn("labels are", printed)
        self.fails(1, [*flags, "--annotations", beyond], 'category 91 ("far") has the label 91, which is not in 1 to 90',
                   "; --labels order numbers the categories 1, 2, ... instead")
        self.assertEqual(self.figures(*flags[:4], "--steps", 0, "--labels", "ids", *dry)["parameters"],
                         self.figures(*flags[:4], "--steps", 0, "--classes", 6, *dry)["parameters"])
        stopped = self.path("stopped_ids.safetensors")
        self.succeeds(*flags[:-1], 2, "--stop-after", 1, "--save", stopped)
        self.assertEqual(self.figures(*flags[:4], "--steps", 2, "--resume", stopped)["state_sha256"], self.figures(*flags[:-1], 2)["state_sha256"])
        self.succeeds("--from", saved, "--steps", 0)  # of drawn shapes labels have no ids

    def test_wrong_usage(self):
        for flags in (["--regions", 0], ["--height", 8], ["--classes", 1], ["--model", "yolo"], ["--objects", 0]):
            self.fails(2, flags, flags[0])
        self.fails(2, ["--annotations", "a.json"], "--annotations", "--data")


if __name__ == "__main__":
    unittest.main()
