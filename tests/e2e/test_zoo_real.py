"""The zoo with a real model on a real S3 server. `test_zoo_real.py stories260K | smollm2`: which one."""
import glob
import json
import os
import pathlib
import subprocess
import sys
import unittest

from s3_server import SECRET
from support import SOURCE
from zoo_support import Eavesdropper, S3ZooTest

NAME = sys.argv.pop(1)
DATA = pathlib.Path(os.environ.get("KAIJU_DATA", SOURCE.parent / "shared/data"))
SKIPPED = 77  # as told to ctest

if NAME == "stories260K":
    MODEL, PROMPT, MARGIN = DATA / "stories260K/stories260K-f32.gguf", "Once upon a", 0.5
    SETTINGS = {"ctx": 128, "calibration_chunks": 8, "evaluation_chunks": 4, "sketch_tokens": 2048}
    if not MODEL.exists():
        print(f"skipped: needs {MODEL}; KAIJU_DATA names the folder")
        sys.exit(SKIPPED)
else:
    MODEL, PROMPT, MARGIN = None, "To be or not to", 1.0
    SETTINGS = {"ctx": 128, "calibration_chunks": 8, "evaluation_chunks": 2, "sketch_tokens": 2048}


def fetch_smollm2(path):
    subprocess.run(["bash", "-euc", f"cd {SOURCE}; . scripts/lib.sh; . scripts/steps.sh; cd {path.parent}; fetch_smollm2 {path}"],
                   check=True, timeout=600)
    return path


