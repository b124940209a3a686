"""Every exit code of docs/exit-codes.md that can be provoked, and that errors say what and where."""
import json
import math
import struct
import unittest

from support import GOLDEN, KaijuTest


class ExitCodes(KaijuTest):
    def fails(self, code, name, *arguments, says=(), **rest):
        done = self.kaiju(*arguments, code=code, **rest)
        self.assertEqual(done.stdout, "")
        self.assertTrue(done.stderr.startswith("kaiju: "), done.stderr)
        for word in says:
            self.assertIn(word, done.stderr)
        error = json.loads(self.kaiju(*arguments, "--json", code=code, **rest).stdout)["error"]
        self.assertEqual((error["code"], error["name"]), (code, name))
        self.assertTrue(error["message"])

    def test_no_command_and_unknown_command(self):
        self.assertEqual(self.kaiju(code=2).stdout, "")
        self.fails(2, "usage", "transmogrify", says=["transmogrify"])

    def test_unknown_option_and_missing_argument(self):
        self.fails(2, "usage", "knot", "info", "x.knot", "--frobnicate", says=["--frobnicate"])
        self.fails(2, "usage", "encode", "--imatrix", "i.gguf", says=["--model"])
        self.fails(2, "usage", "encode", "--model", "m.gguf", "--imatrix", "i.gguf", "--out", "o", "--threads", "many",
                   says=["--threads"])

    def test_arguments_nobody_takes_are_listed_in_order(self):
        self.fails(2, "usage", "lattice", "gate", "first", "second", says=["first second"])

    def test_numbers_that_are_none(self):
        for option, value in (("--uniform", "-1"), ("--seed", "-1"), ("--uniform", "010"), ("--threads", "0x1")):
            self.fails(2, "usage", "lattice", "gate", option, value, says=[option, value])
        self.fails(2, "usage", "bench", "decoder", "--seconds", "nan", says=["nan is not a number from 0.001 to 600"])
        self.fails(2, "usage", "knot", "from-gguf", "m.gguf", "--out", "", says=["--out"])

    def test_messages_name_the_file_once(self):
        self.encoded()
        write = lambda name, values: (self.folder / name).write_bytes(struct.pack(f"<{len(values)}f", *values))
        write("nan.f32", [1.0] * 24 + [math.nan] * 24)
        header = "{'descr': '<f4', 'fortran_order': False, 'shape': (7,), }\n"
        (self.folder / "seven.npy").write_bytes(b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header.encode() +
                                                struct.pack("<7f", *[1.0] * 7))
        tensor = ("encode-tensor", "--rows", 2, "--cols", 24, "--out", "o.knot", "--input")
        gateway = {"id": "tiny", "modality": "text", "prompt_tokens": [1], "expect_token": 1, "reject_token": 2}
        (self.folder / "gateway.json").write_text(json.dumps(gateway))
        for name, code, arguments in (
                ("nan.f32", 3, ("lattice", "gate", "--block-file", "nan.f32")),
                ("nan.f32", 3, (*tensor, "nan.f32", "--uniform")),
                ("seven.npy", 3, ("encode-tensor", "--model", "model.gguf", "--tensor", "blk.0.attn_q.weight", "--importance",
                                  "seven.npy", "--out", "o.knot")),
                ("model.knot", 3, ("encode", "--model", "model.knot", "--imatrix", "importance.gguf", "--out", "o.knot")),
                ("gateway.json", 5, ("gate", "run", "--qspec", "gateway.json", "--model", "model.gguf")),
                ("nowhere.json", 5, ("gate", "run", "--qspec", "nowhere.json", "--model", "model.gguf"))):
            with self.subTest(arguments):
                self.assertEqual(self.kaiju(*arguments, code=code).stderr.count(name), 1)

    def test_another_vocabulary_is_named(self):
        self.encoded()
        length = (3).to_bytes(8, "little")
        other = (self.folder / "model.gguf").read_bytes().replace(length + b"the", length + b"zqj")
        (self.folder / "other.gguf").write_bytes(other)
        self.fails(3, "bad_input", "ppl", "--model", "model.gguf", "--reference", "other.gguf", "--text", "evaluation.txt",
                   "--ctx", 128, says=["other.gguf: ", "model.gguf"])

    def test_a_name_that_is_too_long_does_not_exist(self):
        self.encoded()
        done = self.kaiju("knot", "from-gguf", "model.gguf", "--out", "n" * 300, code=7)
        self.assertIn("File name too long", done.stderr)

    def test_unknown_decoder(self):
        self.assertIn("psychic", self.kaiju("lattice", "nearest", "--decoder", "psychic", code=2, stdin="").stderr)

    def test_unknown_instruction_set(self):
        done = self.kaiju("lattice", "nearest", code=2, stdin='{"y":[' + ",".join("0" * 24) + "]}\n", KAIJU_SIMD="abacus")
        self.assertIn("abacus", done.stderr)

    def test_missing_files(self):
        self.fails(5, "missing", "knot", "info", "nowhere.knot", says=["nowhere.knot"])
        self.fails(5, "missing", "ppl", "--model", "nowhere.gguf", "--text", "nowhere.txt", says=["nowhere"])
        self.fails(5, "missing", "f16", "--model", "nowhere.gguf", "--out", "out.gguf", says=["nowhere.gguf"])

    def test_bad_knots_are_refused_with_their_name(self):
        bad = sorted(GOLDEN.glob("bad/*.knot"))
        self.assertGreater(len(bad), 30)
        for path in bad:
            with self.subTest(path.name):
                self.fails(3, "bad_input", "knot", "verify", path, says=[path.name])

    def test_bad_points(self):
        for line in ("nonsense\n", '{"y":[1]}\n', '{"y":[' + ",".join(["1e9"] * 24) + "]}\n"):
            self.assertIn("line 1", self.kaiju("lattice", "nearest", code=3, stdin=line).stderr)

    def test_what_would_be_ignored_is_refused(self):
        self.encoded()
        encode = ("encode", "--model", "model.gguf", "--imatrix", "importance.gguf", "--out", "new.knot")
        for option in (("--step-search", 4), ("--sweeps", 3), ("--fold", "none"), ("--keep-scale",), ("--descent", 2),
                       ("--side-band", "last"), ("--clamp-limit", 2), ("--sketch", "model.sket")):
            self.fails(2, "usage", *encode, *option, says=[option[0], "v3"])
        for option in (("--bits", 3), ("--target-size", "64MB"), ("--rates", "uniform")):
            self.fails(2, "usage", *encode, *option, says=[option[0], "KAIJU4"])
        self.fails(2, "usage", *encode, "--wire", "KAIJU2", says=["KAIJU2", "KAIJU4"])
        tensor = ("encode-tensor", "--model", "model.gguf", "--tensor", "blk.0.attn_q.weight", "--out", "new.knot")
        self.fails(2, "usage", *tensor, "--uniform", "--tap", "blk.0.attn_in", says=["--tap", "v3"])
        self.kaiju("knot", "dump", "model.gguf", "--tensor", "blk.0.attn_q.weight", "--out", "q.npy")
        plain = ("encode-tensor", "--input", "q.npy", "--out", "new.knot")
        self.fails(2, "usage", *plain, "--uniform", "--rows", 3, says=["--rows"])
        self.fails(2, "usage", *plain, "--uniform", "--cols", 7, says=["--cols"])
        columns = self.answer("encode-tensor", "--input", "q.npy", "--uniform", "--rows", 96, "--cols", 96,
                              "--out", "q.knot")["cols"]
        header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({columns},), }}".ljust(117) + "\n"
        (self.folder / "zero.npy").write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", 118) + header.encode()
                                               + bytes(4 * columns))
        self.fails(3, "bad_input", *plain, "--importance", "zero.npy", says=["zero"])
        self.assertFalse((self.folder / "new.knot").exists())

    def test_a_gate_that_tests_nothing_is_refused(self):
        nothing = ("lattice", "gate", "--uniform", 0, "--structured", 0, "--blocks", 0, "--code-words", 0)
        self.fails(2, "usage", *nothing, "--moment", 0, says=["0"])
        for points in (1, 2):
            self.fails(2, "usage", *nothing, "--moment", points, says=[str(points)])

    def test_one_file_is_not_two_outputs(self):
        self.encoded()
        (self.folder / "a").mkdir()
        gate = ("gate", "run", "--qspec", "none.json", "--model", "none.knot", "--log", "x")
        for other in ("x", "./x", "a/../x", self.folder / "x"):
            self.fails(2, "usage", *gate, "--telemetry", other, says=["two outputs"])
        encode = ("encode", "--model", "model.gguf", "--imatrix", "importance.gguf", "--out", "x.knot")
        self.fails(2, "usage", *encode, "--telemetry", "./x.knot", says=["two outputs"])
        self.fails(5, "missing", *encode[:-1], "no/such/x.knot", "--dry-run", says=["no/such"])
        self.fails(2, "usage", "assemble", "x-0.knot", "--out", "x", "--telemetry", "a/../x", says=["two outputs"])

    def test_a_good_knot_is_fine(self):
        self.kaiju("knot", "verify", GOLDEN / "tiny.knot")

    def test_outputs_are_never_overwritten(self):
        self.encoded()
        commands = [
            ("f16", "--model", "model.gguf", "--out"),
            ("imatrix", "--model", "model.gguf", "--text", "calibration.txt", "--ctx", 128, "--out"),
            ("encode", "--model", "model.gguf", "--imatrix", "importance.gguf", "--out"),
            ("knot", "from-gguf", "model.gguf", "--out"),
            ("knot", "to-gguf", "model.knot", "--out"),
            ("gate", "mint", "--model", "model.gguf", "--prompt", "the quick", "--id", "tiny", "--min-margin", 0, "--out"),
        ]
        for command in commands:
            with self.subTest(command[:2]):
                (self.folder / "taken").write_text("mine")
                self.fails(4, "output_exists", *command, "taken", says=["taken"])
                self.assertEqual((self.folder / "taken").read_text(), "mine")

    def test_a_gate_that_says_no_is_1(self):
        self.encoded()
        self.kaiju("gate", "mint", "--model", "model.gguf", "--prompt", "the quick", "--id", "tiny", "--min-margin", 0,
                   "--out", "qspec.json")
        qspec = json.loads((self.folder / "qspec.json").read_text())
        qspec["expect_token"], qspec["reject_token"] = qspec["reject_token"], qspec["expect_token"]
        (self.folder / "wrong.json").write_text(json.dumps(qspec))
        self.assertIs(self.answer("gate", "run", "--qspec", "qspec.json", "--model", "model.gguf")["pass"], True)
        self.assertIs(self.answer("gate", "run", "--qspec", "wrong.json", "--model", "model.gguf", code=1)["pass"], False)

    def test_output_folder_that_cannot_be_written(self):
        self.tiny_model()
        (self.folder / "file").write_text("")
        self.kaiju("f16", "--model", "model.gguf", "--out", "file/out.gguf", code=7)


unittest.main()
