"""A real S3 server (SeaweedFS) on the loopback, and a proxy in front of it that makes things go wrong."""
import http.client
import http.server
import os
import pathlib
import re
import shutil
import socket
import subprocess
import tempfile
import threading
import time
import unittest

from support import KAIJU, SOURCE

ACCESS, SECRET = "AKTESTKEY", "SKTESTSECRETvalue"


def environment(endpoint):
    """What makes the program a client of the server, and of no other."""
    return {"AWS_ACCESS_KEY_ID": ACCESS, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_ENDPOINT_URL": endpoint,
            "AWS_SHARED_CREDENTIALS_FILE": "/dev/null", "AWS_CONFIG_FILE": "/dev/null", "no_proxy": "*"}


def wait_until_writable(endpoint):
    deadline = time.time() + 60
    while True:
        done = subprocess.run([KAIJU, "store", "probe", "s3://zoo", "--patience", "2", "--racers", "2"], capture_output=True,
                              text=True, env={**os.environ, **environment(endpoint)})
        if done.returncode == 0:
            return
        if done.returncode == 1:
            raise RuntimeError(f"the S3 server cannot be published to: {done.stdout}")
        if time.time() > deadline:
            raise RuntimeError(f"the S3 server does not come up: {done.stderr}")
        time.sleep(0.3)


def free_ports(count):
    """Ports that are free now, and free again 10000 higher, where the server wants its own protocol."""
    found, held = [], []
    while len(found) < count:
        try:
            one = socket.create_server(("127.0.0.1", 0))
            held.append(one)
            port = one.getsockname()[1]
            if port + 10000 < 65536:
                held.append(socket.create_server(("127.0.0.1", port + 10000)))
                found.append(port)
        except OSError:
            continue
    for one in held:
        one.close()
    return found


def program(name):
    """The path of a server's program, fetched where it is not there yet."""
    try:
        return subprocess.run([SOURCE / "scripts/s3_server.sh", name], check=True, capture_output=True, text=True,
                              timeout=300).stdout.strip()
    except subprocess.SubprocessError as error:
        raise unittest.SkipTest(f"no S3 server: {getattr(error, 'stderr', error)}")


class Server:
    """SeaweedFS with one bucket, "zoo"."""

    def __init__(self):
        self.program = program("weed")
        self.process = None
        for _ in range(3):  # a port that was free may be somebody else's by now, and then the server ends
            self.folder = tempfile.mkdtemp(prefix="kaiju-s3-")
            self.port, self.master, self.filer, self.volume, self.admin = free_ports(5)
            self.endpoint = f"http://127.0.0.1:{self.port}"
            self.start()
            if self.listens():
                return
            self.close()
        raise RuntimeError("the S3 server does not listen")

    def listens(self):
        deadline = time.time() + 60
        while self.process.poll() is None and time.time() < deadline:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return True
            except OSError:
                time.sleep(0.1)
        return False

    def start(self):
        environment = {**os.environ, "AWS_ACCESS_KEY_ID": ACCESS, "AWS_SECRET_ACCESS_KEY": SECRET, "S3_BUCKET": "zoo"}
        self.log = open(pathlib.Path(self.folder) / "log", "ab")
        self.process = subprocess.Popen(
            [self.program, "mini", f"-dir={self.folder}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", f"-s3.port={self.port}",
             "-s3.port.iceberg=0", "-s3.port.lance=0", "-s3.domainName=localhost", f"-master.port={self.master}",
             f"-filer.port={self.filer}", f"-volume.port={self.volume}", f"-admin.port={self.admin}", "-admin.ui=false",
             "-webdav=false", "-metricsPort=0"],
            env=environment, stdout=self.log, stderr=self.log, cwd=self.folder)

    def stop(self):
        if self.process:
            self.process.terminate()
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
            self.process = None
            self.log.close()

    def close(self):
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)


class Faults:
    """What the proxy does to requests. `rule(method, path)` gives the fault of one request, or None."""

    def __init__(self, upstream):
        self.upstream, self.rule, self.seen, self.headers = upstream, lambda method, path: None, [], []
        self.lock, self.open, self.most_open = threading.Lock(), 0, 0  # requests under way
        faults = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def handle_any(self):
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                with faults.lock:
                    faults.open += 1
                    faults.most_open = max(faults.most_open, faults.open)
                try:
                    return self.pass_on(body)
                finally:
                    with faults.lock:
                        faults.open -= 1

            def pass_on(self, body):
                fault = faults.rule(self.command, self.path)
                faults.seen.append((self.command, self.path, fault))
                if isinstance(fault, int):
                    return self.answer(fault, {}, b"")
                if fault == "drop":
                    self.close_connection = True
                    return None
                if isinstance(fault, float):
                    time.sleep(fault)
                upstream = http.client.HTTPConnection(faults.upstream, timeout=60)
                upstream.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
                for name, value in self.headers.items():
                    upstream.putheader(name, value)
                upstream.endheaders(body)
                answer = upstream.getresponse()
                content = answer.read()
                upstream.close()
                headers = {name: value for name, value in answer.getheaders()
                           if name.lower() not in ("content-length", "transfer-encoding", "connection")}
                if self.command == "HEAD":
                    headers["Content-Length"] = answer.getheader("Content-Length") or "0"
                if fault == "lost":  # the server did it, the client never hears
                    self.close_connection = True
                    return None
                if fault == "truncate" and self.command != "HEAD":
                    self.send_response_only(answer.status)
                    for name, value in headers.items():
                        self.send_header(name, value)
                    self.send_header("Content-Length", str(len(content)))
                    self.end_headers()
                    self.wfile.write(content[:len(content) // 2])
                    self.close_connection = True
                    return None
                if fault == "short":  # a body that ends early and says that it is whole
                    content = content[:len(content) // 2]
                if fault == "flip" and content:
                    content = bytes([content[0] ^ 1]) + content[1:]
                return self.answer(answer.status, headers, content)

            def answer(self, status, headers, content):
                self.send_response_only(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                if "Content-Length" not in headers:
                    self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(content)

            do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = handle_any

        class Quiet(http.server.ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_):
                pass

        self.server = Quiet(("127.0.0.1", 0), Handler)
        self.endpoint = f"http://127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()

    def first(self, count, fault, method="", path=""):
        """The fault hits the first `count` requests of that method whose path matches."""
        left = [count]

        def rule(own_method, own_path):
            if own_method.startswith(method) and re.search(path, own_path) and left[0] > 0:
                left[0] -= 1
                return fault
            return None

        self.rule, self.seen = rule, []

    def close(self):
        self.server.shutdown()
        self.server.server_close()
