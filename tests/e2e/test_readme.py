"""The commands that README.md shows under "By hand" run as they stand, in order, on a tiny model."""
import os
import pathlib
import re
import subprocess
import unittest

from support import KAIJU, SOURCE, KaijuTest, text


class Readme(KaijuTest):
    def test_the_commands_by_hand(self):
        page = (SOURCE / "README.md").read_text()
        section = page[page.index("## By hand"):]
        commands = re.search(r"```sh\n(.*?)```", section, re.S).group(1)
        self.assertGreaterEqual(commands.count("kaiju "), 6)
        self.tiny_model("model-q8_0.gguf", type="q8_0")
        (self.folder / "calibration.txt").write_text(text(6000))
        (self.folder / "evaluation.txt").write_text(text(6000, first=1))
        # A random model has no clear opinion, which the mint would refuse otherwise; and none that survives, so that its
        # gate may say no.
        commands = re.sub(r"(kaiju gate mint .*)", r"\1 --min-margin 0", commands)
        commands = re.sub(r"(kaiju gate run .*)", r"\1 || [ $? -eq 1 ]", commands)
        path = f"{pathlib.Path(KAIJU).parent}:{os.environ['PATH']}"
        done = subprocess.run(["bash", "-e", "-c", commands], cwd=self.folder, capture_output=True, text=True, errors="replace",
                              env={**os.environ, "PATH": path}, timeout=600)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


unittest.main()
