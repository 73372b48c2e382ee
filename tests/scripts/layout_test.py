"""The folder include/headroom: links by which an editor finds the headers before anything was built.

compile_flags.txt alone names it. A compile command that did would let a source include what does not lie below it.
"""
import json
import os
import pathlib
import re
import subprocess
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
LINKS = ROOT / "include" / "headroom"
INCLUDE = re.compile(r"^\s*#\s*include\s*<headroom/([^>]+)>", re.MULTILINE)
GENERATED = {"headroom.hpp", "config.hpp", "version.hpp"}  # by CMake


def libraries():
    return re.findall(r"^headroom_library\((\w+)", (ROOT / "CMakeLists.txt").read_text(encoding="utf-8"), re.MULTILINE)


class Layout(unittest.TestCase):
    def test_every_library_has_a_link(self):
        self.assertGreater(len(libraries()), 5)
        self.assertEqual({path.name for path in LINKS.iterdir()}, {*libraries(), "tests", "bench", "examples"})

    def test_links_are_relative_and_lead_to_the_folders_of_the_root(self):
        for path in LINKS.iterdir():
            self.assertEqual(os.readlink(path), f"../../{path.name}")
            self.assertTrue(path.is_dir(), path)

    def test_every_include_of_a_library_is_found_by_them(self):
        includes = 0
        for library in libraries():
            headers = [*(ROOT / library).rglob("*.hpp"), *(ROOT / library).rglob("*.cuh")]
            self.assertTrue(headers, library)
            for header in headers:
                for name in INCLUDE.findall(header.read_text(encoding="utf-8")):
                    with self.subTest(header=header.relative_to(ROOT), include=name):
                        self.assertNotIn(name, GENERATED)
                        self.assertTrue((LINKS / name).is_file())
                    includes += 1
        self.assertGreater(includes, 500)

    def test_an_editor_compiles_a_public_header_with_its_flags(self):
        flags = (ROOT / "compile_flags.txt").read_text(encoding="utf-8").split()
        self.assertIn("-Iinclude", flags)
        for header in ("memory/device_memory.hpp", "core/tensor.hpp"):
            subprocess.run(["c++", *flags, "-fsyntax-only", "-x", "c++", "-include", header, "/dev/null"], cwd=ROOT, check=True)

    def test_no_compile_command_names_them(self):
        file = pathlib.Path(os.environ["HEADROOM_BUILD_DIR"]) / "compile_commands.json"
        commands = json.loads(file.read_text(encoding="utf-8"))
        self.assertGreater(len(commands), 100)
        own = 0
        for command in commands:
            folders = re.findall(r"-(?:I|isystem) ?(\S+)", command["command"])
            own += any(folder.endswith("/include/memory") for folder in folders)
            named = [folder for folder in folders if (pathlib.Path(command["directory"]) / folder).resolve() == ROOT / "include"]
            self.assertEqual(named, [], command["file"])
        self.assertGreater(own, 100)


if __name__ == "__main__":
    unittest.main()
