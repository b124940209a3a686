"""From a model to numbers: the steps of ./run demo on a tiny model, and that their answers agree with each other."""
import json
import math
import struct
import unittest

from support import GOLDEN, KaijuTest


class Pipeline(KaijuTest):
    def test_from_a_quantised_model_to_a_gate(self):
        self.tiny_model("q8.gguf", type="q8_0")
        self.kaiju("f16", "--model", "q8.gguf", "--out", "model.gguf")
        self.calibrated()
        plan = self.answer("encode", "--model", "model.gguf", "--imatrix", "importance.gguf", "--base", "q8.gguf",
                           "--out", "model.knot", "--telemetry", "telemetry.json", "--dry-run")
        self.assertFalse((self.folder / "model.knot").exists())
        self.assertFalse((self.folder / "telemetry.json").exists())
        encoded = self.answer("encode", "--model", "model.gguf", "--imatrix", "importance.gguf", "--base", "q8.gguf",
                              "--out", "model.knot", "--telemetry", "telemetry.json")
        for key in ("file_bytes", "file_bits", "linear_bits"):
            self.assertEqual(plan[key], encoded[key], key)
        self.assertEqual(plan["payload_bytes"], encoded["bytes"])
        self.assertEqual(plan["file_bytes"], (self.folder / "model.knot").stat().st_size)
        json.loads((self.folder / "telemetry.json").read_text())
        self.answer("knot", "verify", "model.knot")

        # The export runs in stock llama.cpp through the same engine, and gives the same figures as the knot itself.
        self.kaiju("knot", "to-gguf", "model.knot", "--out", "exported.gguf", "--type", "f32")
        measured = {}
        for name in ("model.knot", "exported.gguf"):
            measured[name] = self.answer("ppl", "--model", name, "--text", "evaluation.txt", "--ctx", 128, "--chunks", 4,
                                         "--reference", "model.gguf", "--engine", "llama")
        knot, exported = measured["model.knot"], measured["exported.gguf"]
        for key in ("ppl", "ppl_error", "tokens", "mean_kl", "median_kl", "p99_kl", "same_top", "ppl_ratio",
                    "linear_bits", "file_bits"):
            self.assertTrue(math.isfinite(knot[key]), key)
        self.assertAlmostEqual(knot["ppl"], exported["ppl"], delta=1e-3 * knot["ppl"])
        self.assertGreater(knot["mean_kl"], 0)
        self.assertLess(knot["linear_bits"], 5)

        same = self.answer("ppl", "--model", "model.gguf", "--text", "evaluation.txt", "--ctx", 128, "--chunks", 4,
                           "--reference", "model.gguf")
        self.assertAlmostEqual(same["mean_kl"], 0, delta=1e-9)
        self.assertEqual((same["same_top"], same["ppl_ratio"]), (1, 1))

        top = self.answer("smoke", "--model", "model.knot", "--tokens", "1,5,9")
        self.assertEqual(top["argmax"], top["top"][0]["token"])

        self.kaiju("gate", "mint", "--model", "model.gguf", "--prompt", "the quick", "--id", "tiny", "--min-margin", 0,
                   "--out", "qspec.json")
        gate = self.answer("gate", "run", "--qspec", "qspec.json", "--model", "model.gguf", "--reference", "model.gguf",
                           "--text", "evaluation.txt", "--ctx", 128, "--chunks", 4, "--kl-max", 0.01)
        self.assertIs(gate["pass"], True)

    def test_calibration_text_is_recognised_in_an_evaluation_text(self):
        self.encoded()
        measure = ("ppl", "--model", "model.knot", "--ctx", 128, "--chunks", 8, "--text")
        self.assertLess(self.answer(*measure, "evaluation.txt")["calibration_overlap"], 0.01)
        words = (self.folder / "calibration.txt").read_text().split()
        (self.folder / "wrapped.txt").write_text("\n".join(" ".join(words[i:i + 3]) for i in range(5, len(words), 3)))
        done = self.kaiju(*measure, "wrapped.txt", "--json")
        self.assertIn("overlaps the calibration text", done.stderr)
        self.assertGreater(json.loads(done.stdout)["calibration_overlap"], 0.5)

    def test_a_knot_of_stock_types_is_the_model(self):
        self.tiny_model(type="q8_0")
        self.kaiju("knot", "from-gguf", "model.gguf", "--out", "packed.knot")
        self.kaiju("knot", "to-gguf", "packed.knot", "--out", "back.gguf")
        model = self.answer("smoke", "--model", "model.gguf", "--tokens", "1,2,3")
        back = self.answer("smoke", "--model", "back.gguf", "--tokens", "1,2,3")
        self.assertEqual(model["top"], back["top"])

    def test_dump_gives_the_golden_values(self):
        expected = json.loads((GOLDEN / "tiny.expected.json").read_text())
        self.assertTrue(expected)
        for number, (name, rows) in enumerate(expected.items()):
            out = self.folder / f"{number}.npy"
            self.kaiju("knot", "dump", GOLDEN / "tiny.knot", "--tensor", name, "--out", out)
            data = out.read_bytes()
            self.assertTrue(data.startswith(b"\x93NUMPY\x01\x00"))
            start = 10 + struct.unpack_from("<H", data, 8)[0]
            self.assertIn(f"({len(rows)}, {len(rows[0])})".encode(), data[:start])
            values = [value for row in rows for value in row]
            self.assertEqual(data[start:], struct.pack(f"<{len(values)}f", *values), name)

    def test_lattice_answers_match_the_golden_points(self):
        golden = [json.loads(line) for line in (GOLDEN / "points.jsonl").read_text().splitlines()]
        asked = "".join(json.dumps({"y": point["y"]}) + "\n" for point in golden)
        found = [json.loads(line) for line in self.kaiju("lattice", "nearest", stdin=asked).stdout.splitlines()]
        self.assertEqual(len(found), len(golden))
        for point, nearest in zip(golden, found):
            # The search rounds its input to a grid of 2^-16, which moves a squared distance by less than 1e-3.
            self.assertAlmostEqual(nearest["d2"], point["d2"], delta=1e-3)
            distance = sum((x - y) ** 2 for x, y in zip(nearest["x"], point["y"]))
            self.assertAlmostEqual(distance, point["d2"], delta=1e-3)


unittest.main()
