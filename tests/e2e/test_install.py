"""What `cmake --install` leaves is enough for a program of somebody else, wherever the folder is moved to."""
import json
import os
import pathlib
import shutil
import subprocess
import unittest

from support import GOLDEN, SOURCE, KaijuTest


class Install(KaijuTest):
    def run_tool(self, *arguments):
        done = subprocess.run(list(map(str, arguments)), cwd=self.folder, capture_output=True, text=True, timeout=300)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def test_a_consumer_builds_and_runs(self):
        cmake = os.environ["CMAKE"]
        self.run_tool(cmake, "--install", os.environ["KAIJU_BUILD"], "--prefix", self.folder / "first")
        shutil.move(self.folder / "first", self.folder / "moved")
        # Nothing of the checkout or of the build's dependencies may be needed.
        environment = {"KAIJU_LLAMA_PREFIX": "", "PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/")}
        for step in ([cmake, "-G", "Ninja", "-S", SOURCE / "tests" / "e2e" / "consumer", "-B", "build",
                      f"-DCMAKE_CXX_COMPILER={os.environ['CXX']}",
                      f"-DCMAKE_PREFIX_PATH={self.folder / 'moved'}"], [cmake, "--build", "build"]):
            done = subprocess.run(list(map(str, step)), cwd=self.folder, env=environment, capture_output=True, text=True,
                                  timeout=300)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        out = self.run_tool(self.folder / "build" / "consumer", GOLDEN / "tiny.knot")
        printed = {line.split()[0]: line.split()[1:] for line in out.splitlines()[:-1]}
        for name, rows in json.loads((GOLDEN / "tiny.expected.json").read_text()).items():
            kind, value = printed[name]
            self.assertEqual((kind, float.fromhex(value)), ("KAIJU1", rows[0][0]))
        self.assertRegex(out, r"libkaiju \d+\.\d+\.\d+: distance 0\n")
        self.run_tool(self.folder / "moved" / "bin" / "kaiju", "knot", "verify", GOLDEN / "tiny.knot")
        self.assertTrue(any(pathlib.Path(self.folder / "moved").rglob("LICENSE.llama.cpp")))


unittest.main()
