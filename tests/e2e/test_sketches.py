"""Sketches, scores and their gates from outside: what is printed, and with which exit code."""
import json
import signal
import subprocess
import time
import unittest

from support import GOLDEN, KAIJU, KaijuTest, text


# Full excess relative to no feedback: measured, and a third to either side.
BOUNDS = (("sketch", 0.19, 0.38), ("full", 0.147, 0.294), ("published", 1.0, 2.0))


class Sketches(KaijuTest):
    def setUp(self):
        super().setUp()
        self.encoded()

    def capture(self, out, *more, code=0):
        return self.answer("capture", "--model", "model.gguf", "--text", "calibration.txt", "--out", out, "--ctx", 128,
                           "--max-tokens", 1024, *more, code=code)

    def test_capture_and_check(self):
        made = self.capture("model.sket", "--k", 16, "--stride", 1)
        self.assertEqual((made["taps"], made["tokens"], made["samples"], made["nystrom_taps"]), (8, 1024, 1024, 0))
        info = self.answer("sketch", "info", "model.sket")
        self.assertEqual((info["entries"], info["sha256"], info["model_id"]), (8, made["sha256"], "tiny"))
        for tap in info["taps"]:
            self.assertEqual((tap["k"], tap["samples"]), (16, 1024))
            self.assertGreater(tap["captured"], 0)
            self.assertLessEqual(tap["captured"], 1.0001)
        checked = self.answer("sketch", "check", "model.sket", "--imatrix", "importance.gguf")
        self.assertIs(checked["pass"], True)
        self.assertGreater(checked["least_correlation"], 0.999)
        self.assertEqual(len(checked["taps"]), 8)

        # The importance of another model: every tap is named.
        self.tiny_model("other.gguf", seed=7)
        self.kaiju("imatrix", "--model", "other.gguf", "--text", "calibration.txt", "--out", "other.imatrix.gguf",
                   "--ctx", 128, "--chunks", 8)
        failed = self.answer("sketch", "check", "model.sket", "--imatrix", "other.imatrix.gguf", code=1)
        self.assertIs(failed["pass"], False)
        self.assertIn("blk.1.ffn_down_in", failed["failed"])

        self.capture("model.sket", code=4)
        self.capture("never.sket", "--memory", "1K", code=2)
        self.capture("never.sket", "--memory", "lots", code=2)
        self.capture("never.sket", "--memory", "4XB", code=2)
        self.capture("model.full", "--full")
        for bad in sorted((GOLDEN / "bad").glob("*.sket")):
            self.assertEqual(self.answer("sketch", "check", bad, code=3)["error"]["name"], "bad_input", bad.name)
        self.assertIs(self.answer("sketch", "check", GOLDEN / "tiny.sket")["pass"], True)

    def test_a_killed_capture_goes_on(self):
        (self.folder / "long.txt").write_text(text(100000))
        arguments = ["capture", "--model", "model.gguf", "--text", "long.txt", "--ctx", "128", "--k", "8", "--checkpoint",
                     "0", "--max-tokens", "12800"]
        self.kaiju(*arguments, "--out", "whole.sket")
        running = subprocess.Popen([KAIJU, *arguments, "--out", "cut.sket"], cwd=self.folder, stderr=subprocess.DEVNULL)
        state = self.folder / "cut.sket.part.state"
        while running.poll() is None and not state.exists():
            time.sleep(0.005)
        running.send_signal(signal.SIGKILL)
        running.wait()
        if running.returncode == 0:
            self.skipTest("this machine is too fast to kill it on its way")
        self.assertFalse((self.folder / "cut.sket").exists())
        self.kaiju(*arguments, "--out", "cut.sket", code=2)
        resumed = self.answer(*arguments, "--out", "cut.sket", "--resume")
        self.assertGreater(resumed["resumed_tokens"], 0)
        self.assertEqual((self.folder / "cut.sket").read_bytes(), (self.folder / "whole.sket").read_bytes())
        self.assertFalse(state.exists())

    def test_scores_and_gates(self):
        self.capture("model.sket", "--k", 64, "--stride", 1)
        self.tiny_model("q4.gguf", type="q4_0")
        common = ("--truth", "model.gguf", "--imatrix", "importance.gguf", "--kaiju", "model.knot", "--iq", "q4.gguf",
                  "--iq-type", "any")
        score = self.kaiju("score", *common, "--sketch", "model.sket", "--k", "32,64", "--json", code=1)
        answer = json.loads(score.stdout)
        self.assertEqual((answer["gate"], answer["k"], answer["pass"]), ("G1", [32, 64], False))
        knot, q4 = answer["artifacts"]
        self.assertEqual(len(knot["tensors"]), 12)
        for artifact in (knot, q4):
            self.assertGreater(artifact["diag_excess"], 0)
            self.assertAlmostEqual(artifact["diag_excess"], sum(t["diag_excess"] for t in artifact["tensors"]))
            self.assertTrue(all(value > 0 for value in artifact["full_excess"]))
        # Three bits cost more than four and a half, whatever the metric: nothing is proven, and it says so.
        self.assertGreater(answer["g1"]["diag_ratio"], 1)
        self.assertIn("not validated", answer["g1"]["reason"])
        self.kaiju("score", *common, "--sketch", "model.sket", "--k", "128", code=2)
        self.answer("score", "--truth", "model.gguf", "--imatrix", "importance.gguf", "--kaiju", "model.knot",
                    "--sketch", "model.sket", "--k", "32")

        gap = self.answer("shootout", "--mode", "model-gap", *common, "--text", "evaluation.txt", "--ctx", 128, "--chunks",
                          2, code=1)
        self.assertEqual((gap["gate"], gap["pass"], len(gap["tensors"])), ("G0", False, 12))
        self.assertGreater(gap["kaiju_ppl"], 1)
        self.assertIn("ffn_down", gap["bad_roles"])
        known = self.answer("shootout", "--mode", "model-gap", *common, "--kaiju-ppl", 1, "--iq-ppl", 2, code=1)
        self.assertEqual((known["kaiju_ppl"], known["iq_ppl"]), (1, 2))
        self.kaiju("shootout", "--mode", "model-gap", "--truth", "model.gguf", code=2)

        for source in ((), ("--model", "model.gguf")):
            rows = self.answer("shootout", "--mode", "gap", "--blocks", 500, *source)["results"]
            self.assertEqual([row["lattice"] for row in rows], ["Z", "E8", "Leech"])
            self.assertGreater(rows[0]["second_moment"], rows[2]["second_moment"])
        rows = self.answer("shootout", "--mode", "rate-distortion", "--blocks", 200, "--bits", "2,3")["results"]
        self.assertEqual(len(rows), 6)

    def test_what_v3_buys_stays_within_bounds(self):
        """Two-sided: worse is a fault of the encoder, much better one of the measurement."""
        self.capture("model.sket", "--k", 32, "--stride", 1)
        self.capture("model.full", "--full", "--stride", 1)
        totals = {}
        for name, options in (("sketch", ("--sketch", "model.sket")), ("full", ("--covariance", "model.full")),
                              ("none", ("--covariance", "model.full", "--fold", "none")),
                              ("published", ("--covariance", "model.full", "--fold", "published"))):
            self.kaiju("encode", "--model", "model.gguf", "--imatrix", "importance.gguf", "--encoder", "v3", *options,
                       "--out", f"{name}.knot", "--telemetry", f"{name}.json", "--clamp-limit", 0)
            telemetry = json.loads((self.folder / f"{name}.json").read_text())
            totals[name] = telemetry["totals"]["relative_full_excess"]
            if name in ("sketch", "full"):
                for tensor in telemetry["tensors"]:
                    self.assertLess(tensor["excess_ratio"], 1, tensor["name"])
                    self.assertGreater(tensor["excess_ratio"], 0.01, tensor["name"])
        for name, low, high in BOUNDS:
            self.assertTrue(low < totals[name] / totals["none"] < high, f"{name}: {totals}")

    def test_the_side_band_goes_where_the_model_suffers(self):
        self.capture("model.full", "--full", "--stride", 1)
        encode = ("encode", "--model", "model.gguf", "--imatrix", "importance.gguf", "--encoder", "v3", "--clamp-limit", 0)
        full = ("--covariance", "model.full")
        even = self.answer(*encode, *full, "--hi-frac", 0.25, "--out", "even.knot")
        self.answer("sensitivity", "--model", "model.gguf", "--quantised", "even.knot", "--text", "calibration.txt", "--ctx", 128,
                    "--out", "s.json")
        told = json.loads((self.folder / "s.json").read_text())
        self.assertEqual(told["type"], "KAIJU1")
        self.assertTrue(all(row["mean_kl"] > 0 for row in told["roles"] + told["layers"]))
        told["layers"][0]["mean_kl"] *= 1000
        (self.folder / "told.json").write_text(json.dumps(told))
        fitted = (*encode, *full, "--hi-frac", 0.25, "--sensitivity", "told.json")
        plan = self.answer(*fitted, "--out", "x.knot", "--dry-run")
        self.assertLessEqual(plan["payload_bytes"], even["bytes"])
        self.assertGreater(plan["payload_bytes"], 0.9 * even["bytes"])
        bits = {tensor["name"]: tensor["bits"] for tensor in plan["tensors"] if tensor["type"] == "KAIJU1"}
        self.assertGreater(bits["blk.0.ffn_down.weight"], bits["blk.1.ffn_down.weight"])
        self.assertGreaterEqual(bits["blk.0.ffn_up.weight"], bits["blk.1.ffn_up.weight"])
        self.answer(*fitted, "--out", "fitted.knot")
        self.kaiju("knot", "verify", "fitted.knot")
        # Shards agree on who gets what.
        for part in range(3):
            self.kaiju(*fitted, "--out", f"{part}.part.knot", "--shard", f"{part}/3")
        self.kaiju("assemble", *(f"{part}.part.knot" for part in range(3)), "--out", "joined.knot")
        self.assertEqual((self.folder / "joined.knot").read_bytes(), (self.folder / "fitted.knot").read_bytes())
        # Where nothing is left to decide, and with the encoder that is pinned, it is an error.
        fixed = self.kaiju(*fitted, "--tensor-type", "weight=KAIJU1", "--include", "ffn_up", "--tensor-type",
                           "norm|embd|output|attn|down|gate=COPY", "--out", "never.knot", code=2)
        self.assertIn("--sensitivity", fixed.stderr)
        self.kaiju(*encode[:5], "--sensitivity", "s.json", "--out", "never.knot", code=2)

    def test_g3(self):
        self.kaiju("gate", "mint", "--model", "model.gguf", "--prompt", "the quick", "--id", "tiny", "--min-margin", 0,
                   "--out", "qspec.json")
        common = ("gate", "g3", "--qspec", "qspec.json", "--reference", "model.gguf", "--text", "evaluation.txt", "--ctx",
                  "128,64", "--chunks", 2)
        # The model itself is the perfect artifact.
        fine = self.answer(*common, "--v3", "model.gguf", "--v1", "model.knot", "--ppl-max", 1e6, "--kl-max", 1)
        self.assertEqual((fine["gate"], fine["pass"], fine["failures"]), ("G3", True, []))
        self.assertEqual([figures["ctx"] for figures in fine["figures"]], [128, 64])
        self.assertLess(fine["figures"][0]["v3"]["mean_kl"], fine["figures"][0]["v1"]["mean_kl"])
        failed = self.answer(*common, "--v3", "model.gguf", "--v1", "model.knot", "--iq", "model.knot", "--ppl-max", 1,
                             "--kl-max", 1, "--out", "verdict.json", code=1)
        self.assertEqual(json.loads((self.folder / "verdict.json").read_text()), failed)
        self.assertTrue(any("ppl_max" in failure for failure in failed["failures"]), failed["failures"])
        self.assertTrue(any("linear bits" in failure for failure in failed["failures"]), failed["failures"])
        worse = self.answer(*common, "--v3", "model.knot", "--v1", "model.gguf", "--ppl-max", 1e6, "--kl-max", 10,
                            code=1)
        self.assertTrue(any("not below v1's" in failure for failure in worse["failures"]), worse["failures"])
        self.kaiju(*common, "--v3", "model.knot", "--v1", "model.gguf", "--ppl-max", 1e6, code=2)
        self.kaiju(*common, "--v3", "model.knot", "--v1", "model.gguf", "--ppl-max", 0, "--kl-max", 1, code=2)


unittest.main()
