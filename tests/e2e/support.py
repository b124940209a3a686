"""What the end-to-end tests share: the program, tiny models, a folder per test."""
import json
import os
import pathlib
import subprocess
import tempfile
import unittest

KAIJU = os.environ["KAIJU"]
MAKE_TINY_MODEL = os.environ["MAKE_TINY_MODEL"]
SOURCE = pathlib.Path(os.environ["KAIJU_SOURCE"])
GOLDEN = SOURCE / "tests" / "golden"

SENTENCES = ("the quick brown fox jumps over the lazy dog . ", "a lattice is a set of points in space . ",
             "every block of a row has one nearest point . ", "what it costs is measured and not guessed . ")


def text(size, first=0):
    """About `size` bytes of text; different `first` give texts that share no long run."""
    out, state = [], first * 7919 + 1
    while sum(map(len, out)) < size:
        state = (state * 1103515245 + 12345) % 2**31
        words = SENTENCES[state % len(SENTENCES)].split()
        shift = state // 7 % len(words)
        out.append(" ".join(words[shift:] + words[:shift] + [str(state % 1000)]) + "\n")
    return "".join(out)


class KaijuTest(unittest.TestCase):
    """A test in a folder of its own, with the program at hand."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="kaiju-e2e-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def kaiju(self, *arguments, code=0, stdin=None, **environment):
        """Runs the program in the folder, expects its exit code, returns the finished process with its text."""
        done = subprocess.run([KAIJU, *map(str, arguments)], cwd=self.folder, input=stdin, capture_output=True,
                              text=True, errors="replace", env={**os.environ, **environment}, timeout=300)
        self.assertEqual(done.returncode, code, f"kaiju {' '.join(map(str, arguments))}\n{done.stdout}{done.stderr}")
        return done

    def answer(self, *arguments, code=0, **rest):
        """The one JSON object that a command prints with --json."""
        out = self.kaiju(*arguments, "--json", code=code, **rest).stdout
        self.assertEqual(out.count("\n"), 1, f"not one line: {out}")
        parsed = json.loads(out)
        self.assertIsInstance(parsed, dict)
        return parsed

    def tiny_model(self, name="model.gguf", **options):
        """A random model with a vocabulary; the options are those of make_tiny_model."""
        subprocess.run([MAKE_TINY_MODEL, name, *(f"{key}={value}" for key, value in options.items())],
                       cwd=self.folder, check=True, capture_output=True, timeout=120)
        return self.folder / name

    def encoded(self, **options):
        """A tiny model with importance matrix and knot: model.gguf, importance.gguf, model.knot."""
        self.tiny_model(**options)
        self.calibrated()
        self.kaiju("encode", "--model", "model.gguf", "--imatrix", "importance.gguf", "--out", "model.knot")

    def calibrated(self):
        (self.folder / "calibration.txt").write_text(text(20000))
        (self.folder / "evaluation.txt").write_text(text(20000, first=1))
        self.kaiju("imatrix", "--model", "model.gguf", "--text", "calibration.txt", "--out", "importance.gguf",
                   "--ctx", 128, "--chunks", 8)
