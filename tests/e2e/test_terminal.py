"""What a shell sees: help, versions, completions, colours, pipes."""
import os
import pty
import re
import shutil
import subprocess
import unittest

from support import KAIJU, KaijuTest


class Terminal(KaijuTest):
    def on_a_terminal(self, *arguments, **environment):
        """Standard error of the program where it is a terminal."""
        master, slave = pty.openpty()
        process = subprocess.Popen([KAIJU, *arguments], cwd=self.folder, stdout=subprocess.DEVNULL, stderr=slave,
                                   env={**os.environ, "TERM": "xterm", "NO_COLOR": "", **environment})
        os.close(slave)
        seen = b""
        try:
            while piece := os.read(master, 65536):
                seen += piece
        except OSError:
            pass  # a terminal whose other end has closed reads as an error
        os.close(master)
        process.wait(timeout=60)
        return seen.decode()

    def test_version_names_the_libraries(self):
        lines = self.kaiju("--version").stdout.splitlines()
        self.assertRegex(lines[0], r"^kaiju \d+\.\d+\.\d+$")
        for library in ("llama.cpp", "ggml", "Highway", "oneTBB"):
            self.assertTrue(any(re.match(rf"  {re.escape(library)} +\S", line) for line in lines), library)

    def test_help_has_an_example(self):
        for command in (["encode"], ["knot", "verify"], ["ppl"], ["gate", "run"], ["lattice", "nearest"]):
            out = self.kaiju(*command, "--help").stdout
            self.assertIn("Example:\n  kaiju " + " ".join(command), out)

    def test_colour_only_where_wanted(self):
        self.assertIn("\033[31m", self.on_a_terminal("knot", "info", "nowhere.knot"))
        self.assertNotIn("\033[", self.on_a_terminal("knot", "info", "nowhere.knot", NO_COLOR="1"))
        self.assertNotIn("\033[", self.on_a_terminal("knot", "info", "nowhere.knot", TERM="dumb"))
        self.assertNotIn("\033[", self.kaiju("knot", "info", "nowhere.knot", code=5).stderr)

    def test_a_bar_on_a_terminal_and_silence_when_quiet(self):
        self.tiny_model()
        self.assertIn("\r\033[K", self.on_a_terminal("f16", "--model", "model.gguf", "--out", "a.gguf"))
        self.assertEqual(self.on_a_terminal("-q", "f16", "--model", "model.gguf", "--out", "b.gguf"), "")
        self.assertEqual(self.on_a_terminal("f16", "--model", "model.gguf", "--out", "c.gguf", "-q"), "")

    def test_a_closed_pipe_is_quiet(self):
        process = subprocess.Popen([KAIJU, "lattice", "nearest"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE)
        process.stdout.close()
        line = b'{"y":[' + b",".join([b"1.5"] * 24) + b"]}\n"
        try:
            process.stdin.write(line * 100)
            process.stdin.close()
        except BrokenPipeError:
            pass  # it has ended already
        self.assertEqual(process.wait(timeout=60), 141)
        self.assertEqual(process.stderr.read(), b"")
        process.stderr.close()

    def test_completions_are_valid_scripts(self):
        for shell in ("bash", "zsh", "fish"):
            script = self.kaiju("completions", shell).stdout
            self.assertIn("kaiju knot verify", script)
            if shutil.which(shell):
                path = self.folder / ("completion." + shell)
                path.write_text(script)
                subprocess.run([shell, "-n", path], check=True)

    def test_bash_completes(self):
        (self.folder / "completion").write_text(self.kaiju("completions", "bash").stdout)

        def completed(*words):
            script = 'source ./completion; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _kaiju; echo "${COMPREPLY[*]}"'
            done = subprocess.run(["bash", "-c", script, "bash", *words], cwd=self.folder, capture_output=True,
                                  text=True, check=True)
            return done.stdout.split()

        self.assertEqual(completed("kaiju", "kno"), ["knot"])
        self.assertEqual(completed("kaiju", "knot", "ver"), ["verify"])
        self.assertEqual(completed("kaiju", "encode", "--imat"), ["--imatrix"])
        self.assertEqual(completed("kaiju", "lattice", "nearest", "--decoder", "exh"), ["exhaustive"])


unittest.main()
