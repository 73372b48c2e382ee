"""train_mnist, the loop by hand, as a whole: on synthetic images, and on real ones where they are."""
import gzip
import os
import shutil
import unittest

from idx_files import images, labels
from program import ProgramCase, data_file


class TrainMnist(ProgramCase):
    program = "train_mnist"

    @classmethod
    def dataset(cls, name, image_bytes, label_bytes, compressed=True):
        os.makedirs(cls.path(name))
        end = ".gz" if compressed else ""
        pack = gzip.compress if compressed else bytes
        cls.write(f"{name}/t10k-images-idx3-ubyte{end}", pack(image_bytes))
        cls.write(f"{name}/t10k-labels-idx1-ubyte{end}", pack(label_bytes))
        return cls.path(name)

    def test_learns_and_reports_whether_files_are_compressed_or_not(self):
        figures = self.figures("--data", self.dataset("data", images(250), labels(250)))
        self.assertGreater(figures["val_accuracy"], 0.9)  # 0.1 by chance
        self.assertLess(figures["train_loss"], 0.5)  # log(10) = 2.3 at first
        self.assertGreater(figures["seconds"], 0)
        self.assertEqual(figures["parameters"], 785 * 512 + 513 * 512 + 513 * 10)
        self.assertEqual(figures["steps"], 60)  # 30 epochs of two batches
        plain = self.figures("--data", self.dataset("plain", images(250), labels(250), compressed=False))
        self.assertEqual({**plain, "seconds": 0}, {**figures, "seconds": 0})

    def test_other_images_validate_than_train(self):
        wrong = bytes((i + 1) % 10 for i in range(60))
        apart = self.dataset("apart", images(60), labels(60)[:8] + wrong)
        self.write("apart/train-images-idx3-ubyte", images(200))
        self.write("apart/train-labels-idx1-ubyte", labels(200))
        split = self.dataset("split", images(250), labels(250)[:-25] + bytes((i + 1) % 10 for i in range(225, 250)))
        for data in (apart, split):
            figures = self.figures("--data", data)
            self.assertLess(figures["train_loss"], 1)
            self.assertLess(figures["val_accuracy"], 0.1)

    def test_failures_are_said(self):
        self.fails(1, ["--data", self.path("missing")], "missing")
        self.fails(1, ["--data", self.dataset("text", b"no images", labels(250))], "t10k-images")
        data = self.dataset("few", images(250), labels(250))
        self.fails(1, ["--data", data, "--json", self.path("no/such.json")], "--json", "no/such.json")
        for flags in ([], ["--data", data, "--bogus"]):
            self.assertNotEqual(self.run_program(*flags).returncode, 0)

    def test_real_images(self):
        files = [data_file(name) for name in ("t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz")]
        if not all(files):
            self.skipTest("no MNIST in ../shared/data or HEADROOM_DATA")
        os.makedirs(self.path("real"))
        for file in files:
            shutil.copy(file, self.path("real"))
        self.assertGreater(self.figures("--data", self.path("real"))["val_accuracy"], 0.95)


if __name__ == "__main__":
    unittest.main()
