"""A launch whose blocks `grid_for` counts says that the kernel loops: a GPU then starts no more blocks than it runs at once."""
import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
CALL = re.compile(r"(\w+) = (?:device::)?grid_for\(")


class Launches(unittest.TestCase):
    def test_a_grid_for_a_loop_is_launched_as_one(self):
        calls = 0
        for file in sorted((ROOT / "kernels").rglob("*.cu*")):
            text = file.read_text(encoding="utf-8")
            for call in CALL.finditer(text):
                launch = call.start()
                if call[1] != "x":  # a variable of the launch behind it
                    launch = text.index(f".x = {call[1]},", launch)
                with self.subTest(place=f"{file.relative_to(ROOT)}:{text.count(chr(10), 0, call.start()) + 1}"):
                    self.assertIn(".loops = true", text[launch:text.index(";", launch)])
                calls += 1
        self.assertGreater(calls, 30)


if __name__ == "__main__":
    unittest.main()
