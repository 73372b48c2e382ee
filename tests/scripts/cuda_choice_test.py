"""cmake/HeadroomGpu.cmake: device code for the GPU that is there, none where there is none."""
import os
import pathlib
import subprocess
import tempfile
import unittest

MODULE = pathlib.Path(__file__).resolve().parents[2] / "cmake" / "HeadroomGpu.cmake"


class Choice(unittest.TestCase):
    def chosen(self, *lines, code=0):
        """Where nvidia-smi prints these lines."""
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder, "nvidia-smi")
            program.write_text("#!/bin/sh\n" + "".join(f"echo '{line}'\n" for line in lines) + f"exit {code}\n", encoding="utf-8")
            program.chmod(0o755)
            script = pathlib.Path(folder, "script.cmake")
            script.write_text(f"include({MODULE})\nmessage(NOTICE \"GPU '${{HEADROOM_GPU}}'\")\n", encoding="utf-8")
            return subprocess.run(["cmake", "-P", script], env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"},
                                  capture_output=True, text=True, check=True).stderr.strip()

    def test_is_the_first_gpus_code_alone(self):
        for lines, architecture in ((["7.5"], 75), (["8.6", "7.5"], 86), (["12.0", "12.0"], 120)):
            self.assertEqual(self.chosen(*lines), f"GPU '{architecture}'")

    def test_is_none_where_no_gpu_answers(self):
        self.assertEqual(self.chosen(), "GPU ''")
        self.assertEqual(self.chosen("No devices were found", code=6), "GPU ''")
        self.assertEqual(self.chosen("[N/A]"), "GPU ''")


if __name__ == "__main__":
    unittest.main()
