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
    # Some layers are copied, which is quick; the others are seconds of work.
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

    def finished(self):
        """The entries that the journal calls finished; its first line holds the settings."""
        journal = self.folder / "b.knot.part.journal"
        return max(journal.read_bytes().count(b"\n") - 1, 0) if journal.exists() else 0

    def journalled(self, process):
        return self.finished() > 1

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
        self.assertGreaterEqual(answer["resumed"], 2, "what the kill left; the others may have come before any entry")
        self.assertEqual(self.sha256("a.knot"), self.sha256("b.knot"))
        left = sorted(name for name in os.listdir(self.folder) if name.startswith("b.knot"))
        self.assertEqual(left, ["b.knot"], "the job left something behind")

    def test_a_kill_half_way_loses_only_the_tensor_under_way(self):
        self.kaiju(*self.COMMAND, "--out", "a.knot")
        plan = self.answer(*self.COMMAND, "--out", "b.knot", "--dry-run")["tensors"]
        weights = [(row["bytes"] if row["action"] == "encode" else 0) for row in plan]
        half = next(n for n in range(len(plan)) if 2 * sum(weights[:n]) >= sum(weights))
        for number, code in ((signal.SIGKILL, -signal.SIGKILL), (signal.SIGTERM, 130)):
            with self.subTest(signal.Signals(number).name):
                self.assertEqual(self.stopped(number, lambda process: self.finished() >= half), code)
                finished = self.finished()
                answer = self.answer(*self.COMMAND, "--out", "b.knot", "--resume")
                self.assertEqual(answer["resumed"], finished)
                self.assertEqual(self.sha256("a.knot"), self.sha256("b.knot"))
                (self.folder / "b.knot").unlink()

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
