"""The feeder from a Hugging Face folder: llama.cpp's own converter on a Llama of random weights."""
import json
import os
import subprocess
import sys

import unittest

from support import SOURCE, KaijuTest, text

SKIPPED = 77  # as told to ctest


def of_script(*arguments):
    done = subprocess.run([SOURCE / "scripts/convert_hf.sh", *arguments], capture_output=True, text=True, timeout=600)
    if done.returncode == 5:
        print("skipped:", done.stderr.strip())
        sys.exit(SKIPPED)
    if done.returncode != 0:
        raise RuntimeError(done.stderr)
    return done.stdout.strip()


CONVERTER, PYTHON = of_script(), of_script("python")


class Safetensors(KaijuTest):
    def setUp(self):
        super().setUp()
        (self.folder / "store").mkdir()
        (self.folder / "calibration.txt").write_text(text(20000))
        (self.folder / "evaluation.txt").write_text(text(20000, first=1))
        subprocess.run([f"{PYTHON}/python3", SOURCE / "tests/e2e/make_hf_folder.py", self.folder / "llama"], check=True,
                       capture_output=True)

    def ladder(self, code=0, **environment):
        return self.kaiju("ladder", "--source", "llama", "--id", "llama", "--store", "store", "--work", "work", "--text",
                          "calibration.txt", "--evaluation", "evaluation.txt", "--prompt", "a lattice is", "--min-margin", 0.001,
                          "--ctx", 128, "--imatrix-chunks", 4, "--chunks", 2, "--sketch-tokens", 2048, "--json", code=code,
                          **{"KAIJU_CONVERT_HF": CONVERTER, **environment})

    def test_becomes_everything_that_an_encode_needs(self):
        made = json.loads(self.ladder(PATH=f"{PYTHON}:{os.environ['PATH']}").stdout)
        store = self.folder / "store/models"
        for rung in made["rungs"]:
            self.assertGreater(rung["ppl"], 1)
            self.assertGreater(rung["mean_kl"], 0)
        self.assertEqual([rung["type"] for rung in made["rungs"]], ["IQ2_S", "IQ3_XXS", "IQ3_S"])
        rungs = {rung["type"]: rung for rung in made["rungs"]}
        self.assertLess(rungs["IQ3_S"]["mean_kl"], rungs["IQ2_S"]["mean_kl"])
        self.assertLess(rungs["IQ2_S"]["bytes"], rungs["IQ3_S"]["bytes"])
        sketch, = (store / "sketches").glob("llama-????????.sket")
        for encoder in ("v1", "v3"):
            more = ("--sketch", sketch, "--clamp-limit", 100) if encoder == "v3" else ()
            self.kaiju("encode", "--model", store / "llama/llama-f16.gguf", "--imatrix", store / "iq-ladder/llama/llama.imatrix",
                       "--base", store / "llama.knot", "--encoder", encoder, "--out", f"{encoder}.knot", *more)
            self.kaiju("knot", "verify", f"{encoder}.knot")
        self.kaiju("gate", "run", "--qspec", store / "llama/llama.qspec.json", "--model", store / "llama/llama-f16.gguf")
        again = json.loads(self.ladder(PATH=f"{PYTHON}:{os.environ['PATH']}").stdout)
        self.assertEqual(again["made"], [])

    def test_says_what_python_lacks(self):
        (self.folder / "bin").mkdir()
        bare = self.folder / "bin/python3"
        bare.write_text('#!/bin/sh\nexec /usr/bin/python3 -I -S "$@"\n')  # without any package
        bare.chmod(0o755)
        said = self.ladder(code=5, PATH=f"{self.folder}/bin:{os.environ['PATH']}").stderr
        self.assertIn("python3 lacks torch, transformers, numpy", said)
        self.assertIn("KAIJU_CONVERT_HF", self.ladder(code=5, KAIJU_CONVERT_HF="").stderr)

    def test_says_what_the_converter_said(self):
        (self.folder / "llama/config.json").write_text('{"architectures": ["NobodyKnowsIt"], "model_type": "nobody"}')
        said = self.ladder(code=3, PATH=f"{PYTHON}:{os.environ['PATH']}").stderr
        self.assertIn("NobodyKnowsIt", said)


unittest.main()
