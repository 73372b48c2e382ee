"""How scripts/gpu starts programs: none beyond a point in time, and what one printed is kept whatever became of it."""
import json
import os
import pathlib
import signal
import subprocess
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "gpu"
TO_END = 5  # seconds that a program has to end by itself


def say(text):
    print(f"== {text}", flush=True)


def output_of(command):
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    except OSError:
        return ""


def read_json(text):
    """NaN and infinity, which are no JSON, are None, also where a program wrote them."""
    return json.loads(text, parse_constant=lambda _: None)


class Runner:
    """`ours` is the environment of what is built here: PyTorch brings its own libraries and must not see what we brought."""

    def __init__(self, seconds):
        self.end = time.monotonic() + seconds
        self.ours = dict(os.environ)

    def bring(self, libraries):
        """Folders of libraries that what is built here finds first."""
        self.ours["LD_LIBRARY_PATH"] = ":".join([*map(str, libraries), os.environ.get("LD_LIBRARY_PATH", "")])

    def left(self, most=float("inf")):
        """Seconds until the end, no more than `most`."""
        return min(most, max(0, self.end - time.monotonic()))

    def run(self, command, most=float("inf"), **options):
        """Returncode, or 124 after `most` seconds or at the end, and standard output. What the program started ends with it."""
        seconds = self.left(most)
        if seconds == 0:
            return 124, ""
        with subprocess.Popen(command, text=True, start_new_session=True, **options) as process:
            try:
                text = process.communicate(timeout=seconds)[0]
                return process.returncode, text
            except subprocess.TimeoutExpired:
                end_group(process)
                return 124, process.communicate()[0]
            except BaseException:
                end_group(process)
                raise

    def object_of(self, command, most=240, rest=None, env=None, file=None):
        """The object on the last lines of standard output, or in `file`; or what went wrong. `rest` is what an object lacks
        whose program ended between two lines: it comes with what went wrong."""
        say(" ".join(pathlib.Path(word).name if "/" in word else word for word in command))
        if not os.access(command[0], os.X_OK):
            return {"error": "was not built"}
        if self.left() == 0:
            return {"error": "not begun: no time was left"}
        code, text = self.run(command, most, stdout=subprocess.PIPE, env=env or self.ours)
        error = "stopped" if code == 124 else f"ended with {code}"
        try:
            if code == 0:
                return read_json(file.read_text(encoding="utf-8") if file else text[text.index("{"):])
            if rest:
                return {**read_json(text[text.index("{"):] + rest), "error": error}
        except (OSError, ValueError):  # nothing was printed, or written
            pass
        return {"error": error if code == 124 else f"{error}: {text[-500:]}"}


def end_group(process):
    """Ends it and what it started; politely at first, as ninja's compilers are in groups of their own, which ninja ends."""
    try:
        os.killpg(process.pid, signal.SIGTERM)
        for _ in range(10 * TO_END):
            process.poll()  # else the group lasts as long as its first process is not waited for
            os.killpg(process.pid, 0)
            time.sleep(0.1)
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
