"""Runs scripts/check-definitions on a small tree: a name defined in two files is named, what may be is not."""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

SCRIPT = os.path.join(os.path.dirname(__file__), "..", "..", "scripts", "check-definitions")


def check(**files):
    """Exit status and complaints for files of these names, dots written as two underscores."""
    with tempfile.TemporaryDirectory() as folder:
        names = [name.replace("__", ".") for name in files]
        for name, text in zip(names, files.values()):
            with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                file.write(f"namespace headroom {{\n{text}\n}}\n")
        run = subprocess.run([sys.executable, os.path.abspath(SCRIPT), *names], cwd=folder, capture_output=True, text=True)
        return run.returncode, run.stderr


@unittest.skipIf(shutil.which("ctags") is None, "needs ctags; scripts/setup --develop installs it")
class CheckDefinitions(unittest.TestCase):
    def passes(self, **files):
        self.assertEqual(check(**files), (0, ""))

    def fails(self, name, **files):
        status, complaint = check(**files)
        self.assertEqual(status, 1)
        self.assertIn(f"{name} is defined in a.hpp:2, b.", complaint)

    def test_two_types_of_one_name_fail(self):
        self.fails("headroom::Block", a__hpp="struct Block { int x; };", b__hpp="class Block { float y; };")
        self.fails("headroom::Kind", a__hpp="enum class Kind { one };", b__cpp="enum class Kind { two };")

    def test_two_inline_functions_of_one_signature_fail(self):
        self.fails("headroom::f(int x)", a__hpp="inline int f(int x) { return x; }", b__hpp="inline int f(int x) { return -x; }")

    def test_other_namespaces_signatures_and_specialisations_pass(self):
        self.passes(a__hpp="struct Block {};", b__hpp="namespace nn { struct Block {}; }")
        self.passes(a__cpp="namespace { struct Block {}; }", b__cpp="namespace { struct Block { int x; }; }")
        self.passes(a__hpp="inline int f(int x) { return x; }", b__hpp="inline int f(float x) { return 1; }")
        self.passes(a__hpp="template <class T> struct Of;\ntemplate <> struct Of<int> {};", b__hpp="template <> struct Of<float> {};")

    def test_declarations_and_backends_pass(self):
        self.passes(a__hpp="struct Block;", b__hpp="struct Block {};")
        self.passes(cuda_a__cpp="struct Block {};", emulated_a__cpp="struct Block { int x; };", without_cuda__cpp="struct Block { long x; };",
                    counting_a__cpp="struct Block { char x; };", b__cu="struct Block { float x; };")


if __name__ == "__main__":
    unittest.main()
