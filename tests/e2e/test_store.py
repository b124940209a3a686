"""Object stores: a real S3 server, and everything that can go wrong on the way to it."""
import concurrent.futures
import functools
import hashlib
import http.server
import json
import os
import random
import subprocess
import threading
import time
import unittest

from s3_server import ACCESS, SECRET, Faults, Server, environment, free_ports, program, wait_until_writable
from support import KAIJU, KaijuTest

PART = 16 << 20  # files above this go up in parts


def setUpModule():
    global server, faults
    server = Server()
    faults = Faults(f"127.0.0.1:{server.port}")
    try:
        wait_until_writable(server.endpoint)
    except Exception:
        tearDownModule()
        raise


def tearDownModule():
    faults.close()
    server.close()


class Store(KaijuTest):
    def setUp(self):
        super().setUp()
        faults.first(0, None)
        self.key = f"models/{random.randrange(2**60):x}.knot"
        self.address = f"s3://zoo/{self.key}"

    def store(self, *arguments, endpoint=None, code=0, **more):
        done = self.kaiju("store", *arguments, code=code, **environment(endpoint or server.endpoint), **more)
        self.assertNotIn(SECRET, done.stdout + done.stderr)
        return done

    def file(self, name, size, seed=0):
        data = random.Random(seed).randbytes(size)
        (self.folder / name).write_bytes(data)
        return data

    def fetched(self, **options):
        out = self.folder / f"out-{random.randrange(2**60):x}"
        self.store("get", self.address, "--out", out, **options)
        return out.read_bytes()


