"""The zoo on a real S3 server that goes away, fails, lies and is slow."""
import functools
import http.server
import itertools
import json
import os
import shutil
import subprocess
import threading
import unittest

from support import MAKE_TINY_MODEL
from zoo_support import S3ZooTest

OUTAGE = 60 if os.environ.get("KAIJU_LONG") else 6
PATIENT = ("--lease-beat", "1", "--lease-term", "300")  # more than any outage here


class S3Zoo(S3ZooTest):
    def fed_with_limits(self, model="a"):
        """A model whose job fetches the evaluation text, too."""
        self.entry(model, ppl_max=1e6, kl_max=100.0, reference="f16")
        self.feed(model)

    def assert_published(self, model="a", seed=1):
        made, right = (self.answer("knot", "info", path)["entries"]
                       for path in (self.stored(f"models/{model}-kaiju1.knot"), self.made(seed) / "knot"))
        self.assertEqual(made, right)
        keys = self.keys()
        for ending in ("telemetry.json", "gate.json", "gate.log"):
            self.assertIn(f"models/{model}-kaiju1.{ending}", keys)

    def assert_nothing_published(self, model="a"):
        self.assertFalse([key for key in self.keys() if key.startswith(f"models/{model}-kaiju1.") and ".claim." not in key])


class Outages(S3Zoo):
    def test_the_store_is_away_while_a_job_fetches_and_publishes(self):
        self.fed_with_limits()
        to_come = [("GET", "texts/evaluation.txt"), ("PUT", "a-kaiju1.knot")]  # what only the job asks for

        def rule(method, path):
            if to_come and method == to_come[0][0] and path.split("?")[0].endswith(to_come[0][1]):
                to_come.pop(0)
                self.server.stop()
                threading.Timer(OUTAGE, self.server.start).start()
            return None

        self.faults.rule = rule
        self.zoo("submit", "a", "--submit", *PATIENT)
        self.wait_for("done", "a-kaiju1", 4 * OUTAGE + 120)
        self.assertEqual(to_come, [])
        self.assert_published()
        story = (self.folder / "state/jobs/a-kaiju1/story.log").read_text()
        self.assertEqual(story.count("fetch begins"), 1, story)
        self.assertEqual(story.count("publish begins"), 1, story)

    def test_a_store_that_stays_away_fails_the_job_and_publishes_nothing(self):
        self.fed_with_limits()
        reached = []

        def rule(method, path):
            if method == "PUT" and path.endswith("a-kaiju1.telemetry.json"):
                reached.append(path)
            return 503 if reached and "a-kaiju1" in path and "zoo/jobs" not in path else None

        self.faults.rule = rule
        self.zoo("submit", "a", "--submit", "--patience", "2", *PATIENT)
        failed = self.wait_for("failed", "a-kaiju1", 120)
        self.faults.first(0, None)
        self.assertEqual(failed["step"], "publish")
        self.assertIn("HTTP 503", failed["verdict"])
        self.assertNotIn("models/a-kaiju1.knot", self.keys())  # what others wait for comes last
        self.zoo("retry", "a", *PATIENT)
        self.wait_for("done", "a-kaiju1", 120)
        self.assert_published()


class Weather(S3Zoo):
    def test_a_job_gets_through_whatever_passes(self):
        self.fed_with_limits()
        asked = itertools.count(1)
        faults = itertools.cycle([500, 503, "drop", "truncate", "lost", 429, 0.3])
        hits = []

        def rule(_method, _path):
            hit = next(faults) if next(asked) % 4 == 0 else None
            hits.append(hit)
            return hit

        self.faults.rule = rule
        self.zoo("submit", "a", "--submit", *PATIENT)
        self.wait_for("done", "a-kaiju1", 240)
        self.faults.first(0, None)
        for fault in (500, 503, "drop", "truncate", "lost", 429, 0.3):
            self.assertIn(fault, hits)
        self.assert_published()

    def test_wrong_bytes_fail_the_fetch_and_are_not_encoded(self):
        self.fed_with_limits()
        self.faults.first(10**6, "flip", "GET", "evaluation.txt")
        self.zoo("submit", "a", "--submit", *PATIENT)
        failed = self.wait_for("failed", "a-kaiju1", 120)
        self.faults.first(0, None)
        self.assertEqual(failed["step"], "fetch")
        self.assertIn("SHA-256", failed["verdict"])
        self.assert_nothing_published()
        self.zoo("retry", "a", *PATIENT)
        self.wait_for("done", "a-kaiju1", 120)
        self.assert_published()


