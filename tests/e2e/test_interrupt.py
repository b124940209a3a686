"""An encode that is stopped anywhere can be resumed, and the result is the same, byte for byte."""
import hashlib
import os
import signal
import subprocess
import time
import unittest

from support import KAIJU, KaijuTest


class Interrupt(KaijuTest):
    COMMAND = ("encode", "--model", "model.gguf", "--imatrix", "importance.gguf", "--threads", "1", "-q")

    def setUp(self):
        super().setUp()
        # Enough work for a signal to arrive in the middle of it.
        self.tiny_model(width=384, ffn=768, layers=6)
        self.calibrated()

    def sha256(self, name):
        return hashlib.sha256((self.folder / name).read_bytes()).hexdigest()

    def stopped(self, number, seconds):
        """Starts the encode, sends it a signal, and returns how it ended."""
        process = subprocess.Popen([KAIJU, *self.COMMAND, "--out", "b.knot", "--resume"], cwd=self.folder,
                                   stderr=subprocess.DEVNULL)
        time.sleep(seconds)
        process.send_signal(number)
        return process.wait(timeout=120)

    def test_resumed_bytes_are_the_same(self):
        begin = time.monotonic()
        self.kaiju(*self.COMMAND, "--out", "a.knot")
        whole = time.monotonic() - begin
        killed = interrupted = 0
        for attempt in range(1, 7):
            number = signal.SIGKILL if attempt % 2 else signal.SIGINT
            code = self.stopped(number, whole * 0.15 * attempt)
            if code == 0:
                break
            self.assertFalse((self.folder / "b.knot").exists(), "an unfinished file has the final name")
            self.assertEqual(code, -signal.SIGKILL if number == signal.SIGKILL else 130)
            killed += number == signal.SIGKILL
            interrupted += number == signal.SIGINT
        self.assertGreater(killed, 0)
        self.assertGreater(interrupted, 0)
        if not (self.folder / "b.knot").exists():
            self.kaiju(*self.COMMAND, "--out", "b.knot", "--resume")
        self.assertEqual(self.sha256("a.knot"), self.sha256("b.knot"))
        left = sorted(name for name in os.listdir(self.folder) if name.startswith("b.knot"))
        self.assertEqual(left, ["b.knot"], "the job left something behind")

    def test_settings_that_change_the_result_cannot_differ(self):
        self.stopped(signal.SIGKILL, 0.4)
        if (self.folder / "b.knot").exists():
            self.skipTest("needs a slower machine: the encode was done before it could be killed")
        done = self.kaiju(*self.COMMAND, "--out", "b.knot", "--resume", "--hi-frac", "0.3", code=2)
        self.assertIn("hi", done.stderr)

    def test_the_number_of_threads_changes_nothing(self):
        self.kaiju(*self.COMMAND, "--out", "a.knot")
        self.kaiju("encode", "--model", "model.gguf", "--imatrix", "importance.gguf", "--threads", "3", "-q", "--out",
                   "c.knot")
        self.assertEqual(self.sha256("a.knot"), self.sha256("c.knot"))


unittest.main()