class Works(Store):
    def test_files_small_and_in_parts_come_back(self):
        for size in (0, 1, 100_000, PART, PART + 1, 2 * PART + 12345):
            with self.subTest(size=size):
                self.key = f"models/{random.randrange(2**60):x}.knot"
                self.address = f"s3://zoo/{self.key}"
                data = self.file("in", size, size)
                self.store("put", "in", self.address)
                self.assertEqual(hashlib.sha256(self.fetched()).digest(), hashlib.sha256(data).digest())
                listed = json.loads(self.store("ls", self.address, "--json").stdout)
                self.assertEqual([o["size"] for o in listed["objects"] if o["key"] == self.key], [size])

    def test_a_published_key_is_never_replaced(self):
        self.file("in", 1000)
        self.store("put", "in", self.address, "--owner", "me")
        self.store("put", "in", self.address, code=4)
        self.store("put", "in", self.address, "--owner", "me", code=4)
        self.store("put", "in", self.address, "--take-over", code=4)

    def test_bucket_in_the_host_name(self):
        data = self.file("in", 5000)
        endpoint = server.endpoint.replace("127.0.0.1", "localhost")
        self.store("put", "in", self.address, "--s3-style", "virtual", endpoint=endpoint)
        self.assertEqual(self.fetched(), data)

    def test_lists_what_begins_so(self):
        prefix = f"many-{random.randrange(2**60):x}/"
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            self.file("in", 1)
            list(pool.map(lambda i: self.store("put", "in", f"s3://zoo/{prefix}{i:04}"), range(8)))
        listed = json.loads(self.store("ls", f"s3://zoo/{prefix}", "--json").stdout)["objects"]
        self.assertEqual(len([o for o in listed if ".claim." not in o["key"]]), 8)

    def test_a_probe_says_yes_every_time_and_leaves_nothing(self):
        for _ in range(6):
            self.assertIs(json.loads(self.store("probe", "s3://zoo", "--json").stdout)["publishable"], True)
        self.assertEqual(json.loads(self.store("ls", "s3://zoo/kaiju-probe-", "--json").stdout)["objects"], [])

    def test_a_bucket_that_is_not_there_is_not_empty(self):
        self.assertIn("NoSuchBucket", self.store("get", "s3://nobucket/a", "--out", "out", "--patience", 1, code=7).stderr)
        self.file("in", 10)
        self.store("put", "in", "s3://nobucket/a", "--patience", 1, code=7)

    def test_an_object_has_a_key(self):
        self.file("in", 10)
        self.assertIn("key is missing", self.store("get", "s3://zoo", "--out", "out", code=2).stderr)
        self.assertIn("key is missing", self.store("put", "in", "s3://zoo", code=2).stderr)

    def test_wrong_secret_and_no_credentials(self):
        self.file("in", 10)
        for change in ({"AWS_SECRET_ACCESS_KEY": "wrong"}, {"AWS_SECRET_ACCESS_KEY": "", "AWS_ACCESS_KEY_ID": ""}):
            done = self.kaiju("store", "put", "in", self.address, code=7, **{**environment(server.endpoint), **change})
            self.assertIn("403", done.stderr)

    def test_a_web_server_can_be_read(self):
        data = self.file("web.bin", 3_000_000)
        handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=self.folder)
        handler.log_message = lambda *_: None
        with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as web:
            threading.Thread(target=web.serve_forever, daemon=True).start()
            base = f"http://127.0.0.1:{web.server_port}"
            self.store("get", f"{base}/web.bin", "--out", "back.bin")
            self.assertEqual((self.folder / "back.bin").read_bytes(), data)
            self.store("get", f"{base}/not-there", "--out", "none", code=5)
            self.store("put", "web.bin", f"{base}/new", code=2)
            web.shutdown()

    def test_twenty_publishers_race(self):
        for size in (1000, PART + 1000):
            with self.subTest(size=size):
                key = f"s3://zoo/race/{random.randrange(2**60):x}.knot"
                for i in range(20):
                    self.file(f"racer-{i}", size, i)
                racing = [subprocess.Popen([KAIJU, "store", "put", f"racer-{i}", key], cwd=self.folder,
                                           env={**os.environ, **environment(server.endpoint)},
                                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for i in range(20)]
                codes = [process.wait(120) for process in racing]
                self.assertEqual(sorted(codes), [0] + [4] * 19)
                self.address = key
                self.assertEqual(self.fetched(), (self.folder / f"racer-{codes.index(0)}").read_bytes())

    def test_secrets_are_not_in_arguments(self):
        self.file("in", PART + 1)
        faults.first(10, 0.3)
        process = subprocess.Popen([KAIJU, "store", "put", "in", self.address], cwd=self.folder,
                                   env={**os.environ, **environment(faults.endpoint)}, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)
        seen = b""
        while process.poll() is None:
            try:
                with open(f"/proc/{process.pid}/cmdline", "rb") as line:
                    seen += line.read()
            except OSError:
                pass
            time.sleep(0.05)
        self.assertIn(b"store", seen)
        self.assertNotIn(SECRET.encode(), seen)
        self.assertEqual(process.returncode, 0)


class Models(Store):
    """Models are used where they are, by range."""

    def put(self, name):
        key = f"s3://zoo/{random.randrange(2**60):x}/{name}"
        self.store("put", name, key)
        return key

    def test_an_encode_by_range_gives_the_same_bytes(self):
        self.encoded(width=256, ffn=512)
        self.kaiju("knot", "from-gguf", "model.gguf", "--out", "base.knot")
        remote = environment(faults.endpoint)
        model, base = self.put("model.gguf"), self.put("base.knot")
        faults.first(0, None)
        self.kaiju("encode", "--model", model, "--base", base, "--imatrix", "importance.gguf", "--out", "remote.knot", **remote)
        self.kaiju("encode", "--model", "model.gguf", "--base", "base.knot", "--imatrix", "importance.gguf", "--out",
                   "local.knot")
        self.assertEqual((self.folder / "remote.knot").read_bytes(), (self.folder / "local.knot").read_bytes())
        self.assertGreater(sum(1 for method, _, _ in faults.seen if method == "GET"), 10)
        self.kaiju("encode", "--model", model, "--base", base, "--imatrix", "importance.gguf", "--out", "part-0", "--shard",
                   "0/2", **remote)
        self.kaiju("encode", "--model", model, "--base", base, "--imatrix", "importance.gguf", "--out", "part-1", "--shard",
                   "1/2", **remote)
        self.kaiju("assemble", "part-0", "part-1", "--out", "joined.knot")
        self.assertEqual((self.folder / "joined.knot").read_bytes(), (self.folder / "local.knot").read_bytes())

    def test_knots_and_split_models_answer_from_the_store(self):
        self.encoded()
        remote = environment(server.endpoint)
        knot = self.put("model.knot")
        tensors = [[{key: entry[key] for key in ("name", "type", "shape", "nbytes")}
                    for entry in self.answer("knot", "info", model, **more)["entries"] if entry["name"] != "gguf_kv"]
                   for model, more in ((knot, remote), ("model.knot", {}))]
        self.assertEqual(*tensors)
        self.answer("knot", "verify", knot, **remote)
        self.assertEqual(self.answer("smoke", "--model", knot, "--tokens", "1,2,3", **remote)["top"],
                         self.answer("smoke", "--model", "model.knot", "--tokens", "1,2,3")["top"])
        self.kaiju("knot", "info", "s3://zoo/not/there.knot", code=5, **remote)


class GoesWrong(Store):
    def test_failures_of_the_server_are_tried_again(self):
        for fault in (500, 503, 429, "drop", "truncate", "lost"):
            with self.subTest(fault=fault):
                self.key = f"models/{random.randrange(2**60):x}.knot"
                self.address = f"s3://zoo/{self.key}"
                data = self.file("in", PART + 5)
                faults.first(4, fault, path="knot")
                self.store("put", "in", self.address, "--patience", 30, endpoint=faults.endpoint)
                self.assertEqual(sum(1 for _, _, hit in faults.seen if hit == fault), 4)
                faults.first(3, fault)
                self.assertEqual(self.fetched(endpoint=faults.endpoint), data)

    def test_a_lost_answer_to_each_kind_of_request(self):
        # The request was carried out and its answer lost: what comes of asking again must be the same.
        for method, path in (("PUT", "claim"), ("POST", "uploads"), ("PUT", "partNumber"), ("POST", "uploadId")):
            with self.subTest(method=method, path=path):
                self.key = f"models/{random.randrange(2**60):x}.knot"
                self.address = f"s3://zoo/{self.key}"
                data = self.file("in", PART + 5)
                faults.first(1, "lost", method, path)
                self.store("put", "in", self.address, "--patience", 30, endpoint=faults.endpoint)
                self.assertEqual([hit for _, _, hit in faults.seen].count("lost"), 1)
                self.assertEqual(self.fetched(), data)

    def test_bodies_that_end_early_are_noticed(self):
        data = self.file("in", 300_000)
        self.store("put", "in", self.address)
        faults.first(2, "short", "GET")
        self.assertEqual(self.fetched(endpoint=faults.endpoint), data)

    def test_wrong_bytes_are_noticed_and_thrown_away(self):
        data = self.file("in", 300_000)
        self.store("put", "in", self.address)
        faults.first(1, "flip", "GET")
        done = self.store("get", self.address, "--out", "out", endpoint=faults.endpoint, code=3)
        self.assertIn("SHA-256", done.stderr)
        self.assertFalse((self.folder / "out").exists())
        self.store("get", self.address, "--out", "out", endpoint=faults.endpoint)
        self.assertEqual((self.folder / "out").read_bytes(), data)

    def test_a_failed_upload_publishes_nothing_and_its_owner_goes_on(self):
        data = self.file("in", 2 * PART)
        faults.first(10**6, 500, "PUT", "partNumber=2")
        self.store("put", "in", self.address, "--owner", "me", "--patience", 1, endpoint=faults.endpoint, code=7)
        faults.first(0, None)
        self.store("get", self.address, "--out", "out", code=5)
        self.store("put", "in", self.address, "--owner", "another", code=4)
        self.store("put", "in", self.address, "--owner", "me")
        self.assertEqual(self.fetched(), data)

    def test_unreachable_is_not_absent(self):
        faults.first(10**6, 503)
        done = self.store("get", self.address, "--out", "out", "--patience", 1, endpoint=faults.endpoint, code=7)
        self.assertIn("HTTP 503", done.stderr)

    def test_a_download_cut_short_goes_on(self):
        data = self.file("in", 3 * PART)
        self.store("put", "in", self.address)
        faults.first(10**6, 500, "GET", "")
        wanted = [0]

        def third_fails(method, path):
            if method == "GET":
                wanted[0] += 1
                return 500 if wanted[0] > 2 else None
            return None

        faults.rule = third_fails
        self.store("get", self.address, "--out", "out", "--patience", 1, "--transfers", 1, endpoint=faults.endpoint, code=7)
        faults.first(0, None)
        self.store("get", self.address, "--out", "out", endpoint=faults.endpoint)
        self.assertEqual(sum(1 for method, _, _ in faults.seen if method == "GET"), 1)
        self.assertEqual((self.folder / "out").read_bytes(), data)

    def test_a_store_that_ignores_conditions_is_refused(self):
        (self.folder / "buckets/zoo").mkdir(parents=True)
        port = free_ports(1)[0]
        serving = subprocess.Popen([program("rclone"), "serve", "s3", "--addr", f"127.0.0.1:{port}", "--auth-key",
                                    f"{ACCESS},{SECRET}", "--config", "/dev/null", self.folder / "buckets"],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(serving.wait)
        self.addCleanup(serving.terminate)
        self.file("in", 100)
        done = self.store("put", "in", self.address, endpoint=f"http://127.0.0.1:{port}", code=5)
        self.assertIn("cannot be published to", done.stderr)
        self.store("get", self.address, "--out", "out", endpoint=f"http://127.0.0.1:{port}", code=5)
        probed = self.store("probe", "s3://zoo", "--json", endpoint=f"http://127.0.0.1:{port}", code=1)
        self.assertIs(json.loads(probed.stdout)["publishable"], False)

    def test_the_server_is_away_for_a_while(self):
        data = self.file("in", PART + 7)
        server.stop()
        threading.Timer(8, server.start).start()
        self.store("put", "in", self.address, "--patience", 120)
        self.assertEqual(self.fetched(), data)


unittest.main()
