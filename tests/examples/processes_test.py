"""The training programs under mpirun: what several processes train, take and leave behind."""
import json
import os
import re
import signal
import subprocess
import tempfile
import time
import unittest

from processes import ProcessesCase, at_once, runs
from program import drawn


class Processes(ProcessesCase):
    def test_train_the_same(self):
        alone = self.log_of()
        for processes in (2, 3, 4):
            together = self.log_of(processes=processes)
            self.assertEqual(len(together), 6)
            self.assertEqual(together[0]["train/loss"], alone[0]["train/loss"])  # summed by micro-batches, in their order
            for one, several in zip(alone, together, strict=True):
                for name in ("train/loss", "train/gradient_norm"):
                    self.assertAlmostEqual(several[name], one[name], delta=1e-6 * max(1, abs(one[name])), msg=name)

    def test_each_run_has_the_same_bits(self):
        first, second = (self.summary(3)["state_sha256"] for _ in range(2))
        self.assertEqual(first, second)

    def test_peaks_are_predicted_for_each_rank(self):
        for flags in ((), ("--recompute", "blocks", "--accumulate", 5)):
            for processes in (2, 3):
                for rank in self.expect_predicted_ranks(processes, *flags)["ranks"]:
                    self.assertGreater(rank["sent_bytes"], 0)
                    self.assertGreater(rank["collectives"], 0)
                    self.assertGreater(rank["optimizer_state_bytes"], rank["parameter_bytes"])

    def test_only_the_first_prints_and_writes(self):
        log, saved = self.path("one.jsonl"), self.path("one.safetensors")
        out, errors = self.together(3, "--log", log, "--save", saved)
        self.assertEqual(errors, "")
        self.assertEqual(out.count("predicted peak"), 1)
        self.assertEqual(out.count(f"saved to {saved}"), 1)
        with open(log, encoding="utf-8") as stream:
            self.assertEqual(sum("train/loss" in line for line in stream), 6)

    def test_the_others_write_no_file(self):
        """In a folder of its own each, as on machines of their own."""
        own = 'mkdir -p "of$OMPI_COMM_WORLD_RANK" && cd "of$OMPI_COMM_WORLD_RANK" && exec "$@"'
        files = {"--log": "log.jsonl", "--json": "figures.json", "--save": "saved.safetensors", "--best": "best.safetensors",
                 "--save-plan": "plan.json", "--memory-history": "history.html", "--tensorboard": "events", "--pictures": "pictures"}
        for shard in ("none", "state", "gradients"):
            with tempfile.TemporaryDirectory(dir=self.folder) as folder:
                self.together(2, *(word for flag in files.items() for word in flag), "--batch", 1, "--budget", "1GB", "--shard", shard,
                              "--steps", 2, "--validate-every", 1, wrap=("sh", "-c", own, "-"), cwd=folder)
                self.assertEqual(sorted(os.listdir(os.path.join(folder, "of0"))), sorted(files.values()), shard)
                self.assertEqual(os.listdir(os.path.join(folder, "of1")), [], shard)

    def test_resumes_with_any_number_of_processes(self):
        whole = self.path("whole.safetensors")
        self.together(2, "--save", whole)
        state = self.figures("--resume", whole, "--stop-after", 0)["state_sha256"]
        stopped, again = self.path("stopped.safetensors"), self.path("again.safetensors")
        self.together(2, "--stop-after", 3, "--save", stopped)
        self.together(2, "--resume", stopped, "--save", again)
        self.assertEqual(self.figures("--resume", again, "--stop-after", 0)["state_sha256"], state)
        # With another number, sums are in another order: the same training but for rounding.
        expected = self.log_of("--resume", stopped, processes=2)
        for processes in (1, 4):
            for one, other in zip(expected, self.log_of("--resume", stopped, processes=processes), strict=True):
                self.assertEqual(one["step"], other["step"])
                self.assertAlmostEqual(one["train/loss"], other["train/loss"], delta=1e-5)

    def test_interrupted_at_one_step(self):
        stopped, whole = self.path("interrupted.safetensors"), self.path("uninterrupted.safetensors")
        flags = (*self.slow, "--steps", 20)
        job, ranks = self.start_and_tell(2, *flags, "--save", stopped, "--save-every", 1)
        self.wait_for(stopped, job)
        os.kill(ranks[1], signal.SIGINT)  # one of the two alone
        out, errors = job.communicate()
        self.assertEqual(job.returncode, 130, out + errors)
        self.assertIn("interrupted after step ", out)
        self.together(2, *flags, "--resume", stopped, "--save", stopped)
        self.together(2, *flags, "--save", whole)
        states = [self.figures(*flags, "--resume", file, "--stop-after", 0)["state_sha256"] for file in (stopped, whole)]
        self.assertEqual(states[0], states[1])

    def test_a_job_that_mpirun_ends_within_a_step_keeps_the_last_one(self):
        """Two seconds after its own signal mpirun kills all ranks. HEADROOM_LONG_STEPS: seconds of a step of a state of 190 MB, such as
        "4 20", for a machine that is not busy. How soon the file is there is printed."""
        large = ("--layers", 5, "--width", 512, "--heads", 8, "--batch", 1)
        lengths = [float(length) for length in os.environ.get("HEADROOM_LONG_STEPS", "").split()]
        for flags in [(*large, "--accumulate", self.micro_batches_in(length, *large)) for length in lengths] or [
                (*self.slow[:-2], "--accumulate", 24)]:
            with self.subTest(flags=flags):
                self.expect_last_step_kept((*flags, "--steps", 2))

    def micro_batches_in(self, seconds, *flags):
        """The even number of micro-batches that two processes do in so many seconds."""
        summary = self.summary(2, *flags, "--accumulate", 64, "--steps", 3)
        return max(2, round(seconds / summary["step_seconds"] * 64 / 2) * 2)

    def expect_last_step_kept(self, flags):
        cut, log, whole = (self.path(name) for name in ("cut.safetensors", "cut.jsonl", "not_cut.safetensors"))
        for file in (cut, log):
            if os.path.exists(file):
                os.remove(file)
        job = self.start(2, *flags, "--save", cut, "--log", log)
        self.wait_for(log, job)
        while os.path.getsize(log) == 0:
            self.assertIsNone(job.poll())
            time.sleep(0.05)
        began = time.monotonic()
        job.send_signal(signal.SIGINT)
        while not os.path.exists(cut) and job.poll() is None:
            time.sleep(0.01)
        saved = time.monotonic() - began
        out, errors = job.communicate()
        print(f"saved {saved:.2f} s after the signal, ended after {time.monotonic() - began:.2f} s", flush=True)
        self.assertIn("the state after step 1, while the next one continues", out, errors)
        self.assertNotEqual(job.returncode, 0)  # mpirun's own, since it has killed the ranks
        self.together(2, *flags, "--resume", cut, "--save", cut)
        self.together(2, *flags, "--save", whole)
        states = [self.figures("--resume", file, "--stop-after", 0, *flags)["state_sha256"] for file in (cut, whole)]
        self.assertEqual(states[0], states[1])

    def test_a_rank_that_comes_late_is_waited_for(self):
        """By 5 s, when the other one is in MPI already: the training is the usual one."""
        usual = self.summary(2)
        first, log, summary = (self.path(f"late{end}") for end in (".pid", ".jsonl", ".json"))
        script = f'''
            if [ "$OMPI_COMM_WORLD_RANK" = 0 ]; then echo $$ > {first}; exec "$@"; fi
            until [ -s {first} ]; do sleep 0.05; done
            until grep -q libmpi "/proc/$(cat {first})/maps"; do sleep 0.05; kill -0 "$(cat {first})" || exit 1; done
            sleep 5
            [ ! -e {log} ] || echo "rank 0 has begun without this one" >&2
            exec "$@"'''
        _, errors = self.together(2, "--log", log, "--json", summary, wrap=("sh", "-c", script, "-"))
        self.assertEqual(errors, "")
        with open(summary, encoding="utf-8") as stream:
            self.expect_one_result(json.load(stream), usual)

    def test_a_rank_that_is_killed_ends_all(self):
        draw = drawn()
        for moment in range(int(os.environ.get("HEADROOM_KILLS", "2"))):  # .ci/nightly kills 20
            victim, shard = draw.randrange(4), draw.choice(("none", "state", "gradients"))
            with self.subTest(victim=victim, shard=shard, moment=moment):
                saved = self.path(f"killed{moment}.safetensors")
                job, ranks = self.start_and_tell(4, "--shard", shard, "--rank-timeout", 0, "--steps", 100000, "--save", saved,
                                                 "--save-every", 1)
                self.wait_for(saved, job)
                time.sleep(draw.random() / 2)  # in a step, or while it is saved
                os.kill(ranks[victim], signal.SIGKILL)
                job.communicate()  # no rank is impatient: what else ends them all does so, or they hang
                self.assertNotEqual(job.returncode, 0)
                while any(map(runs, ranks)):  # mpirun may end before them
                    time.sleep(0.05)
                self.succeeds("--resume", saved, "--stop-after", 1)

    def test_misuse_is_one_line(self):
        def is_one_line(case):
            processes, flags, status, part = case
            _, errors = self.together(processes, *flags, status=status)
            lines = self.own_lines(errors)
            self.assertEqual(len(lines), 1, errors)
            self.assertIn(part, lines[0])

        at_once(is_one_line, (
            (4, ("--accumulate", 2), 1, "--accumulate 2: 4 processes need a micro-batch each; --batch 2 --accumulate 4 is the same step"),
            (2, ("--device", "dry"), 2, "--device dry is for one process"),
            (2, ("--nonsense",), 2, "there is no --nonsense"),
            (2, ("--rank-timeout", -1), 2, "--rank-timeout: -1 is not a number in"),
            (2, ("--data", "/nowhere/text"), 1, "/nowhere/text"),
            (2, ("--calibrate", self.path("costs.json")), 2, "--calibrate works in one process"),
            (2, ("--memory-limit", "4MB", "--width", 256), 3, "out of memory")))
        self.fails(2, ["--ranks", 2], "--ranks is for --device dry")

    def test_timeouts_are_flags(self):
        script = 'if [ "$OMPI_COMM_WORLD_RANK" = 0 ]; then exit 0; else exec "$@"; fi'
        _, errors = self.together(2, "--join-timeout", 2, status=1, wrap=("sh", "-c", script, "-"))
        (line,) = self.own_lines(errors)
        self.assertIn("rank 1: not all of 2 ranks joined within 2 s", line)
        saved = self.path("hung.safetensors")
        job, ranks = self.start_and_tell(2, "--rank-timeout", 10, "--steps", 100000, "--save", saved, "--save-every", 1)
        self.wait_for(saved, job)
        os.kill(ranks[1], signal.SIGSTOP)
        (line,) = self.own_lines(job.communicate()[1])
        self.assertIn("rank 1 has made no progress for 10 s while others wait", line)
        self.succeeds("--resume", saved, "--stop-after", 1)

    def test_ranks_that_differ_say_in_what(self):
        saved = self.path("differs.safetensors")
        def differs(case):
            flags, line = case
            script = f'if [ "$OMPI_COMM_WORLD_RANK" = 1 ]; then exec "$@" {flags}; else exec "$@"; fi'
            for shard in ("none", "gradients"):
                _, errors = self.together(2, "--shard", shard, status=1, wrap=("sh", "-c", script, "-"))
                (found,) = self.own_lines(errors)
                self.assertIn(line, found)

        at_once(differs, (("--lr 0.5", "--lr: process 1 has 0.5, but process 0 has 0.001"),
                          ("--ema-decay 0.9", "--ema-decay: process 1 has 0.9, but process 0 has 0"),
                          ("--stop-after 3", "--stop-after: process 1 has 3, but process 0 has -1"),
                          ("--budget 1GB", "--budget: process 1 has 1000000000, but process 0 has 0"),
                          (f"--save {saved}", "--save: process 1 has a file, but process 0 has none"),
                          (f"--best {saved}", "--best: process 1 has a file, but process 0 has none")))
        script = 'if [ "$OMPI_COMM_WORLD_RANK" = 1 ]; then exec "$@" --save-every 1; else exec "$@" --save-every 3; fi'
        _, errors = self.together(2, "--shard", "state", "--save", saved, status=1, wrap=("sh", "-c", script, "-"))
        self.assertIn("--save-every: process 1 has 1, but process 0 has 3", *self.own_lines(errors))

    def test_as_many_as_an_advice_names_have_room(self):
        for limit in (6 << 20, 4 << 20):
            flags = ("--layers", "4", "--width", "96", "--block", "64", "--batch", "1", "--steps", "2")
            line = self.fails(3, (*flags, "--memory-limit", limit), "out of memory")
            advice = re.search(r"(\d+) processes \(mpirun -np (\d+)\) with (.*) in place of --memory-limit and --recompute, or", line)
            self.assertEqual(advice[1], advice[2])
            self.together(int(advice[1]), *flags, *advice[3].split())

    def test_a_launcher_without_mpi_is_refused(self):
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("OMPI_", "PMI"))}
        for more, part in (({"RANK": "0"}, "WORLD_SIZE is not"), ({"RANK": "0", "WORLD_SIZE": "2"}, "start with mpirun")):
            run = subprocess.run(self.command(), env={**environment, **more}, capture_output=True, text=True, check=False)
            self.assertEqual(run.returncode, 1)
            self.assertEqual(len(run.stderr.splitlines()), 1)
            self.assertIn(part, run.stderr)

    def test_without_the_plug_in(self):
        out, errors = self.together(2, status=1, wrap=("env", "HEADROOM_MPI=/nowhere/plugin.so"))
        (line,) = self.own_lines(errors)
        self.assertIn("OMPI_COMM_WORLD_SIZE says that this is one process of several", line)
        self.assertIn("scripts/setup", line)
        self.assertEqual(out, "")
        self.together(1, "--steps", 1, wrap=("env", "HEADROOM_MPI=/nowhere/plugin.so"))  # one of one needs none


if __name__ == "__main__":
    unittest.main()
