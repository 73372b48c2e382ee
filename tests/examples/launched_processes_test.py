"""train_gpt as processes on CPUs that no MPI has started, as torchrun starts them: they meet over TCP."""
import json
import os
import shutil
import subprocess
import unittest

from processes import ProcessesCase

# Two machines, as two network namespaces: each has one address, and neither lies in a subnet of the other one's interfaces.
TWO_MACHINES = """
unshare -n sleep 3600 & other=$!
trap 'kill $other' EXIT
until [ "$(readlink /proc/$other/ns/net)" != "$(readlink /proc/$$/ns/net)" ]; do kill -0 $other || exit 77; sleep 0.01; done
on_other() { nsenter -t $other -n "$@"; }
ip link add here type veth peer name there netns $other && ip address add 10.71.1.1/32 dev here && ip link set here up &&
    ip route add 10.71.2.1/32 dev here && on_other ip address add 10.71.2.1/32 dev there && on_other ip link set there up &&
    on_other ip route add 10.71.1.1/32 dev there src 10.71.2.1 || exit 77
RANK=1 on_other "$@" & second=$!
RANK=0 "$@" || exit $?
wait $second
"""


class LaunchedProcesses(ProcessesCase):
    def test_have_the_bits_of_mpi(self):
        self.expect_one_result(self.launched_summary(), self.summary(2))
        flags = ("--shard", "gradients")
        ranks = [(rank, {}) for rank in range(3)]
        self.expect_one_result(self.launched_summary(*flags, ranks=ranks), self.figures(*flags))

    def test_a_timeout_of_0_is_no_limit(self):
        self.assertEqual(len(self.launched_summary("--join-timeout", 0, "--rank-timeout", 0)["ranks"]), 2)

    def test_sent_bytes_are_those_of_mpi(self):
        launched, together = self.launched_summary(), self.summary(2)
        for name in ("sent_bytes", "collectives", "peak_bytes_allocated"):
            self.assertEqual([rank[name] for rank in launched["ranks"]], [rank[name] for rank in together["ranks"]], name)

    def test_errors_end_them(self):
        for errors, status in self.launched(ranks=((0, {}), (1, {}, "--lr", "0.5"))):
            self.assertEqual((status, errors.count("\n")), (1, 1), errors)
            self.assertIn("process 1 has", errors)

    def test_one_that_is_killed_ends_the_other(self):
        for victim in (0, 1):
            saved = self.path(f"killed{victim}.safetensors")
            jobs = self.launch("--steps", 100000, "--save", saved, "--save-every", 1)
            self.wait_for(saved, jobs[0])
            jobs[victim].kill()
            errors = [job.communicate()[1] for job in jobs][1 - victim]
            self.assertEqual((jobs[1 - victim].returncode, errors.count("\n")), (1, 1), errors)
            self.assertIn(f"rank {1 - victim}: rank {victim} has ended", errors)

    def test_reach_each_other_from_one_subnet_to_another(self):
        tools = ("unshare", "nsenter", "ip")
        if not all(map(shutil.which, tools)):
            self.skipTest(f"{', '.join(tools)}: not all of them are there")
        file = self.path("machines.json")
        environment = {"WORLD_SIZE": "2", "LOCAL_RANK": "0", "MASTER_ADDR": "10.71.1.1", "MASTER_PORT": "29500"}
        run = subprocess.run(["unshare", "-rn", "sh", "-c", TWO_MACHINES, "-", *self.command("--json", file)], text=True,
                             capture_output=True, env=self.environment | environment, check=False)
        if run.returncode in (1, 77) and not os.path.exists(file) and "train_gpt" not in run.stderr:
            self.skipTest(f"no network namespace can be made here: {run.stderr.strip()}")
        self.assertEqual((run.returncode, run.stderr), (0, ""))
        with open(file, encoding="utf-8") as stream:
            self.expect_one_result(json.load(stream), self.summary(2))


if __name__ == "__main__":
    unittest.main()