class Split(S3Zoo):
    """A model in several files."""

    def setUp(self):
        super().setUp()
        shutil.copy(self.made(1) / "f16.gguf", self.folder / "whole.gguf")
        first = subprocess.run([MAKE_TINY_MODEL, "model.gguf", "seed=1", "parts=3"], cwd=self.folder, check=True,
                               capture_output=True, text=True).stdout.strip()
        self.assertTrue(first.endswith("-00001-of-00003.gguf"), first)
        self.first = self.folder / first
        (self.folder / "local").mkdir()
        self.parts = sorted(self.folder.glob("model-*-of-00003.gguf"))

    def ladder(self, source, code=0):
        return self.kaiju("ladder", "--source", source, "--id", "fed", "--store", "local", "--work", "work", "--text",
                          self.store / "texts/calibration.txt", "--prompt", "the quick", "--min-margin", "0.0001", "--ctx", 128,
                          "--imatrix-chunks", 2, "--sketch-tokens", 0, code=code)

    def check_fed(self):
        self.kaiju("knot", "from-gguf", self.first, "--out", "expected.knot")
        made, right = (self.answer("knot", "info", path)["entries"]
                       for path in (self.folder / "local/models/fed.knot", self.folder / "expected.knot"))
        self.assertEqual(made, right)

    def test_is_fed_from_a_bucket(self):
        for part in self.parts[:2]:
            self.put(f"sources/{part.name}", part)
        address = f"{self.address}/sources/{self.first.name}"
        self.assertIn(self.parts[2].name, self.ladder(address, code=5).stderr)  # one part is not there yet
        self.put(f"sources/{self.parts[2].name}", self.parts[2])
        self.ladder(address)
        self.check_fed()
        self.answer("smoke", "--model", address, "--tokens", "1,2,3")

    def test_is_fed_from_a_web_server(self):
        class Handler(http.server.SimpleHTTPRequestHandler):
            def log_message(self, *_):
                pass

        handler = functools.partial(Handler, directory=self.folder)
        with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as web:
            threading.Thread(target=web.serve_forever, daemon=True).start()
            self.ladder(f"http://127.0.0.1:{web.server_port}/{self.first.name}")
            web.shutdown()
        self.check_fed()

    def test_is_encoded_like_one_in_one_file(self):
        self.feed("a")
        for part in self.parts:
            self.put(f"models/a/{part.name}", part)
        self.entry("a", keys={"f16": f"models/a/{self.first.name}"}, ppl_max=1e6, kl_max=100.0, reference="f16")
        self.zoo("submit", "a", "--submit", *PATIENT)
        self.wait_for("done", "a-kaiju1", 120)
        self.assert_published()


class Shards(S3Zoo):
    def test_read_only_their_tensors_and_make_the_same_bytes(self):
        self.entry("a", shards=3, ppl_max=1e6, kl_max=100.0, reference="f16")
        self.feed("a", seed=9)
        self.zoo("submit", "a", "--submit", *PATIENT)
        self.wait_for("done", "a-kaiju1", 240)
        self.assert_published(seed=9)
        job = self.folder / "state/jobs/a-kaiju1"
        self.assertEqual(sorted(path.name for path in (job / "in").iterdir()), ["imatrix", "qspec.json", "text"])
        self.assertEqual(len(list((job / "out").glob("part-*.knot"))), 3)


class Probing(S3Zoo):
    def test_is_parallel_and_bounded(self):
        for model in range(40):
            self.entry(f"m{model}")
        self.faults.first(10**6, 0.1)
        self.faults.most_open = 0
        self.zoo("check", code=1)
        self.faults.first(0, None)
        self.assertGreater(self.faults.most_open, 4)
        self.assertLessEqual(self.faults.most_open, 16)


class Races(S3Zoo):
    def test_two_watchers_share_a_queue(self):
        for model in ("a", "b", "c"):
            self.entry(model)
            self.feed(model)
        watchers = [self.watch(state=state) for state in ("one", "two")]
        for watcher in watchers:
            out, err = watcher.communicate(timeout=240)
            self.assertEqual(watcher.returncode, 11, out + err)
        begun = []
        for story in self.folder.glob("*/jobs/*/story.log"):
            for line in story.read_text().splitlines():
                if "fetch begins" in line:
                    begun.append(story.parent.name)
        self.assertEqual(sorted(begun), ["a-kaiju1", "b-kaiju1", "c-kaiju1"])
        for model in ("a", "b", "c"):
            self.assert_published(model)


unittest.main()
