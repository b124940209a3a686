"""An encode that is stopped anywhere can be resumed, and the result is the same, byte for byte."""
import hashlib
import os
import pathlib
import re
import signal
import subprocess
import time
import unittest

from support import KAIJU, KaijuTest


class Interrupt(KaijuTest):
    # The first layers are copied as f32, which fills the first flush; the others are seconds of work after it.
    COMMAND = ("encode", "--model", "model.gguf", "--imatrix", "importance.gguf", "--exclude", "blk.[0-4]", "-q")

    def setUp(self):
        super().setUp()
        self.tiny_model(width=384, ffn=1536, layers=8)
        self.calibrated()

    def sha256(self, name):
        return hashlib.sha256((self.folder / name).read_bytes()).hexdigest()

    def stopped(self, number, ready):
        """Starts or resumes the encode, sends it a signal once ready(process) holds, returns how it ended."""
        process = subprocess.Popen([KAIJU, *self.COMMAND, "--threads", "1", "--out", "b.knot", "--resume"],
                                   cwd=self.folder, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 240
        while process.poll() is None and not ready(process):
            self.assertLess(time.monotonic(), deadline, "the encode does not get on")
            time.sleep(0.002)
        process.send_signal(number)
        return process.wait(timeout=120)

    def journalled(self, process):
        """Something has reached the disk and the journal."""
        journal = self.folder / "b.knot.part.journal"
        return journal.exists() and journal.read_bytes().count(b"\n") > 2

    def listening(self, process):
        """The program has taken over SIGINT."""
        status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
        return int(re.search(r"^SigCgt:\s*([0-9a-f]+)", status, re.M).group(1), 16) >> (signal.SIGINT - 1) & 1

    def test_resumed_bytes_are_the_same(self):
        self.kaiju(*self.COMMAND, "--out", "a.knot")
        for number, ready, code in ((signal.SIGKILL, self.journalled, -signal.SIGKILL),
                                    (signal.SIGINT, self.listening, 130),
                                    (signal.SIGTERM, self.listening, 130)):
            self.assertEqual(self.stopped(number, ready), code)
            self.assertFalse((self.folder / "b.knot").exists(), "an unfinished file has the final name")
            self.assertTrue((self.folder / "b.knot.part").exists(), "nothing to resume")
        answer = self.answer(*self.COMMAND, "--out", "b.knot", "--resume")
        self.assertGreater(answer["resumed"], 2)
        self.assertEqual(self.sha256("a.knot"), self.sha256("b.knot"))
        left = sorted(name for name in os.listdir(self.folder) if name.startswith("b.knot"))
        self.assertEqual(left, ["b.knot"], "the job left something behind")

    def test_settings_that_change_the_result_cannot_differ(self):
        self.assertEqual(self.stopped(signal.SIGKILL, self.journalled), -signal.SIGKILL)
        self.assertIn("--resume", self.kaiju(*self.COMMAND, "--out", "b.knot", code=4).stderr)
        done = self.kaiju(*self.COMMAND, "--out", "b.knot", "--resume", "--hi-frac", "0.3", code=2)
        self.assertIn("hi", done.stderr)

    def test_the_number_of_threads_changes_nothing(self):
        self.kaiju(*self.COMMAND, "--threads", "1", "--out", "a.knot")
        self.kaiju(*self.COMMAND, "--threads", "3", "--out", "c.knot")
        self.assertEqual(self.sha256("a.knot"), self.sha256("c.knot"))


unittest.main()
