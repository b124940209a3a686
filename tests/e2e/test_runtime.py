"""The native engine from outside: text, conversations, benchmarks, and how a run ends that cannot go on."""
import json
import signal
import subprocess
import time
import unittest

from support import KAIJU, KaijuTest

CHATML = ("{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + "
          "'<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")


class Runtime(KaijuTest):
    def test_text(self):
        self.encoded(context=64)
        answer = self.answer("generate", "--model", "model.knot", "--prompt", "a lattice is", "-n", 8)
        self.assertLessEqual(len(answer["tokens"]), 8)
        streamed = self.kaiju("generate", "--model", "model.knot", "--prompt", "a lattice is", "-n", 8).stdout
        self.assertTrue(streamed.startswith("a lattice is"))
        self.assertTrue(streamed.endswith("\n"))
        scalar = self.answer("generate", "--model", "model.knot", "--prompt", "a lattice is", "-n", 8,
                             KAIJU_SIMD="scalar")
        self.assertEqual(scalar["tokens"], answer["tokens"])
        empty = self.answer("generate", "--model", "model.knot", "--prompt", "", "-n", 4)
        self.assertEqual(empty["prompt_tokens"], [1])
        full = self.answer("generate", "--model", "model.knot", "--prompt", "a", "-n", 500)
        self.assertIn(full["ending"], ("context", "model"))
        failed = self.kaiju("generate", "--model", "model.knot", "--prompt", "word " * 100, code=2)
        self.assertIn("64 positions", failed.stderr)

    def test_nothing_is_written_before_the_question_is_known_to_be_good(self):
        self.tiny_model(context=64)
        write = ("generate", "--model", "model.gguf", "--prompt", "a lattice is", "-n", 4, "-t", 1)
        for wrong in (("--top-p", 0), ("--temp", -1), ("--top-k", -1), ("--min-p", 1), ("--stop", ""), ("--ctx", 1),
                      ("--seed", 4294967295), ("--seed", -1), ("--temp", "1e39"), ("--repeat-penalty", 0)):
            failed = self.kaiju(*write, *wrong, code=2)
            self.assertEqual(failed.stdout, "", wrong)
        self.assertIn("0 to 4294967294", self.kaiju(*write, "--seed", -1, code=2).stderr)
        self.kaiju("smoke", "--model", "model.gguf", "--tokens", "010", code=2)
        self.kaiju("capture", "--model", "model.gguf", "--text", "none.txt", "--out", "x.sket", "--ctx", 0, code=2)

    def test_more_threads_than_processors_come_to_an_end(self):
        self.tiny_model()
        for engine in ("native", "llama"):
            self.kaiju("smoke", "--model", "model.gguf", "--tokens", "1,2", "--threads", 4096, "--engine", engine)

    def test_a_file_that_is_cut_short_while_it_is_read(self):
        self.tiny_model(width=384, ffn=1536, layers=8, context=8192)
        process = subprocess.Popen([KAIJU, "generate", "--model", "model.gguf", "--engine", "native", "--prompt",
                                    "a", "-n", "8000"], cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        process.stdout.read(1)
        (self.folder / "model.gguf").open("r+b").truncate(4096)
        _, told = process.communicate(timeout=120)
        self.assertEqual(process.returncode, 7)
        self.assertIn(b"became shorter", told)

    def test_engines_agree(self):
        self.encoded()
        answers = {}
        for engine in ("native", "llama"):
            for model in ("model.gguf", "model.knot"):
                answer = self.answer("smoke", "--model", model, "--tokens", "1,70,80,90", "--engine", engine)
                self.assertEqual(answer["engine"], engine)
                answers[engine, model] = answer["top"][0]["logit"]
        for model in ("model.gguf", "model.knot"):
            self.assertAlmostEqual(answers["native", model], answers["llama", model], delta=0.05)
        default = self.answer("ppl", "--model", "model.knot", "--reference", "model.knot", "--text",
                              "evaluation.txt", "--ctx", 128, "--chunks", 2)
        self.assertEqual(default["engine"], "native")
        self.assertLess(default["mean_kl"], 1e-9)

    def test_chat(self):
        self.tiny_model(context=2048, chat_template=CHATML)
        lines = self.kaiju("chat", "--model", "model.gguf", "--engine", "native", "-n", 6, "--json",
                           stdin="hello\n\nand again\n").stdout.splitlines()
        self.assertEqual([set(json.loads(line)) for line in lines], [{"text", "tokens", "ending"}] * 2)
        self.kaiju("generate", "--model", "model.gguf", "--chat", "--prompt", "hello", "-n", 4)
        self.tiny_model("plain.gguf")
        failed = self.kaiju("chat", "--model", "plain.gguf", code=5, stdin="hello\n")
        self.assertIn("chat template", failed.stderr)

    def test_benchmarks(self):
        self.encoded()
        rows = self.answer("bench", "model", "--model", "model.knot", "-p", 16, "-n", 4, "-r", 2)["results"]
        self.assertEqual([row["test"] for row in rows], ["pp16", "tg4"])
        self.assertTrue(all(row["tokens_per_second"] > 0 for row in rows))
        rows = self.answer("bench", "kernel", "--rows", 100, "--cols", 256, "--batch", "1,3", "--seconds", 0.01,
                           "--types", "KAIJU1,Q4_K,F16,read", "--threads", 2)["results"]
        self.assertEqual({row["type"] for row in rows}, {"KAIJU1", "Q4_K", "F16", "read"})
        self.assertTrue(all(row["us"] > 0 for row in rows))
        self.assertEqual(self.answer("bench", "kernel", "--rows", 100, "--cols", 256, "--batch", 8, "--seconds", 0.01,
                                     "--types", "read")["results"], [], "reading is timed for one token")
        self.kaiju("bench", "kernel", "--cols", 100, "--types", "Q4_K", code=3)

    def test_what_is_not_known_is_named(self):
        self.tiny_model(architecture="mamba")
        failed = self.kaiju("smoke", "--model", "model.gguf", "--tokens", 1, "--engine", "native", code=3)
        self.assertIn('architecture "mamba"', failed.stderr)

    def test_a_reader_that_goes_away(self):
        self.tiny_model(context=4096)
        process = subprocess.Popen([KAIJU, "generate", "--model", "model.gguf", "--engine", "native", "--prompt",
                                    "a", "-n", "4000", "--temp", "2"], cwd=self.folder, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE)
        process.stdout.read(1)
        process.stdout.close()
        self.assertEqual(process.wait(timeout=120), 141)
        self.assertEqual(process.stderr.read(), b"")
        process.stderr.close()

    def test_interrupted(self):
        self.tiny_model(width=384, ffn=1536, layers=8, context=8192)
        process = subprocess.Popen([KAIJU, "generate", "--model", "model.gguf", "--engine", "native", "--prompt",
                                    "a", "-n", "8000"], cwd=self.folder, stdout=subprocess.PIPE,
                                   stderr=subprocess.DEVNULL)
        process.stdout.read(1)
        time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        process.stdout.read()
        process.stdout.close()
        self.assertEqual(process.wait(timeout=120), 130)


unittest.main()