class Real(S3ZooTest):
    def setUp(self):
        super().setUp()
        self.settings = {**SETTINGS, "prompt": PROMPT}
        self.source = MODEL or fetch_smollm2(self.folder / "model.gguf")

    def fed(self, model):
        """What the feeder makes of the source, done by hand, without sketch and rungs."""
        self.kaiju("ladder", "--source", self.source, "--id", model, "--store", self.address, "--work", f"feed-{model}", "--text",
                   self.store / "texts/calibration.txt", "--prompt", PROMPT, "--min-margin", MARGIN, "--ctx", SETTINGS["ctx"],
                   "--imatrix-chunks", SETTINGS["calibration_chunks"], "--sketch-tokens", 0)

    def own_qspec(self, model, turned=False):
        """The qspec that was minted, under another name; turned round it is a gate that fails."""
        qspec = json.loads(self.stored("models/ready/ready.qspec.json").read_text())
        qspec["id"] = model
        if turned:
            qspec["expect_token"], qspec["reject_token"] = qspec["reject_token"], qspec["expect_token"]
        path = self.folder / f"{model}.qspec.json"
        path.write_text(json.dumps(qspec))
        self.put(f"models/{model}/{model}.qspec.json", path)

    def check_artifacts(self, model, of, *more):
        """The knot is what one encode by hand makes, and everything beside it is there."""
        stem = f"models/{model}"
        knot = self.stored(f"{stem}.knot")
        self.kaiju("knot", "verify", knot)
        expected = self.folder / f"{model}-expected.knot"
        self.kaiju("encode", "--model", self.stored(f"models/{of}/{of}-f16.gguf"), "--imatrix",
                   self.stored(f"models/iq-ladder/{of}/{of}.imatrix"), "--base", self.stored(f"models/{of}.knot"), "--out",
                   expected, *more)
        made, right = (self.answer("knot", "info", path)["entries"] for path in (knot, expected))
        self.assertEqual(made, right)
        encoded = sum(entry["type"] == "KAIJU1" for entry in made)
        self.assertGreater(encoded, 0)
        telemetry = json.loads(self.stored(f"{stem}.telemetry.json").read_text())
        self.assertEqual(len(telemetry["tensors"]), encoded)
        gate = json.loads(self.stored(f"{stem}.gate.json").read_text())
        self.assertIs(gate["pass"], True, gate)
        self.assertIn("PASS", self.stored(f"{stem}.gate.log").read_text())
        return gate

    def test_a_queue_of_six_drains_unattended(self):
        shared = {"f16": "models/ready/ready-f16.gguf", "base": "models/ready.knot"}
        imatrix = "models/iq-ladder/ready/ready.imatrix"
        limits = {"ppl_max": 1e6, "kl_max": 100.0, "reference": "f16"}
        self.entry("ready", **limits)
        self.entry("fed", "auto-feed", source=str(self.source), min_margin=MARGIN, **limits)
        self.entry("outside", "EXTERNAL", keys=shared)
        self.entry("held", "HOLD", reason="not today")
        self.entry("mixture", "out-of-scope", reason="mixture of experts")
        self.entry("wrong", keys={**shared, "imatrix": imatrix})
        self.fed("ready")
        self.own_qspec("outside")
        self.own_qspec("wrong", turned=True)
        spy = Eavesdropper()
        watch = self.watch()
        try:
            self.wait_for("done", "ready-kaiju1", 600, watch)
            self.put("models/iq-ladder/outside/outside.imatrix", self.stored(imatrix))  # while the watcher is at work
            out, err = watch.communicate(timeout=1500)
        finally:
            watch.kill()
            lines = spy.heard()
        self.assertEqual(watch.returncode, 12, out + err)
        standing = {m["model"]: m["standing"] for m in json.loads(out)["models"]}
        self.assertEqual(standing, {"ready": "done", "fed": "done", "outside": "done", "held": "on-hold",
                                    "mixture": "out-of-scope", "wrong": "failed"})
        for model, of in (("ready", "ready"), ("fed", "fed"), ("outside", "ready")):
            gate = self.check_artifacts(f"{model}-kaiju1", of)
            if model != "outside":
                self.assertGreater(gate["mean_kl"], 0)
        keys = self.keys()
        self.assertIn("models/wrong-kaiju1.gate.log", keys)
        for ending in ("knot", "telemetry.json", "gate.json"):
            self.assertNotIn(f"models/wrong-kaiju1.{ending}", keys)
        ladder = json.loads(self.stored("models/iq-ladder/fed/fed.ladder.json").read_text())
        self.assertEqual([r["type"] for r in ladder["rungs"]], ["IQ2_S", "IQ3_XXS", "IQ3_S"])
        for rung in ladder["rungs"]:
            self.assertGreater(rung["ppl"], 1)
            self.assertGreater(rung["mean_kl"], 0)
            self.assertEqual(self.stored(f"models/iq-ladder/fed/fed-{rung['type']}.gguf").stat().st_size, rung["bytes"])
        self.zoo("hold", "wrong", "--reason", "its gate")
        self.zoo("watch", "--once", code=11)
        self.check_v3()
        self.check_secrets(lines, out + err)

    def check_v3(self):
        """A model that the zoo has by encoder v1 gets one by v3, from the sketch that the feeder left."""
        sketch, = (key for key in self.keys() if key.startswith("models/sketches/fed-") and ".claim." not in key)
        keys = {"f16": "models/fed/fed-f16.gguf", "imatrix": "models/iq-ladder/fed/fed.imatrix", "base": "models/fed.knot",
                "qspec": "models/fed/fed.qspec.json", "sketch": sketch, "v1": "models/fed-kaiju1.knot"}
        self.entry("fed.v3", encoder="v3", keys=keys, ppl_max=1e6, kl_max=100.0, reference="f16",
                   clamp_limit=100.0)  # stories260K has too few blocks for a rate
        out, err = self.watch().communicate(timeout=1200)
        self.assertIn('"code":11', out, err)
        gate = self.check_artifacts("fed.v3-kaiju3-r1", "fed", "--encoder", "v3", "--clamp-limit", 100, "--sketch",
                                    self.stored(sketch))
        v1 = json.loads(self.stored("models/fed-kaiju1.gate.json").read_text())
        self.assertLess(gate["mean_kl"], v1["mean_kl"])

    def check_secrets(self, lines, printed):
        secret = SECRET.encode()
        self.assertTrue(any(b"\0zoo\0run\0" in line for line in lines))
        self.assertFalse([line for line in lines if secret in line])
        self.assertNotIn(SECRET, printed)
        self.zoo("report", "--out", "report.html")
        files = [self.folder / "report.html", *map(pathlib.Path, glob.glob(f"{self.folder}/state/**/*", recursive=True))]
        files += [self.stored(key) for key in self.keys() if key.endswith((".json", ".log")) or ".claim." in key or "lease" in key]
        read = [path for path in files if path.is_file() and not path.is_symlink() and path.stat().st_size < 2**22]
        self.assertGreater(len(read), 30)
        for path in read:
            self.assertNotIn(secret, path.read_bytes(), path)


unittest.main()
