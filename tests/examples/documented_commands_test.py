"""Each command of README.md and docs/ that runs a program has flags that this program takes, in that combination."""
import glob
import os
import re
import shlex
import subprocess
import tempfile
import unittest

from program import EXAMPLES, SOURCE

REFUSED_FLAGS = 2
OPERATORS = {"|", ">", "<", ";", "&", "&&", "||"}


def commands(page):
    """(program, flags) of each line of the page's code blocks that runs a program of examples/, whatever starts it."""
    with open(page, encoding="utf-8") as stream:
        blocks = re.findall(r"^```\w*\n(.*?)^```", stream.read(), re.MULTILINE | re.DOTALL)
    for line in "".join(blocks).replace("\\\n", " ").split("\n"):
        name = re.search(r"(?:^|\s)(?:build/release/examples/)?(train_\w+|what_fits|memory_speed) +(--.*)", line)
        if not name:
            continue
        reads = shlex.shlex(name[2], posix=True, punctuation_chars=True)
        reads.commenters = "#"
        flags = list(reads)
        end = next((i for i, word in enumerate(flags) if word in OPERATORS), len(flags))
        yield name[1], flags[:end]


class Documents(unittest.TestCase):
    def test_show_commands_that_programs_take(self):
        pages = [os.path.join(SOURCE, "README.md"), *sorted(glob.glob(os.path.join(SOURCE, "docs", "**", "*.md"), recursive=True))]
        found = 0
        for page in pages:
            for program, flags in commands(page):
                found += 1
                with self.subTest(page=os.path.relpath(page, SOURCE), program=program, flags=" ".join(flags)), tempfile.TemporaryDirectory() as folder:
                    # In an empty folder, its results in one that is not there: it reads its flags, and does nothing else.
                    ends = [] if "--json" in flags else ["--json", os.path.join(folder, "none", "figures.json")]
                    run = subprocess.run([os.path.abspath(os.path.join(EXAMPLES, program)), *flags, *ends], cwd=folder,
                                         capture_output=True, text=True, check=False)
                    self.assertNotIn(run.returncode, (0, REFUSED_FLAGS), run.stderr)
        self.assertGreater(found, 30)


if __name__ == "__main__":
    unittest.main()
