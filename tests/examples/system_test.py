"""What a system does to a program: signals, a terminal that goes, limits on addresses."""
import fcntl
import os
import pty
import re
import resource
import signal
import subprocess
import termios
import time
import unittest

from program import ProgramCase, rest_of, words

ENDLESS = ("--steps", 10_000_000)


def catches(process, number):
    """Whether it has a handler for this signal."""
    with open(f"/proc/{process.pid}/status", encoding="utf-8") as status:
        mask = re.search(r"^SigCgt:\s*(\w+)", status.read(), re.MULTILINE)[1]
    return int(mask, 16) >> (number - 1) & 1 == 1


class TrainGpt(ProgramCase):
    program = "train_gpt"

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        text = cls.write("text.txt", words(1000))
        cls.flags = ("--data", text, "--layers", "2", "--heads", "2", "--width", "32", "--block", "16", "--batch", "4",
                     "--warmup", "3", "--threads", "2")

    def expect_resumes(self, file, steps=None):
        """What was saved goes on: after `steps`, or else after some."""
        resumed = self.figures("--resume", file, "--stop-after", 1)["steps"]
        self.assertGreater(resumed, 1)
        self.assertEqual(resumed, steps + 1 if steps is not None else resumed)

    def reads(self, process, text):
        """Reads lines up to one with that text."""
        for line in process.stdout:
            if text in line:
                return
        self.fail(f"no {text} in what was printed")

    def on_terminal(self, file, end):
        """Exit code and output of a training on a terminal of its own, which saves to `file`. `end` ends it once it runs, and returns
        whether it closed the terminal."""
        terminal, inside = pty.openpty()

        def lead():
            os.setsid()
            fcntl.ioctl(inside, termios.TIOCSCTTY, 0)

        command = self.command(*ENDLESS, "--save", file)
        with subprocess.Popen(command, stdin=inside, stdout=inside, stderr=inside, preexec_fn=lead) as process:
            os.close(inside)
            output = b""
            while b"step " not in output:
                output += os.read(terminal, 4096)
            if end(process, terminal):
                return process.wait(), output.decode()
            output += rest_of(terminal)
            return process.wait(), output.decode()

    def test_a_signal_saves_and_leaves_cleanly(self):
        for sent in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            file = self.path(f"sent{sent}.safetensors")
            code, output = self.on_terminal(file, lambda process, _, sent=sent: process.send_signal(sent))
            self.assertEqual(code, 128 + sent, output)
            steps = int(re.search(r"interrupted after step (\d+)\r\n", output)[1])
            self.assertIn("saved to", output)
            self.assertIn("\r\x1b[K", output)  # drawn over the one before
            self.expect_resumes(file, steps)

    def test_a_terminal_that_goes_leaves_a_training_that_resumes(self):
        def close(_, terminal):
            os.close(terminal)
            return True

        file = self.path("closed.safetensors")
        code, output = self.on_terminal(file, close)
        self.assertEqual(code, 128 + signal.SIGHUP, output)
        self.expect_resumes(file)

    def test_a_reader_that_goes_with_it_ends_nothing_before_the_save(self):
        file = self.path("piped.safetensors")
        with subprocess.Popen(self.command("--steps", 4000, "--save", file), stdout=subprocess.PIPE, text=True) as process:
            self.reads(process, "step 200/")
            process.send_signal(signal.SIGHUP)
            process.stdout.close()
            self.assertEqual(process.wait(), 128 + signal.SIGHUP)
        self.expect_resumes(file)

    def test_a_signal_that_was_ignored_at_the_start_stays_ignored(self):
        for ignored in (signal.SIGHUP, signal.SIGINT):  # as nohup has it, and shells for what runs in the background
            file = self.path(f"ignored{ignored}.safetensors")
            command = self.command("--steps", 4000, "--save", file)
            with subprocess.Popen(command, stdout=subprocess.PIPE, text=True,
                                  preexec_fn=lambda ignored=ignored: signal.signal(ignored, signal.SIG_IGN)) as process:
                self.reads(process, "step 200/")
                process.send_signal(ignored)
                self.reads(process, "step 400/")
                process.send_signal(signal.SIGTERM)
                process.send_signal(ignored)
                self.assertIn("interrupted after step", process.stdout.read())
                self.assertEqual(process.wait(), 128 + signal.SIGTERM)

    def test_a_second_ctrl_c_ends_it_at_once(self):
        # The first signal alone would be answered after a step, which takes minutes here.
        with subprocess.Popen(self.command("--accumulate", 500_000), stdout=subprocess.PIPE, text=True) as process:
            self.assertIn("parameters", process.stdout.readline())
            self.assertIn("predicted", process.stdout.readline())
            while not catches(process, signal.SIGINT):
                self.assertIsNone(process.poll())
                time.sleep(0.01)
            process.send_signal(signal.SIGINT)
            time.sleep(0.4)
            self.assertIsNone(process.poll())
            while process.poll() is None:
                process.send_signal(signal.SIGINT)
                time.sleep(0.05)
            self.assertEqual(process.returncode, -signal.SIGINT)
            self.assertEqual(process.stdout.read(), "")

    def test_memory_is_limited_alike_under_a_limit_of_addresses(self):
        def limited(*flags, addresses=1 << 30):
            return subprocess.run(self.command(*flags), capture_output=True, text=True, check=False,
                                  preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (addresses, addresses)))

        if limited("--version").returncode != 0:
            self.skipTest("this build takes more addresses by itself, as sanitizers do")
        flags = ("--steps", 5, "--batch", 32)
        most = self.figures(*flags)["peak_bytes_reserved"]
        for way in (("--budget", most), ("--memory-limit", most), ()):
            run = limited(*flags, *way, "--json", self.path("limited.json"))
            self.assertEqual((run.returncode, run.stderr), (0, ""), way)
        least = self.figures(*flags, "--budget", most)["floor_bytes"]
        small = limited(*flags, "--budget", least - 1)
        self.assertEqual(small.returncode, 3, small.stderr)
        self.assertIn("the least found is", small.stderr)
        large = limited(*flags, "--budget", 1 << 30)
        self.assertEqual(large.returncode, 1, large.stderr)
        self.assertIn("use at most --budget 536870912", large.stderr)


if __name__ == "__main__":
    unittest.main()
