"""KAIJU4 from outside: rates and target sizes, parts, both engines, and the independent decoder."""
import json
import subprocess
import unittest

from support import SOURCE, KaijuTest

PYTHON = "/usr/bin/python3"  # Debian's: the one whose NumPy the set-up installs


def has_numpy():
    return subprocess.run([PYTHON, "-c", "import numpy"], capture_output=True, check=False).returncode == 0


def npy_values(path):
    """The bytes of an array, without the header, which programs pad as they like."""
    file = path.read_bytes()
    return file[10 + int.from_bytes(file[8:10], "little"):]


class Kaiju4(KaijuTest):
    def setUp(self):
        super().setUp()
        self.tiny_model()
        self.calibrated()
        self.kaiju("capture", "--model", "model.gguf", "--text", "calibration.txt", "--out", "model.full", "--full", "--ctx", 128,
                   "--max-tokens", 1024, "--stride", 1)
        self.encode = ("encode", "--model", "model.gguf", "--imatrix", "importance.gguf", "--wire", "KAIJU4", "--covariance",
                       "model.full")

    def measured(self, knot, *more):
        return self.answer("ppl", "--model", knot, "--reference", "model.gguf", "--text", "evaluation.txt", "--ctx", 128,
                           "--chunks", 4, *more)

    def test_more_bits_lose_less_and_both_engines_agree(self):
        losses = []
        for bits in (2, 3, 4):
            knot = f"{bits}.knot"
            made = self.answer(*self.encode, "--bits", bits, "--out", knot)
            self.assertEqual(self.answer(*self.encode, "--bits", bits, "--out", "never.knot", "--dry-run")["file_bytes"],
                             (self.folder / knot).stat().st_size)
            self.assertLess(made["linear_bits"], bits + 1.2, "64 columns: 16 bits of scale a row, and padding to 72")
            self.kaiju("knot", "verify", knot)
            exact = self.measured(knot, "--engine", "llama")
            served = self.measured(knot, "--engine", "native")
            precise = self.measured(knot, "--engine", "native", "--precise")
            self.assertLess(abs(served["ppl"] / exact["ppl"] - 1), 2e-3)
            self.assertLess(abs(precise["ppl"] / exact["ppl"] - 1), 1e-4)
            losses.append(exact["mean_kl"])
        self.assertGreater(losses[0], 2 * losses[1])
        self.assertGreater(losses[1], 2 * losses[2])

    def test_a_target_size_is_met_and_never_exceeded(self):
        least = self.answer(*self.encode, "--bits", 1.75, "--out", "x.knot", "--dry-run")["file_bytes"]
        most = self.answer(*self.encode, "--bits", 4, "--out", "x.knot", "--dry-run")["file_bytes"]
        for part in (0.2, 0.5, 0.9):
            target = int(least + part * (most - least))
            self.answer(*self.encode, "--target-size", target, "--out", f"{part}.knot")
            size = (self.folder / f"{part}.knot").stat().st_size
            self.assertLessEqual(size, target)
            self.assertGreater(size, target - 0.08 * (most - least))
        refused = self.kaiju(*self.encode, "--target-size", least // 2, "--out", "never.knot", code=2)
        self.assertIn("lowest rate", refused.stderr)
        self.assertIn("1.75 to 4", self.kaiju(*self.encode, "--bits", 4.5, "--out", "never.knot", code=2).stderr)
        fixed = ("--tensor-type", "(attn_q|attn_k|attn_output|ffn_.*[pne])\\.weight=KAIJU4_4", "--out", "never.knot", "--dry-run")
        self.assertIn("lowest rate", self.kaiju(*self.encode, "--target-size", least, *fixed, code=2).stderr)
        self.assertIn("--bits is read by", self.kaiju(*self.encode, "--bits", 2, *fixed, code=2).stderr)
        far = self.kaiju(*self.encode, "--target-size", 3 * most, "--out", "far.knot")
        self.assertIn("no tensor can take more", far.stderr)
        # What the shards plan is what the whole would be, whatever names and numbers the parts carry.
        target = (least + most) // 2
        for part in range(11):
            self.kaiju(*self.encode, "--target-size", target, "--out", f"{part}.part.knot", "--shard", f"{part}/11")
        self.kaiju("assemble", *(f"{part}.part.knot" for part in range(11)), "--out", "joined.knot", "--telemetry", "joined.json")
        self.kaiju(*self.encode, "--target-size", target, "--out", "whole.knot", "--telemetry", "joined.json.again")
        self.assertEqual(*(self.answer("knot", "info", name)["entries"] for name in ("joined.knot", "whole.knot")))

    def test_what_no_tensor_reads_is_refused(self):
        for option, value in (("--hi-frac", 0.5), ("--side-band", "first"), ("--codebook", "leech"), ("--step-search", 2),
                              ("--order", "natural"), ("--clamp-limit", 1)):
            refused = self.kaiju(*self.encode, option, value, "--out", "never.knot", "--dry-run", code=2).stderr
            self.assertIn(f"{option} is read by tensors of KAIJU1 alone", refused)
            self.kaiju(*self.encode, option, value, "--tensor-type", "ffn_up=KAIJU1", "--out", "never.knot", "--dry-run")
        v3 = (*self.encode[:5], "--encoder", "v3", "--covariance", "model.full", "--out", "never.knot", "--dry-run")
        self.assertIn("tensors of KAIJU4 alone", self.kaiju(*v3, "--candidates", 3, code=2).stderr)
        for wire in ("KAIJU4_3", "KAIJU2"):
            refused = self.kaiju(*self.encode[:5], "--wire", wire, "--sketch", "model.full", "--out", "never.knot", code=2).stderr
            self.assertIn(f"--wire {wire}: KAIJU1 and KAIJU4", refused)
        named = self.kaiju(*self.encode, "--tensor-type", "attn_q=KAIJU4", "--out", "never.knot", code=2).stderr
        self.assertIn("KAIJU4_1_75", named)
        self.assertIn("nothing where a number", self.kaiju(*self.encode, "--bits", "", "--out", "never.knot", code=2).stderr)

    def test_bits_go_where_the_model_suffers(self):
        even = self.answer(*self.encode, "--bits", 2.5, "--rates", "uniform", "--out", "even.knot")
        measure = ("sensitivity", "--model", "model.gguf", "--quantised", "even.knot", "--text", "calibration.txt", "--ctx", 128)
        found = self.answer(*measure, "--chunks", 3, "--out", "s.json")
        self.assertEqual({row["role"] for row in found["roles"]},
                         {"attn_q", "attn_k", "attn_output", "ffn_gate", "ffn_up", "ffn_down"})
        self.assertEqual([row["layer"] for row in found["layers"]], list(range(len(found["layers"]))))
        self.assertTrue(all(row["mean_kl"] > 0 for row in found["roles"] + found["layers"]))
        # One that a layer of its own suffers from gets more than one that nothing suffers from.
        told = json.loads((self.folder / "s.json").read_text())
        told["layers"][0]["mean_kl"] *= 1000
        (self.folder / "told.json").write_text(json.dumps(told))
        size = even["file_bytes"]
        plan = self.answer(*self.encode, "--target-size", size, "--sensitivity", "told.json", "--out", "x.knot", "--dry-run")
        bits = {tensor["name"]: tensor["bits"] for tensor in plan["tensors"] if tensor["type"].startswith("KAIJU4")}
        self.assertGreater(bits["blk.0.ffn_up.weight"], bits["blk.1.ffn_up.weight"])
        self.assertLessEqual(plan["file_bytes"], size)
        self.answer(*self.encode, "--target-size", size, "--sensitivity", "s.json", "--out", "fitted.knot")
        self.assertLessEqual((self.folder / "fitted.knot").stat().st_size, size)
        self.kaiju("knot", "verify", "fitted.knot")
        # What was not measured is refused, and so is what has several rates already.
        told["roles"].pop()
        (self.folder / "less.json").write_text(json.dumps(told))
        refused = self.kaiju(*self.encode, "--bits", 3, "--sensitivity", "less.json", "--out", "never.knot", code=3)
        self.assertIn("less.json", refused.stderr)
        again = self.kaiju("sensitivity", "--model", "model.gguf", "--quantised", "fitted.knot", "--text", "calibration.txt",
                           "--ctx", 128, code=3)
        self.assertIn("--rates uniform", again.stderr)
        self.kaiju(*measure, "--out", "s.json", code=4)
        self.assertIn("chunks", self.kaiju(*measure, "--chunks", 100000, code=2).stderr)

    def test_a_head_that_is_the_embedding_again_is_stored_once_and_encoded(self):
        self.tiny_model("copied.gguf", copied_head=1)
        self.kaiju("capture", "--model", "copied.gguf", "--text", "calibration.txt", "--out", "copied.full", "--full", "--head",
                   "--ctx", 128, "--max-tokens", 1024, "--stride", 1)
        self.kaiju("imatrix", "--model", "copied.gguf", "--covariance", "copied.full", "--out", "copied.imatrix.gguf")
        encode = ("encode", "--model", "copied.gguf", "--imatrix", "copied.imatrix.gguf", "--wire", "KAIJU4", "--bits", 4,
                  "--covariance", "copied.full", "--tensor-type", "token_embd=KAIJU4_4")
        refused = self.kaiju(*encode, "--out", "never.knot", code=5)
        self.assertIn("token_embd.weight: copied.imatrix.gguf has no entry", refused.stderr, "an embedding alone has no inputs")
        self.answer(*encode, "--tie-head", "--out", "tied.knot")
        info = self.answer("knot", "info", "tied.knot")
        types = {tensor["name"]: tensor["type"] for tensor in info["entries"]}
        self.assertEqual(types["token_embd.weight"], "KAIJU4_4")
        self.assertNotIn("output.weight", types)
        self.kaiju("knot", "verify", "tied.knot")
        # A random model that is its own head is sure of nonsense: perplexities say little, divergences do.
        compared = ("ppl", "--model", "tied.knot", "--text", "evaluation.txt", "--ctx", 128, "--chunks", 4)
        exact = self.answer(*compared, "--reference", "copied.gguf", "--engine", "llama")
        served = self.answer(*compared, "--reference", "tied.knot", "--reference-engine", "llama", "--engine", "native")
        self.assertLess(served["mean_kl"], 1e-4)
        self.assertEqual(served["same_top"], 1)
        self.assertLess(exact["mean_kl"], 0.05)
        refused = self.kaiju(*self.encode, "--tie-head", "--out", "never.knot", code=2)
        self.assertIn("they are two matrices", refused.stderr)

    def test_parts_make_the_same_bytes(self):
        arguments = (*self.encode, "--bits", 2.6)
        self.kaiju(*arguments, "--out", "whole.knot", "--threads", 1)
        for part in (1, 2):
            self.kaiju(*arguments, "--out", f"{part}.part.knot", "--shard", f"{part}/2", "--threads", 3)
        self.kaiju("assemble", "2.part.knot", "1.part.knot", "--out", "joined.knot")
        self.assertEqual((self.folder / "joined.knot").read_bytes(), (self.folder / "whole.knot").read_bytes())

    def test_the_independent_decoder_agrees(self):
        if not has_numpy():
            self.skipTest(f"{PYTHON} has no NumPy")
        self.kaiju(*self.encode, "--bits", 2.5, "--out", "model.knot")
        oracle = [PYTHON, "-B", SOURCE / "tests/oracle/kaiju4_oracle.py"]
        subprocess.run([*oracle, "verify", "model.knot"], cwd=self.folder, check=True, stdout=subprocess.DEVNULL)
        for tensor in ("blk.0.attn_q.weight", "blk.1.ffn_down.weight"):
            self.kaiju("knot", "dump", "model.knot", "--tensor", tensor, "--out", "ours.npy")
            subprocess.run([*oracle, "dump", "model.knot", tensor, "theirs.npy"], cwd=self.folder, check=True,
                           stdout=subprocess.DEVNULL)
            self.assertEqual(npy_values(self.folder / "ours.npy"), npy_values(self.folder / "theirs.npy"))
            for name in ("ours.npy", "theirs.npy"):
                (self.folder / name).unlink()


if __name__ == "__main__":
    unittest.main()
