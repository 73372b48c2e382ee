"""What every program does where its standard output or error can't be written: ends with its own code, never abruptly, and
not with success if results are lost."""
import os
import subprocess
import unittest

from program import EXAMPLES, ProgramCase

PROGRAMS = ("train_gpt", "train_text", "train_images", "train_segmentation", "train_detection", "memory_speed",
            "what_fits")


class StandardFiles(ProgramCase):
    def code(self, command, where):
        """The exit code that a shell reports."""
        return subprocess.run(["bash", "-c", f'"$@" {where}', "bash", *map(str, command)], capture_output=True, check=False).returncode

    def test_errors_that_nobody_can_read_have_their_code(self):
        for program in PROGRAMS:
            path = os.path.join(EXAMPLES, program)
            for where in ("2>&-", "2>/dev/full", ">&- 2>&-"):
                self.assertEqual(self.code([path, "--nonsense"], where), 2, (program, where))

    def test_failures_that_nobody_can_read_have_their_code(self):
        missing = [os.path.join(EXAMPLES, "train_gpt"), "--data", self.path("missing")]
        for where in ("2>&-", "2>/dev/full"):
            self.assertEqual(self.code(missing, where), 1, where)
        memory = [os.path.join(EXAMPLES, "train_gpt"), "--data", __file__, "--memory-limit", "4MiB", "--device", "dry"]
        self.assertEqual(self.code(memory, "2>&-"), 3)

    def test_results_that_are_lost_are_a_failure(self):
        for program in PROGRAMS:
            path = os.path.join(EXAMPLES, program)
            for where in (">&-", ">/dev/full"):
                self.assertEqual(self.code([path, "--help"], where), 1, (program, where))
        dry = [os.path.join(EXAMPLES, "train_gpt"), "--data", __file__, "--device", "dry", "--layers", 1]
        self.assertEqual(self.code(dry, ""), 0)
        for where in (">&-", ">/dev/full"):
            self.assertEqual(self.code(dry, where), 1, where)

    def test_a_closed_error_stream_is_not_taken_for_a_file(self):
        saved = self.path("saved.safetensors")
        command = [os.path.join(EXAMPLES, "train_gpt"), "--data", __file__, "--layers", 1, "--heads", 1, "--width", 8, "--block", 8,
                   "--steps", 2, "--save", saved]
        self.assertEqual(self.code(command, ""), 0)
        with open(saved, "rb") as file:
            contents = file.read()
        self.assertEqual(self.code(command, "<&- 2>&-"), 0)
        with open(saved, "rb") as file:
            self.assertEqual(file.read(), contents)


if __name__ == "__main__":
    unittest.main()
