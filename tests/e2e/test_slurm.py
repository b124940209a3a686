"""The zoo on Slurm: a real controller and node on this machine, started by a script. Needs root and the packages."""
import json
import os
import pathlib
import subprocess
import tempfile
import time
import unittest

from support import KAIJU, SOURCE
from zoo_support import FAST, ZooTest

SCRIPT = SOURCE / "scripts/slurm_local.sh"


def setUpModule():
    global folder
    folder = tempfile.mkdtemp(prefix="kaiju-slurm-")
    os.chmod(folder, 0o755)  # munge runs as a user of its own
    started = subprocess.run([SCRIPT, "start", folder], capture_output=True, text=True, timeout=60)
    if started.returncode == 5:
        raise unittest.SkipTest(started.stderr.strip())
    if started.returncode != 0:
        raise RuntimeError(started.stderr)
    os.environ["SLURM_CONF"] = started.stdout.strip()


def tearDownModule():
    subprocess.run([SCRIPT, "stop", folder], check=False, timeout=60)
    subprocess.run(["rm", "-rf", folder], check=False)


SLURM = ("--executor", "slurm", *FAST)


class Slurm(ZooTest):
    def test_shards_run_as_an_array_and_join(self):
        self.entry("cut", shards=2, memory_gb=1)
        self.feed("cut")
        plan = self.zoo_answer("plan", "cut", *SLURM)
        scripts = {script["step"]: script for script in plan["scripts"]}
        self.assertEqual(scripts["encode"]["array"], "0-1")
        for script in scripts.values():
            self.assertIn("#SBATCH --export=NONE", script["text"])
            self.assertIn("#SBATCH --requeue", script["text"])
        secret = {"AWS_ACCESS_KEY_ID": "ID", "AWS_SECRET_ACCESS_KEY": "do-not-tell"}
        self.zoo("submit", "cut", "--submit", *SLURM, **secret)
        self.wait_for("done", "cut-kaiju1", 120)
        tensors = [self.answer("knot", "info", path)["entries"]
                   for path in (self.store / "models/cut-kaiju1.knot", self.made(1) / "knot")]
        self.assertEqual(*tensors)
        # One process on the same inputs makes the very same file.
        whole = next(s for s in plan["steps"] if s["name"] == "encode")["commands"][0]["words"][1:]
        job = self.folder / "state/jobs/cut-kaiju1"
        del whole[whole.index("--shard"):]
        (job / "whole").mkdir()
        whole[whole.index("--out") + 1] = "whole/cut-kaiju1.knot"
        whole += ["--telemetry", "whole/cut-kaiju1.telemetry.json"]
        subprocess.run([KAIJU, *whole], cwd=job, check=True, capture_output=True)
        self.assertEqual((job / "whole/cut-kaiju1.knot").read_bytes(), (self.store / "models/cut-kaiju1.knot").read_bytes())
        for path in (self.folder / "state/jobs/cut-kaiju1").rglob("*"):
            if path.is_file() and not path.is_symlink():
                self.assertNotIn(b"do-not-tell", path.read_bytes(), path)
        self.zoo("watch", "--once", *SLURM, code=11)

    def test_jobs_go_to_the_partition_that_was_named(self):
        self.entry("a", memory_gb=1)
        self.feed("a")
        where = ("--partition", "second", "--threads", 1)
        for script in self.zoo_answer("plan", "a", *SLURM, *where)["scripts"]:
            self.assertIn("#SBATCH --partition=second\n", script["text"])
            self.assertIn("#SBATCH --cpus-per-task=1\n", script["text"])
        ids = self.zoo_answer("submit", "a", "--submit", *SLURM, *where)["handle"].split(",")
        self.wait_for("done", "a-kaiju1", 120)
        ran = [line for line in (pathlib.Path(folder) / "jobcomp.txt").read_text().splitlines()
               if any(line.startswith(f"JobId={one} ") for one in ids)]
        self.assertGreaterEqual(len(ran), 5)
        self.assertTrue(all("Partition=second" in line for line in ran), ran)
        self.entry("b", memory_gb=1)
        self.feed("b")
        said = self.zoo("submit", "b", "--submit", *SLURM, "--partition", "nowhere", code=7).stderr
        self.assertIn("Invalid partition name", said)
        self.assertIn("b", [m["model"] for m in self.zoo_answer("queue")["models"] if m["standing"] != "running"])

    def test_a_failed_gate_ends_the_chain(self):
        self.entry("wrong", memory_gb=1)
        self.feed("wrong", passes=False)
        self.zoo("submit", "wrong", "--submit", *SLURM)
        failed = self.wait_for("failed", "wrong-kaiju1", 120)
        self.assertEqual(failed["step"], "gate")
        self.assertFalse((self.store / "models/wrong-kaiju1.knot").exists())
        self.assertTrue((self.store / "models/wrong-kaiju1.gate.log").exists())
        self.zoo("watch", "--once", *SLURM, code=12)

    def test_a_killed_step_gets_a_verdict_and_can_go_on(self):
        self.entry("a", memory_gb=1)
        self.feed("a")
        plan = self.zoo_answer("submit", "a", "--submit", *SLURM)
        ids = plan["handle"].split(",")
        subprocess.run(["scancel", ids[1]], check=True)
        failed = self.wait_for("failed", "a-kaiju1", 120)
        self.assertIn("ended without a word", failed["verdict"])
        self.zoo("retry", "a", *SLURM)
        self.wait_for("done", "a-kaiju1", 120)

    def test_a_node_that_fails_costs_a_step_and_no_more(self):
        self.entry("a", memory_gb=1)
        self.entry("b", memory_gb=1)
        self.feed("a", seed=9)
        self.feed("b")
        ids = self.zoo_answer("submit", "a", "--submit", *SLURM)["handle"].split(",")
        node = subprocess.run(["sinfo", "--noheader", "--format=%n"], capture_output=True, text=True, check=True).stdout.strip()

        def state(value, *more):
            subprocess.run(["scontrol", "update", f"NodeName={node}", f"State={value}", *more], check=value == "DOWN",
                           capture_output=True)

        deadline = time.time() + 60
        while not subprocess.run(["squeue", "--noheader", "--states=R"], capture_output=True, text=True).stdout:
            self.assertLess(time.time(), deadline, "no step ever ran")
        state("DOWN", "Reason=test")
        try:
            self.zoo("submit", "b", "--submit", *SLURM, code=6)  # what was requeued is in flight
        finally:
            state("RESUME")  # it may have come back by itself
        self.wait_for("done", "a-kaiju1", 120)
        told = [subprocess.run(["scontrol", "show", "job", one], capture_output=True, text=True).stdout for one in ids]
        self.assertTrue(any("Restarts=1" in one for one in told), told)
        made = [self.answer("knot", "info", path)["entries"]
                for path in (self.store / "models/a-kaiju1.knot", self.made(9) / "knot")]
        self.assertEqual(*made)

    def test_what_waits_in_the_queue_is_in_flight_and_can_be_cancelled(self):
        self.entry("a", memory_gb=1)
        self.entry("b", memory_gb=1)
        self.feed("a")
        self.feed("b")
        blocker = subprocess.run(["sbatch", "--parsable", "--exclusive", "--wrap", "sleep 60", "--output=/dev/null"],
                                 capture_output=True, text=True, check=True, cwd=self.folder).stdout.strip()
        try:
            self.zoo("submit", "a", "--submit", *SLURM)
            time.sleep(1)
            self.zoo("submit", "b", "--submit", *SLURM, code=6)
            self.zoo("cancel", "a")
            self.assertEqual(self.zoo_answer("status")["attempts"][0]["state"], "cancelled")
        finally:
            subprocess.run(["scancel", blocker], check=False)


unittest.main()
