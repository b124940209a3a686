"""The zoo: a queue that drains by itself, and everything that interrupts it."""
import glob
import hashlib
import json
import os
import pathlib
import random
import re
import signal
import socket
import sqlite3
import subprocess
import time
import unittest

from support import KAIJU
from zoo_support import FAST, ZooTest


class Queue(ZooTest):
    def test_a_queue_of_six_drains_unattended(self):
        self.entry("ready")
        self.entry("fed", "auto-feed", source=str(self.made(2) / "f16.gguf"), ppl_max=1e6, kl_max=100.0, reference="f16")
        self.entry("outside", "EXTERNAL")
        self.entry("held", "HOLD", reason="not today")
        self.entry("mixture", "out-of-scope", reason="mixture of experts")
        self.entry("wrong")
        self.feed("ready")
        self.feed("wrong", passes=False)
        self.qspec("fed", 2)
        watch = subprocess.Popen([KAIJU, "zoo", "watch", "--catalogue", self.catalogue(), "--state", "state", "--interval", "0.2",
                                  "--json", "--share-machine", *FAST], cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        time.sleep(3)
        self.feed("outside", seed=3)
        out, err = watch.communicate(timeout=240)
        self.assertEqual(watch.returncode, 12, out + err)
        standing = {m["model"]: m["standing"] for m in json.loads(out)["models"]}
        self.assertEqual(standing, {"ready": "done", "fed": "done", "outside": "done", "held": "on-hold",
                                    "mixture": "out-of-scope", "wrong": "failed"})
        self.assertIn("held: skipped, on-hold: not today", err)
        self.assertIn("mixture: skipped, out-of-scope: mixture of experts", err)
        self.assertEqual(err.count("outside: skipped, waiting: somebody else feeds it"), 1, err)
        for model, seed in (("ready", 1), ("fed", 2), ("outside", 3)):
            self.kaiju("knot", "verify", self.store / f"models/{model}-kaiju1.knot")
            if model == "fed":  # its prerequisites are the feeder's
                self.kaiju("encode", "--model", self.store / "models/fed/fed-f16.gguf", "--imatrix",
                           self.store / "models/iq-ladder/fed/fed.imatrix", "--base", self.store / "models/fed.knot", "--out",
                           "expected.knot")
            expected = self.folder / "expected.knot" if model == "fed" else self.made(seed) / "knot"
            self.assertEqual(*(self.answer("knot", "info", path)["entries"]
                               for path in (self.store / f"models/{model}-kaiju1.knot", expected)))
            json.loads((self.store / f"models/{model}-kaiju1.telemetry.json").read_text())
            self.assertTrue((self.store / f"models/{model}-kaiju1.gate.log").exists())
        self.assertFalse((self.store / "models/wrong-kaiju1.knot").exists())
        self.assertFalse((self.store / "models/wrong-kaiju1.telemetry.json").exists())
        self.assertIn("failure: ", self.zoo_answer("status", "wrong")["attempts"][0]["verdict"])
        self.assertTrue((self.store / "models/wrong-kaiju1.gate.log").exists())
        ladder = json.loads((self.store / "models/iq-ladder/fed/fed.ladder.json").read_text())
        self.assertEqual([r["type"] for r in ladder["rungs"]], ["IQ2_S", "IQ3_XXS", "IQ3_S"])
        for rung in ladder["rungs"]:
            self.assertGreater(rung["mean_kl"], 0)
            self.assertIn(rung["share"], (0, 1))
            self.assertTrue((self.store / f"models/iq-ladder/fed/fed-{rung['type']}.gguf").exists())
        # A second attempt of v1 needs a new id; on hold the failure is out of the way.
        self.assertIn("new id", self.zoo("retry", "wrong", code=4).stderr)
        self.zoo("hold", "wrong", "--reason", "gate")
        self.zoo("watch", "--once", code=11)
        self.assertEqual(self.zoo_answer("unhold", "wrong"), {"model": "wrong", "held": False})
        self.zoo("unhold", "wrong", code=2)
        self.assertIn("change it there", self.zoo("unhold", "held", code=2).stderr)
        self.zoo("watch", "--once", code=12)
        self.zoo("report", "--out", "first.html")
        self.assertRegex((self.folder / "first.html").read_text(), r"fetch [\d.]+, encode [\d.]+, verify [\d.]+, gate")
        # The state made again from the store says the same.
        os.rename(self.folder / "state", self.folder / "old-state")
        self.zoo("rebuild")
        self.zoo("watch", "--once", code=12)
        report = self.folder / "report.html"
        self.zoo("report", "--out", report)
        page = report.read_text()
        for word in ("ready", "mixture of experts", "<svg", "wrong"):
            self.assertIn(word, page)

    def test_submit_is_a_dry_run_and_says_what_is_missing(self):
        self.entry("a")
        self.entry("b", "auto-feed", source="b.gguf")
        self.entry("v3", encoder="v3", ppl_max=10.0, kl_max=1.0, reference="f16")
        self.assertIn("or give the model a \"source\"", self.zoo("submit", "a", code=5).stderr)
        missing = self.zoo("submit", "b", code=5).stderr
        self.assertIn("f16, imatrix, base, qspec", missing)
        self.assertIn("zoo submit b --feed", missing)
        self.assertIn("sketch", self.zoo("submit", "v3", code=5).stderr)
        self.zoo("check", code=1)
        self.feed("a")
        plan = self.zoo_answer("submit", "a")
        self.assertEqual(plan["key"], "models/a-kaiju1.knot")
        self.assertEqual([s["name"] for s in plan["steps"]], ["fetch", "encode", "verify", "gate", "publish"])
        self.assertGreater(plan["estimate"]["seconds"], 0)
        estimate = self.zoo_answer("plan", "a", "--cost-per-hour", 720)["estimate"]
        self.assertAlmostEqual(estimate["cost"], estimate["seconds"] / 5, places=9)
        self.assertFalse((self.store / "zoo").exists())
        check = self.zoo_answer("check", "a")
        self.assertTrue(check["ready"])
        self.assertEqual(check["models"][0]["architecture"], "llama")
        right = int((self.made(1) / "right").read_text())
        self.assertEqual(self.zoo_answer("params", "a")["expect_token"], right)
        self.assertIn(f"KAIJU_EXPECT_TOKEN={right}\n", self.zoo("params", "a", "--format", "shell").stdout)
        damaged = self.store / "models/a/a-f16.gguf"
        damaged.write_bytes(damaged.read_bytes()[:5000])
        self.assertIn("f16 (there, but", self.zoo("submit", "a", code=5).stderr)

    def test_nothing_is_submitted_while_something_is_in_flight(self):
        self.entry("a")
        self.entry("b")
        self.feed("a")
        self.feed("b")
        leases = self.store / "zoo/lease"
        leases.mkdir(parents=True)
        (leases / "0.1").write_text(json.dumps({"owner": "another-host", "kind": "encode"}))
        (leases / "0.1.beat").write_text("x")
        self.assertIn("another-host", self.zoo("submit", "a", "--submit", code=6).stderr)
        # By another host's clock it may be dead: here it has to be silent for a term before anybody says so.
        time.sleep(1.2)
        self.zoo("submit", "a", "--submit", "--lease-term", "1")
        self.wait_for("done", "a-kaiju1")

    def test_work_by_hand_is_in_the_way(self):
        self.entry("a")
        self.feed("a")
        mute = socket.create_server(("127.0.0.1", 0))  # connections are taken, answers never come
        self.addCleanup(mute.close)
        source = f"http://127.0.0.1:{mute.getsockname()[1]}/model.gguf"
        (self.folder / "other").mkdir()
        hand = subprocess.Popen([KAIJU, "ladder", "--source", source, "--id", "x", "--store", self.folder / "other", "--work",
                                 "w", "--text", "t", "--prompt", "p"], cwd=self.folder, stderr=subprocess.DEVNULL)
        try:
            deadline = time.time() + 20
            while "by hand" not in self.zoo("submit", "a", alone=True).stderr and time.time() < deadline:
                time.sleep(0.05)
            self.assertIn("by hand", self.zoo("submit", "a", "--submit", code=6, alone=True).stderr)
        finally:
            hand.kill()
            hand.wait()
        other = self.folder / "kaiju-next"  # under another name it is the same program
        other.symlink_to(KAIJU)
        hand = subprocess.Popen([other, "encode-tensor", "--input", "i", "--out", "o"], cwd=self.folder, stderr=subprocess.DEVNULL)
        os.kill(hand.pid, signal.SIGSTOP)
        try:
            self.assertIn(f"kaiju encode-tensor by hand (process {hand.pid})",
                          [one["what"] for one in self.zoo_answer("status")["in_flight"]])
        finally:
            hand.kill()
            hand.wait()

    def test_a_batch_script_names_what_sbatch_can_read(self):
        self.entry("a")
        self.feed("a")
        def output(*arguments, code=0):
            return self.kaiju("zoo", "plan", "a", "--executor", "slurm", "--catalogue", self.catalogue(), "--share-machine",
                              *arguments, code=code)
        self.assertIn('#SBATCH --output="', output("--state", "odd folder").stdout)
        self.assertIn("without quotes", output("--state", "odd'folder", code=2).stderr)
        self.assertIn("no partition's name", output("--state", "s", "--partition", "a b", code=2).stderr)

    def test_a_lease_that_cannot_be_read_counts_as_busy(self):
        self.entry("a")
        self.feed("a")
        leases = self.store / "zoo/lease"
        leases.mkdir(parents=True)
        (leases / "0.1").write_text("not what it should be")
        self.assertIn("unknown", self.zoo("submit", "a", "--submit", code=6).stderr)

    def test_a_watcher_asks_again_when_something_changed(self):
        self.entry("a")
        self.entry("b", "EXTERNAL")  # keeps the watcher waiting
        self.feed("a")
        damaged = self.folder / "damaged"
        damaged.write_bytes((self.store / "models/a/a-f16.gguf").read_bytes()[:5000])
        self.put("models/a/a-f16.gguf", damaged)
        watch = self.watch()
        time.sleep(1.5)
        self.feed("a")
        self.wait_for("done", "a-kaiju1")
        self.feed("b")
        out, err = watch.communicate(timeout=120)
        self.assertEqual(watch.returncode, 11, out + err)
        self.assertEqual(err.count("a: not ready: f16 (there, but"), 1, err)  # not at every tick

    def test_two_watchers_never_encode_at_once(self):
        for model in ("a", "b", "c"):
            self.entry(model)
            self.feed(model)
        catalogue = self.catalogue()
        watchers = [subprocess.Popen([KAIJU, "zoo", "watch", "--catalogue", catalogue, "--state", state, "--interval", "0.1",
                                      "--share-machine", *FAST], cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
                    for state in ("one", "two")]
        most = 0
        deadline = time.time() + 120
        while any(w.poll() is None for w in watchers) and time.time() < deadline:
            running = {p.parent.name for s in ("one", "two") for p in self.folder.glob(f"{s}/jobs/*/story.log")
                       if not (p.parent / "verdict.json").exists()
                       and subprocess.run(["pgrep", "-f", f"zoo run {p.parent}$"], capture_output=True).returncode == 0}
            most = max(most, len(running))
            time.sleep(0.02)
        for watcher in watchers:
            watcher.kill() if watcher.poll() is None else None
            watcher.communicate()
        self.assertEqual(most, 1)
        for model in ("a", "b", "c"):
            self.kaiju("knot", "verify", self.store / f"models/{model}-kaiju1.knot")

    def test_parallel_lifts_the_rule_for_encodes_only(self):
        for model, seed in (("a", 9), ("b", 9), ("c", 1)):
            self.entry(model)
            self.feed(model, seed)
        self.entry("fed", "auto-feed", source=str(self.made(1) / "f16.gguf"), prompt="the quick brown fox", min_margin=0.001)
        two = ("--parallel", 2, "--lease-beat", "0.2", "--lease-term", "300")

        def paused(model, *arguments):
            """Starts a job and stops it: its lease stays, for its term is long."""
            process = int(self.zoo_answer("submit", model, "--submit", *two, *arguments)["handle"].split("@")[0])
            os.kill(process, signal.SIGSTOP)
            return process

        held = [paused("a"), paused("b")]
        for refused in (("c",), ("fed", "--feed")):
            self.assertIn("in flight", self.zoo("submit", *refused, "--submit", *two, code=6).stderr)
        self.assertIn("a-kaiju1 is under way", self.zoo("submit", "a", "--submit", *two, code=6).stderr)
        for process in held:
            os.kill(process, signal.SIGCONT)
        for model in ("a", "b"):
            self.wait_for("done", f"{model}-kaiju1")
        feeder = paused("fed", "--feed")
        self.zoo("submit", "c", "--submit", *two, code=6)
        os.kill(feeder, signal.SIGCONT)
        self.zoo("watch", "--interval", "0.1", *two, code=11)
        for model in ("a", "b", "c", "fed"):
            self.kaiju("knot", "verify", self.store / f"models/{model}-kaiju1.knot")

    def test_shards_give_the_same_bytes(self):
        self.entry("whole")
        self.entry("cut", shards=3)
        self.feed("whole")
        self.feed("cut")
        for model in ("whole", "cut"):
            self.zoo("submit", model, "--submit", *FAST)
            self.wait_for("done", f"{model}-kaiju1")
        made = [self.answer("knot", "info", self.store / f"models/{model}-kaiju1.knot") for model in ("whole", "cut")]
        self.assertEqual(made[0]["entries"], made[1]["entries"])

    def test_cancel_and_retry(self):
        self.entry("a")
        self.feed("a")
        folder = self.folder / "state/jobs/a-kaiju1"
        self.zoo("submit", "a", "--submit", *FAST)
        self.zoo("cancel", "a")
        deadline = time.time() + 30
        while not (folder / "verdict.json").exists() and time.time() < deadline:
            time.sleep(0.05)
        state = self.zoo_answer("status")["attempts"][0]["state"]
        if state == "cancelled":  # it may have been done before it heard
            self.zoo("watch", "--once", code=12)
            self.zoo("retry", "a", *FAST)
        self.wait_for("done", "a-kaiju1")
        self.zoo("watch", "--once", code=11)


class Dies(ZooTest):
    def test_killed_at_fifty_moments_the_result_is_the_same(self):
        right = self.answer("knot", "info", self.made(1) / "knot")["entries"]
        kills, reached, chance, length = 0, set(), random.Random(7), None
        steps = {"encode", "gate", "publish"}  # each must have been killed
        for job in range(400):  # as many jobs as it takes: a fast machine ends one before many kills
            model = f"a{job}"
            self.entry(model, ppl_max=1e6, kl_max=100.0, reference="f16")
            self.feed(model)
            folder = pathlib.Path(self.zoo_answer("submit", model, "--submit", "--threads", 1, *FAST)["folder"])
            self.end_jobs()
            knot, begun, here = self.store / f"models/{model}-kaiju1.knot", time.time(), 0
            deadline = time.time() + 120
            while not (folder / "verdict.json").exists() and time.time() < deadline:
                run = subprocess.Popen([KAIJU, "zoo", "run", folder], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                try:
                    # A step that takes longer than any pause is let through after some kills.
                    run.wait(60 if length is None or here >= 8 else chance.uniform(0, length / 3))
                except subprocess.TimeoutExpired:
                    run.send_signal(signal.SIGKILL)
                    run.wait()
                    kills, here = kills + 1, here + 1
                    reached.update(re.findall(r"(\w+) begins", (folder / "story.log").read_text())[-1:])
                    if knot.exists():  # what is visible is whole
                        self.kaiju("knot", "verify", knot)
            length = length or time.time() - begun  # of the first job, which nobody kills
            verdict = json.loads((folder / "verdict.json").read_text())
            self.assertEqual(verdict["state"], "done", (folder / "story.log").read_text())
            for key in ("knot", "telemetry.json", "gate.log"):
                self.assertTrue((self.store / f"models/{model}-kaiju1.{key}").exists(), key)
            self.assertEqual(self.answer("knot", "info", knot)["entries"], right)
            if kills >= 50 and steps <= reached:
                break
        self.assertGreaterEqual(kills, 50)
        self.assertLessEqual(steps, reached)

    def test_killed_between_a_gates_no_and_its_verdict_nothing_is_published(self):
        self.entry("wrong")
        self.feed("wrong", passes=False)
        folder = pathlib.Path(self.zoo_answer("submit", "wrong", "--submit", *FAST)["folder"])
        self.wait_for("failed", "wrong-kaiju1")
        # The gate has left its log and figures, and nobody wrote down what it said.
        (folder / "verdict.json").unlink()
        (self.store / "zoo/lease/0.1.released").unlink()
        self.kaiju("zoo", "run", folder, code=1)
        self.assertFalse((self.store / "models/wrong-kaiju1.knot").exists())

    def test_the_watcher_starts_a_dead_job_again(self):
        self.entry("a")
        self.feed("a")
        plan = self.zoo_answer("submit", "a", "--submit", *FAST)
        os.kill(int(plan["handle"].split("@")[0]), signal.SIGKILL)
        self.zoo("watch", "--interval", "0.1", code=11)
        status = self.zoo_answer("status")["attempts"][0]
        self.assertEqual(status["state"], "done")
        self.assertLessEqual(status["restarts"], 1)

    def test_a_job_that_always_dies_fails(self):
        self.entry("a")
        self.feed("a")
        plan = self.zoo_answer("submit", "a", "--submit", *FAST)
        os.kill(int(plan["handle"].split("@")[0]), signal.SIGKILL)
        self.zoo("watch", "--interval", "0.1", "--restarts", "0", code=12)
        self.zoo("retry", "a", *FAST)
        self.wait_for("done", "a-kaiju1")

    @unittest.skipIf(os.geteuid() != 0, "mounts a small file system")
    def test_a_full_disk_is_told_and_survived(self):
        self.entry("a")
        self.feed("a", seed=9)
        small = self.folder / "small"
        small.mkdir()
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "none", small], capture_output=True).returncode != 0:
            self.skipTest("cannot mount here")
        self.addCleanup(subprocess.run, ["umount", "-l", small], check=False)
        needed = (self.made(9) / "knot").stat().st_size
        self.assertGreater(needed, 500_000)
        (small / "filler").write_bytes(b"x" * (8 * 2**20 - 400_000))
        state = ("--catalogue", self.catalogue(), "--state", "small/state")
        self.kaiju("zoo", "submit", "a", "--submit", *state, "--share-machine", *FAST)
        deadline = time.time() + 60
        verdict = small / "state/jobs/a-kaiju1/verdict.json"
        while not verdict.exists() and time.time() < deadline:
            time.sleep(0.1)
        told = json.loads(verdict.read_text())
        self.assertEqual((told["state"], told["step"], told["code"]), ("failed", "encode", 7))
        self.assertIn("free", told["reason"])
        self.assertFalse((self.store / "models/a-kaiju1.knot").exists())
        (small / "filler").unlink()
        self.kaiju("zoo", "watch", "--once", *state, "--share-machine", *FAST, code=12)
        self.kaiju("zoo", "retry", "a", *state, "--share-machine", *FAST)
        self.kaiju("zoo", "watch", "--interval", "0.1", *state, "--share-machine", *FAST, code=11)
        self.kaiju("knot", "verify", self.store / "models/a-kaiju1.knot")

    def test_a_feeder_that_fails_is_not_looped(self):
        self.entry("a", "auto-feed", source="not-there.gguf")
        self.zoo("watch", "--interval", "0.1", code=12)
        self.zoo("watch", "--interval", "0.1", code=12)
        attempts = self.zoo_answer("status")["attempts"]
        self.assertEqual([a["name"] for a in attempts], ["a-feed-1"])
        self.assertIn("not-there.gguf", attempts[0]["verdict"])


class V3(ZooTest):
    """Jobs of encoder v3: they need more, and their keys are numbered."""

    def setUp(self):
        super().setUp()
        self.feed("a")
        self.put("models/a-kaiju1.knot", self.made(1) / "knot")
        self.keys = {"f16": "models/a/a-f16.gguf", "imatrix": "models/iq-ladder/a/a.imatrix", "base": "models/a.knot",
                     "qspec": "models/a/a.qspec.json", "v1": "models/a-kaiju1.knot"}
        self.limits = {"ppl_max": 1e6, "kl_max": 100.0, "reference": "f16", "clamp_limit": 100.0}
        self.kaiju("capture", "--model", self.made(1) / "f16.gguf", "--text", self.store / "texts/calibration.txt", "--out",
                   "a.sket", "--max-tokens", 2048, "--ctx", 128)

    def sketch(self, model):
        """Puts the sketch where the feeder of that model would."""
        digits = hashlib.sha256((self.folder / "a.sket").read_bytes()).hexdigest()[:8]
        self.put(f"models/sketches/{model}-{digits}.sket", self.folder / "a.sket")
        return f"models/sketches/{model}-{digits}.sket"

    def test_prerequisites_are_those_of_this_model(self):
        self.entry("a.v3", encoder="v3", keys=self.keys, **self.limits)
        self.sketch("a.v3-small")  # of a model whose id begins like this one's
        self.assertIn("not ready: sketch", self.zoo("submit", "a.v3", code=5).stderr)
        self.zoo("watch", "--once", code=12)
        key = self.sketch("a.v3")
        self.assertIn(key, [p["key"] for p in self.zoo_answer("check", "a.v3")["models"][0]["prerequisites"]])
        self.entries[0]["keys"] = {**self.keys, "v1": "models/b-kaiju1.knot"}
        self.assertIn("not ready: v1", self.zoo("submit", "a.v3", code=5).stderr)
        self.entries[0]["keys"] = self.keys
        self.entries[0]["reference"] = "models/a/another.gguf"
        self.assertIn("not ready: reference", self.zoo("submit", "a.v3", code=5).stderr)

    def test_a_knot_better_than_its_v1_is_published_under_its_number(self):
        self.entry("a.v3", encoder="v3", keys=self.keys, **self.limits)
        sketch = self.sketch("a.v3")
        (self.store / "models/a.v3-kaiju3-r3.knot.claim.1").write_text('{"owner":"another","token":1}')  # somebody has used 3
        self.zoo("watch", "--once", code=12)  # an attempt that this state does not know is not run again
        self.zoo("submit", "a.v3", "--submit", *FAST)
        self.zoo("watch", "--interval", "0.1", *FAST, code=11)
        knot = self.store / "models/a.v3-kaiju3-r4.knot"
        self.kaiju("encode", "--encoder", "v3", "--model", self.made(1) / "f16.gguf", "--imatrix", self.made(1) / "imatrix",
                   "--base", self.made(1) / "base", "--sketch", self.store / sketch, "--out", "expected.knot",
                   "--clamp-limit", 100)
        made, right = (self.answer("knot", "info", path)["entries"] for path in (knot, "expected.knot"))
        self.assertEqual(made, right)
        self.assertNotEqual(made, self.answer("knot", "info", self.made(1) / "knot")["entries"])
        gate = json.loads((self.store / "models/a.v3-kaiju3-r4.gate.json").read_text())
        self.assertIs(gate["pass"], True)
        telemetry = json.loads((self.store / "models/a.v3-kaiju3-r4.telemetry.json").read_text())
        self.assertTrue(all("full_excess" in json.dumps(t) for t in telemetry["tensors"]), telemetry["tensors"][0])

    def test_a_failed_attempt_keeps_its_number_and_its_log(self):
        self.limits["ppl_max"] = 1.5
        self.entry("a.v3", encoder="v3", keys=self.keys, **self.limits)
        self.sketch("a.v3")
        self.zoo("watch", "--interval", "0.1", *FAST, code=12)
        self.zoo("watch", "--once", code=12)  # and is not looped
        self.entries[0]["ppl_max"] = 1e6
        self.zoo("retry", "a.v3", *FAST)
        self.wait_for("done", "a.v3-kaiju3-r2")
        self.zoo("watch", "--once", code=11)
        published = {path.name for path in (self.store / "models").glob("a.v3-kaiju3-*")}
        first = {name for name in published if "-r1." in name}
        self.assertEqual(first, {"a.v3-kaiju3-r1.knot.claim.1", "a.v3-kaiju3-r1.gate.log", "a.v3-kaiju3-r1.gate.log.claim.1"})
        self.assertIn("FAIL", (self.store / "models/a.v3-kaiju3-r1.gate.log").read_text())
        self.assertIn("a.v3-kaiju3-r2.knot", published)
        os.rename(self.folder / "state", self.folder / "old-state")
        self.zoo("rebuild")
        self.zoo("watch", "--once", code=11)

    def test_kaiju4_needs_a_sketch_and_no_v1(self):
        (self.store / "models/a-kaiju1.knot").unlink()
        keys = {what: key for what, key in self.keys.items() if what != "v1"}
        limits = {what: value for what, value in self.limits.items() if what != "clamp_limit"}
        self.entry("a.four", wire="KAIJU4", bits=3.5, shards=2, keys=keys, **limits)
        self.assertIn("not ready: sketch", self.zoo("submit", "a.four", code=5).stderr)
        sketch = self.sketch("a.four")
        self.zoo("watch", "--interval", "0.1", *FAST, code=11)
        self.kaiju("encode", "--wire", "KAIJU4", "--bits", 3.5, "--model", self.made(1) / "f16.gguf", "--imatrix",
                   self.made(1) / "imatrix", "--base", self.made(1) / "base", "--sketch", self.store / sketch, "--out",
                   "expected.knot")
        made, right = (self.answer("knot", "info", path)["entries"]
                       for path in (self.store / "models/a.four-kaiju4-r1.knot", "expected.knot"))
        self.assertEqual(made, right)
        self.assertIn("KAIJU4_3_5", {entry["type"] for entry in made})
        self.assertTrue((self.store / "models/a.four-kaiju4-r1.gate.log").exists())

    def test_the_gate_on_clamping_ends_the_job(self):
        self.entry("a.v3", encoder="v3", keys=self.keys, **{**self.limits, "clamp_limit": 1e-6})
        self.sketch("a.v3")
        self.zoo("watch", "--interval", "0.1", *FAST, code=12)
        failed = self.zoo_answer("status")["attempts"][0]
        self.assertEqual(failed["step"], "encode")
        self.assertIn("the gate on clamping says no", failed["verdict"])
        self.entries[0]["clamp_limit"] = 100.0
        self.zoo("retry", "a.v3", *FAST)
        self.wait_for("done", "a.v3-kaiju3-r2")
        self.assertFalse((self.store / "models/a.v3-kaiju3-r1.knot").exists())

    def test_shards_give_the_same_bytes(self):
        self.sketch("a.v3")
        whole = self.sketch("whole")
        for model, shards in (("a.v3", 3), ("whole", 1)):
            self.entry(model, encoder="v3", shards=shards, keys={**self.keys, "sketch": whole}, **self.limits)
        self.zoo("watch", "--interval", "0.1", *FAST, code=11)
        made, right = (self.answer("knot", "info", self.store / f"models/{model}-kaiju3-r1.knot")["entries"]
                       for model in ("a.v3", "whole"))
        self.assertEqual(made, right)


class Clocks(ZooTest):
    def setUp(self):
        super().setUp()
        library, = glob.glob("/usr/lib/*/faketime/libfaketime.so.1") or [None]
        if library is None:
            self.skipTest("needs the package faketime")
        self.clock = self.folder / "clock"
        self.clock.write_text("+0")
        # Wall clocks jump; what counts seconds since boot does not.
        self.environment = {"LD_PRELOAD": library, "FAKETIME_TIMESTAMP_FILE": str(self.clock), "FAKETIME_NO_CACHE": "1",
                            "FAKETIME_DONT_FAKE_MONOTONIC": "1"}

    def jump(self, days):
        self.clock.with_suffix(".new").write_text(f"{days:+d}d")
        os.rename(self.clock.with_suffix(".new"), self.clock)

    def test_jumps_neither_break_nor_keep_leases(self):
        self.entry("a")
        self.feed("a")
        leases = self.store / "zoo/lease"
        leases.mkdir(parents=True)
        (leases / "0.1").write_text(json.dumps({"owner": "another-host", "kind": "encode"}))
        for days in (0, 400, -400):
            self.jump(days)
            (leases / "0.1.beat").write_text(str(days))  # it is alive
            self.assertIn("another-host", self.zoo("submit", "a", "--submit", "--lease-term", "1", code=6).stderr)
        time.sleep(1.2)
        self.jump(-800)
        self.zoo("submit", "a", "--submit", "--lease-term", "1")  # silent for a term by this host's own count
        self.wait_for("done", "a-kaiju1")

    def test_a_queue_drains_through_jumps(self):
        for model in ("a", "b", "c"):
            self.entry(model)
            self.feed(model)
        watch = self.watch()
        for days in (400, -400, 800, 0) * 10:
            self.jump(days)
            time.sleep(0.1)
        out, err = watch.communicate(timeout=240)
        self.assertEqual(watch.returncode, 11, out + err)
        self.assertNotIn("died", err)
        self.assertEqual([a["restarts"] for a in self.zoo_answer("status")["attempts"]], [0, 0, 0])

    def test_a_job_noted_in_the_future_and_never_started_is_taken_up(self):
        self.entry("a")
        self.feed("a")
        self.jump(400)
        plan = self.zoo_answer("submit", "a", "--submit", *FAST)
        os.kill(int(plan["handle"].split("@")[0]), signal.SIGKILL)
        self.jump(0)
        with sqlite3.connect(self.folder / "state/state.db") as state:  # as if the submitter had died just before
            state.execute("UPDATE attempts SET handle = ''")
        state.close()
        self.zoo("watch", "--interval", "0.2", "--lease-term", "2", "--lease-beat", "0.2", code=11)


unittest.main()
