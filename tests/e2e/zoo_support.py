"""What tests of the zoo share: tiny models in a store, and a catalogue of them."""
import glob
import json
import os
import random
import shutil
import signal
import subprocess
import threading
import time

from s3_server import Faults, Server, environment, wait_until_writable
from support import KAIJU, KaijuTest, text

FAST = ("--lease-beat", "0.2", "--lease-term", "5")


WIDER = {9: {"width": 256, "ffn": 1024}}  # by seed: a model of some megabytes


class ZooTest(KaijuTest):
    """Tiny models in a store that is a folder."""

    def setUp(self):
        super().setUp()
        self.store = self.folder / "store"
        self.address = str(self.store)
        self.environment = {}
        self.settings = {"ctx": 128, "calibration_chunks": 4, "evaluation_chunks": 2}
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
        lines = ["schema = 1", f'store = "{self.address}"', 'calibration_text = "texts/calibration.txt"',
                 'evaluation_text = "texts/evaluation.txt"']
        lines += [f"{key} = {json.dumps(value)}" for key, value in self.settings.items()]
        for entry in self.entries:
            lines.append("[[model]]")
            for key, value in entry.items():
                inside = ", ".join(f"{k} = {json.dumps(v)}" for k, v in value.items()) if isinstance(value, dict) else None
                lines.append(f"{key} = " + (json.dumps(value) if inside is None else f"{{ {inside} }}"))
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

    def stored(self, key):
        """An object as a local file."""
        return self.store / key

    def kaiju(self, *arguments, **rest):
        return super().kaiju(*arguments, **{**self.environment, **rest})

    def watch(self, *arguments, state="state"):
        """A watcher in the background."""
        return subprocess.Popen([KAIJU, "zoo", "watch", "--catalogue", self.catalogue(), "--state", state, "--interval", "0.2",
                                 "--json", "--share-machine", *FAST, *arguments], cwd=self.folder, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, **self.environment})

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

    def wait_for(self, state, job, seconds=60, watch=None):
        """Until the job is in that state. A watcher that ends in the meantime says why."""
        deadline = time.time() + seconds
        while True:
            attempts = {a["name"]: a for a in self.zoo_answer("status")["attempts"]}
            if job in attempts and attempts[job]["state"] == state:
                return attempts[job]
            if watch and watch.poll() is not None:
                self.fail(f"the watcher ended with {watch.returncode}: {watch.communicate()}")
            if time.time() > deadline:
                story = (self.folder / f"state/jobs/{job}/story.log")
                self.fail(f"{job} is not {state}: {attempts.get(job)}\n{story.read_text() if story.exists() else ''}")
            time.sleep(0.2)


class S3ZooTest(ZooTest):
    """The same with a real S3 server, behind a proxy that can make things go wrong."""

    @classmethod
    def setUpClass(cls):
        cls.server = Server()
        cls.faults = Faults(f"127.0.0.1:{cls.server.port}")
        try:
            wait_until_writable(cls.server.endpoint)
        except Exception:
            cls.tearDownClass()
            raise

    @classmethod
    def tearDownClass(cls):
        cls.faults.close()
        cls.server.close()

    def setUp(self):
        super().setUp()
        self.faults.first(0, None)
        self.address = f"s3://zoo/{random.randrange(2**60):x}"
        self.environment = environment(self.faults.endpoint)
        for name in ("calibration", "evaluation"):
            self.put(f"texts/{name}.txt", self.store / f"texts/{name}.txt")

    def put(self, key, source):
        self.kaiju("store", "put", source, f"{self.address}/{key}")

    def keys(self):
        return [o["key"].split("/", 1)[1] for o in self.answer("store", "ls", self.address + "/")["objects"]]

    def stored(self, key):
        path = self.folder / "fetched" / key
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            self.kaiju("store", "get", f"{self.address}/{key}", "--out", path)
        return path


class Eavesdropper:
    """Reads the command lines of all processes while something runs."""

    def __init__(self):
        self.lines, self.over = set(), False
        self.thread = threading.Thread(target=self.listen)
        self.thread.start()

    def listen(self):
        while not self.over:
            for path in glob.glob("/proc/[0-9]*/cmdline"):
                try:
                    with open(path, "rb") as file:
                        self.lines.add(file.read())
                except OSError:
                    pass
            time.sleep(0.02)

    def heard(self):
        self.over = True
        self.thread.join()
        return self.lines
