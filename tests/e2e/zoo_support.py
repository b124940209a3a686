"""What tests of the zoo share: tiny models in a store that is a folder, and a catalogue of them."""
import json
import os
import shutil
import signal
import subprocess
import time

from support import KaijuTest, text

FAST = ("--lease-beat", "0.2", "--lease-term", "5")


WIDER = {9: {"width": 256, "ffn": 1024}}  # by seed: a model of some megabytes


class ZooTest(KaijuTest):
    """Tiny models in a store that is a folder."""

    def setUp(self):
        super().setUp()
        self.store = self.folder / "store"
        self.entries = []
        (self.store / "texts").mkdir(parents=True)
        (self.store / "texts/calibration.txt").write_text(text(20000))
        (self.store / "texts/evaluation.txt").write_text(text(20000, first=1))
        self.addCleanup(self.end_jobs)

    def end_jobs(self):
        """Ends what this test has started and left behind."""
        for plan in self.folder.glob("*/jobs/*"):
            try:
                with open(plan / "lock"):
                    pass
                found = subprocess.run(["pgrep", "-f", f"zoo run {plan}"], capture_output=True, text=True).stdout.split()
                for pid in found:
                    os.kill(int(pid), signal.SIGKILL)
            except (OSError, ProcessLookupError):
                pass

    def catalogue(self):
        lines = ["schema = 1", f'store = "{self.store}"', 'calibration_text = "texts/calibration.txt"',
                 'evaluation_text = "texts/evaluation.txt"', "ctx = 128", "calibration_chunks = 4", "evaluation_chunks = 2"]
        for entry in self.entries:
            lines.append("[[model]]")
            lines += [f"{key} = {json.dumps(value)}" for key, value in entry.items()]
        path = self.folder / "zoo.toml"
        path.write_text("\n".join(lines) + "\n")
        return path

    def entry(self, model, status="ready", **more):
        self.entries.append({"id": model, "family": "llama", "size": "tiny", "status": status, **more})

    def made(self, seed):
        """A tiny model with all that it needs, and what its knot answers: made once a seed."""
        folder = self.folder / f"made-{seed}"
        if not folder.exists():
            folder.mkdir()
            self.tiny_model(f"made-{seed}/f16.gguf", seed=seed, **WIDER.get(seed, {}))
            inside = lambda name: f"made-{seed}/{name}"
            self.kaiju("imatrix", "--model", inside("f16.gguf"), "--text", self.store / "texts/calibration.txt", "--out",
                       inside("imatrix"), "--ctx", 128, "--chunks", 4)
            self.kaiju("knot", "from-gguf", inside("f16.gguf"), "--out", inside("base"))
            self.kaiju("encode", "--model", inside("f16.gguf"), "--imatrix", inside("imatrix"), "--base", inside("base"),
                       "--out", inside("knot"), "--telemetry", inside("telemetry.json"))
            top = self.answer("smoke", "--model", inside("knot"), "--tokens", "1,5,9")["top"]
            (folder / "right").write_text(str(top[0]["token"]))
            (folder / "wrong").write_text(str(top[1]["token"]))
        return folder

    def put(self, key, source):
        path = self.store / key
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, path.with_name(path.name + ".tmp-000000"))
        os.rename(path.with_name(path.name + ".tmp-000000"), path)

    def qspec(self, model, seed, passes=True):
        made = self.made(seed)
        right, wrong = int((made / "right").read_text()), int((made / "wrong").read_text())
        expect, reject = (right, wrong) if passes else (wrong, right)
        path = self.folder / "qspec.json"
        path.write_text(json.dumps({"id": model, "prompt_tokens": [1, 5, 9], "expect_token": expect, "reject_token": reject}))
        self.put(f"models/{model}/{model}.qspec.json", path)

    def feed(self, model, seed=1, passes=True):
        made = self.made(seed)
        self.qspec(model, seed, passes)
        self.put(f"models/{model}.knot", made / "base")
        self.put(f"models/iq-ladder/{model}/{model}.imatrix", made / "imatrix")
        self.put(f"models/{model}/{model}-f16.gguf", made / "f16.gguf")

    def zoo(self, command, *arguments, code=0, alone=False, **rest):
        """A command of the zoo. Other tests on this machine are not in its way, unless it is told that it is alone."""
        if command in ("plan", "submit", "watch", "retry") and not alone:
            arguments += ("--share-machine",)
        return self.kaiju("zoo", command, *arguments, "--catalogue", self.catalogue(), "--state", "state", code=code, **rest)

    def zoo_answer(self, command, *arguments, code=0):
        return json.loads(self.zoo(command, *arguments, "--json", code=code).stdout)

    def wait_for(self, state, job, seconds=60):
        deadline = time.time() + seconds
        while True:
            attempts = {a["name"]: a for a in self.zoo_answer("status")["attempts"]}
            if job in attempts and attempts[job]["state"] == state:
                return attempts[job]
            if time.time() > deadline:
                story = (self.folder / f"state/jobs/{job}/story.log")
                self.fail(f"{job} is not {state}: {attempts.get(job)}\n{story.read_text() if story.exists() else ''}")
            time.sleep(0.2)
