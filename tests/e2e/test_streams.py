"""Streams that cannot be written, FIFOs, closed descriptors: no abort, no hang, and the documented exit code."""
import os
import pathlib
import signal
import subprocess
import time
import unittest

from support import KAIJU, KaijuTest

POINT = '{"y":[' + ",".join(["1.5"] * 24) + "]}\n"


class Streams(KaijuTest):
    def shell(self, command, code, **rest):
        """Runs a shell command in which $KAIJU is the program; expects its exit code."""
        done = subprocess.run(["bash", "-c", command], cwd=self.folder, capture_output=True, text=True, timeout=60,
                              env={**os.environ, "KAIJU": KAIJU}, **rest)
        self.assertEqual(done.returncode, code, f"{command}\n{done.stdout}{done.stderr}")
        return done

    def test_standard_error_that_fails_stops_nothing(self):
        self.encoded()
        encode = '"$KAIJU" -v encode --model model.gguf --imatrix importance.gguf --out'
        self.shell(f"{encode} a.knot 2> /dev/full", 0)
        self.shell(f"{encode} b.knot 2>&-", 0)
        self.shell(f"{encode} a.knot 2> /dev/full", 4)
        self.shell('"$KAIJU" knot info nowhere.knot 2> /dev/full', 5)
        self.shell('"$KAIJU" frobnicate 2> /dev/full', 2)
        for name in "ab":
            self.assertEqual((self.folder / f"{name}.knot").read_bytes(), (self.folder / "model.knot").read_bytes())

    def test_a_gone_reader_of_standard_error(self):
        read, write = os.pipe()
        os.close(read)
        done = subprocess.run([KAIJU, "knot", "info", "nowhere.knot"], cwd=self.folder, stderr=write, timeout=60)
        os.close(write)
        self.assertEqual(done.returncode, 5)

    def test_an_answer_that_cannot_be_written_is_an_error(self):
        for command in ("--version", "encode --help", "completions bash", f"lattice nearest <<< '{POINT.strip()}'"):
            for target in (">/dev/full", ">&-"):
                with self.subTest(command=command, target=target):
                    self.assertIn("standard output", self.shell(f'"$KAIJU" {command} {target}', 7).stderr)
                    self.shell(f'"$KAIJU" {command} {target} 2> /dev/full', 7)

    def test_a_fifo_is_not_a_file(self):
        self.encoded()
        os.mkfifo(self.folder / "fifo")
        for command in ("knot info fifo", "f16 --model fifo --out o", "ppl --model model.gguf --text fifo",
                        "encode --model model.gguf --imatrix fifo --out o.knot", "gate run --qspec fifo --model model.gguf",
                        "lattice gate --block-file fifo", "encode-tensor --input fifo --rows 1 --cols 24 --uniform --out o"):
            with self.subTest(command):
                self.assertIn("fifo: not a regular file", self.kaiju(*command.split(), code=3).stderr)

    def test_points_may_come_through_a_fifo(self):
        os.mkfifo(self.folder / "fifo")
        (self.folder / "point").write_text(POINT)
        for how in ("< fifo", "< <(cat fifo)"):
            done = self.shell(f'cat point > fifo & "$KAIJU" lattice nearest {how}', 0)
            self.assertEqual(done.stdout.count("\n"), 1)
        known = POINT.replace("}", ', "d2": 6}')
        (self.folder / "point").write_text(known)
        none = "--uniform 0 --structured 0 --blocks 0 --code-words 0 --moment 0"
        for how in ("--known fifo < /dev/null & cat point > fifo; wait $!", "--known /dev/stdin < <(cat point)"):
            done = self.shell(f'"$KAIJU" lattice gate {none} {how}', 0)
            self.assertIn("known", done.stdout)

    def test_a_signal_ends_the_wait_for_input(self):
        os.mkfifo(self.folder / "fifo")
        holder = os.open(self.folder / "fifo", os.O_RDWR)  # a writer that says nothing
        for arguments, stdin in ((["lattice", "nearest"], holder), (["lattice", "gate", "--known", "fifo"], None)):
            process = subprocess.Popen([KAIJU, *arguments], cwd=self.folder, stdin=stdin, stdout=subprocess.PIPE,
                                       stderr=subprocess.PIPE)
            deadline = time.monotonic() + 60
            while not self.catches(process):
                self.assertLess(time.monotonic(), deadline)
                time.sleep(0.01)
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=60)
            self.assertEqual(process.returncode, 130)
        os.close(holder)

    def catches(self, process):
        """The program has taken over SIGTERM."""
        status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
        return int(status.split("SigCgt:")[1].split()[0], 16) >> (signal.SIGTERM - 1) & 1

    def test_closed_standard_input_is_not_an_empty_one(self):
        self.assertIn("standard input", self.shell('"$KAIJU" lattice nearest <&-', 7).stderr)
        self.shell('"$KAIJU" lattice nearest < /dev/null', 0)
        self.shell('"$KAIJU" lattice nearest < .', 7)

    def test_a_blank_line_is_no_point(self):
        done = self.kaiju("lattice", "nearest", stdin=POINT + "\n" + POINT, code=3)
        self.assertEqual(done.stdout.count("\n"), 1)
        self.assertIn("line 2", done.stderr)


unittest.main()
