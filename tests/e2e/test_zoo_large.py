"""A catalogue of ten thousand models: what a tick of the watcher takes."""
import os
import subprocess
import time
import unittest

from support import KAIJU
from zoo_support import FAST, ZooTest

MODELS = 10_000
MEGABYTES = 200


class Large(ZooTest):
    def test_a_tick_is_small(self):
        """All but the last are on hold or done, or wait for something: the tick has to look at each of them."""
        self.settings = {"ctx": 128}
        self.made(1)
        for i in range(MODELS):
            model = f"m{i:05}"
            if i % 10 == 0:
                self.entry(model, "HOLD", reason="not now")
            else:
                self.entry(model, "EXTERNAL")
            folder = self.store / f"models/{model}"
            folder.mkdir(parents=True)
            ladder = self.store / f"models/iq-ladder/{model}"
            ladder.mkdir(parents=True)
            for path in (folder / f"{model}-f16.gguf", folder / "note", folder / "card", ladder / f"{model}.imatrix",
                         ladder / f"{model}-IQ2_S.gguf"):
                path.write_bytes(b"")
            (self.store / f"models/{model}.telemetry.json").write_bytes(b"")
        self.entry("z")
        self.feed("z")
        watch = (KAIJU, "zoo", "watch", "--once", "--share-machine", "--catalogue", self.catalogue(), "--state", "state", *FAST)
        seconds, megabytes = [], 0
        for _ in range(3):
            start = time.time()
            tick = subprocess.Popen(watch, cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            _, status, used = os.wait4(tick.pid, 0)
            tick.returncode = os.waitstatus_to_exitcode(status)
            seconds.append(time.time() - start)
            megabytes = max(megabytes, used.ru_maxrss / 1024)
            self.assertIn(tick.returncode, (0, 11, 12))
        self.wait_for("done", "z-kaiju1")
        print(f"ticks of {', '.join(f'{s:.2f}' for s in seconds)} s, {megabytes:.0f} MB")
        self.assertLess(megabytes, MEGABYTES)


unittest.main()
