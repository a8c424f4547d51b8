"""Servers for the suites: started in a directory of their own, on free ports, stopped by pid.

A server is named by a word: `redis` (the installed redis-server), `carillon` (the binary that
`TEST_CARILLON` names, by default target/release/carillon), `HOST:PORT` (one that runs already), or
a whole start command with the places {dir}, {resp}, {native} and {http}.
"""

import http.client
import json
import os
import random
import resource
import shlex
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

from . import resp
from .started import Started

ROOT = Path(__file__).resolve().parents[2]
CARILLON = os.environ.get("TEST_CARILLON", str(ROOT / "target/release/carillon"))
COMMANDS = {
    "redis": "redis-server --port {resp} --dir {dir} --bind 127.0.0.1 --save '' --maxclients 12000",
    "redis-aof": "redis-server --port {resp} --dir {dir} --bind 127.0.0.1 --save '' "
    "--appendonly yes --appendfsync everysec",
    "carillon": f"{shlex.quote(CARILLON)} start --dir {{dir}} --resp 127.0.0.1:{{resp}} "
    "--native 127.0.0.1:{native} --http 127.0.0.1:{http}",
}
START_SECONDS_MAX = 60.0
# Linux gives the ports from 32768 on to outgoing connections: a server that starts there may find
# its port taken.
PORTS = range(10_000, 32_000)
STOP_SECONDS_MAX = 30.0


def free_ports(count):
    """Ports that nothing listens on now, and that no outgoing connection is given."""
    sockets = {}
    while len(sockets) < count:
        port = random.choice(PORTS)
        if port in sockets:
            continue
        one = socket.socket()
        try:
            one.bind(("127.0.0.1", port))
            sockets[port] = one
        except OSError:
            one.close()
    for one in sockets.values():
        one.close()
    return list(sockets)


def raise_file_limit():
    """Lets this process and what it starts open as many files as the system allows."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


class Server(Started):
    """A server process, or one that runs already and is not ours to stop."""

    def __init__(self, spec):
        self.spec = spec
        self.process = None
        self.host = "127.0.0.1"
        self.native = self.http = None
        self.directory = None
        if " " not in spec and ":" in spec:
            self.host, port = spec.rsplit(":", 1)
            self.resp = int(port)
            self.template = None
            return
        self.template = COMMANDS.get(spec, spec)
        self.directory = Path(tempfile.mkdtemp(prefix="carillon-test-"))
        self.resp, native, http_port = free_ports(3)
        if "{native}" in self.template:
            self.native = native
        if "{http}" in self.template:
            self.http = http_port
        self.ports = {"resp": self.resp, "native": native, "http": http_port}

    @property
    def is_carillon(self):
        """Whether this is a Carillon node (it has an HTTP port), not a Redis."""
        return self.http is not None

    def spawn(self):
        """Starts the process without waiting for it."""
        data = self.directory / "data"
        data.mkdir(exist_ok=True)
        command = self.template.format(dir=shlex.quote(str(data)), **self.ports)
        with open(self.directory / "output.txt", "ab") as output:
            self.process = subprocess.Popen(
                shlex.split(command),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                # A node refuses variables of this prefix that it does not know.
                env={k: v for k, v in os.environ.items() if not k.startswith("CARILLON_")},
            )

    def start(self):
        """Starts the process and waits until it serves."""
        if self.template:
            self.spawn()
        self.wait_ready()
        return self

    def wait_ready(self):
        """Waits until the server serves; fails with its output if it ends instead."""
        deadline = time.monotonic() + START_SECONDS_MAX
        while not self.ready():
            if self.process and self.process.poll() is not None:
                code = self.process.returncode
                raise RuntimeError(f"server ended with {code} at start:\n{self.output_tail()}")
            if time.monotonic() > deadline:
                raise RuntimeError(f"server not ready in time:\n{self.output_tail()}")
            time.sleep(0.01)

    def ready(self):
        """Whether it serves now: /health/ready where there is HTTP, and PING."""
        try:
            if self.http:
                link = http.client.HTTPConnection(self.host, self.http, timeout=5)
                link.request("GET", "/health/ready")
                status = link.getresponse().status
                link.close()
                if status != 200:
                    return False
            connection = resp.Connection(self.host, self.resp, timeout_s=5)
            value = connection.call("PING")
            connection.close()
            return value == b"PONG"
        except (OSError, resp.ReplyError, resp.Closed, http.client.HTTPException):
            return False

    def request(self, method, path, body=None):
        """One HTTP request with a JSON body: (status, body text)."""
        link = http.client.HTTPConnection(self.host, self.http, timeout=20)
        headers = {"content-type": "application/json"} if body is not None else {}
        link.request(method, path, None if body is None else json.dumps(body), headers)
        answer = link.getresponse()
        text = answer.read().decode("utf-8", "replace")
        link.close()
        return answer.status, text

    def set_durability(self, number, level):
        """Sets how durable keyspace `number` is: sync, interval or memory. Nothing on Redis."""
        if not self.is_carillon:
            return
        connection = self.connect()
        connection.call("SELECT", number)
        connection.close()
        status, text = self.request("PATCH", f"/v1/keyspaces/{number}", {"durability": level})
        if status // 100 != 2:
            raise RuntimeError(f"PATCH keyspace {number} to {level}: {status} {text}")

    def connect(self, timeout_s=20.0):
        """A new RESP connection."""
        return resp.Connection(self.host, self.resp, timeout_s)

    def rss_bytes(self):
        """Resident memory of the process, or None if it is not ours."""
        if not self.process:
            return None
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        return None

    def alive(self):
        """Whether the process still runs (a server that is not ours: whether it serves)."""
        return self.process.poll() is None if self.process else self.ready()

    def kill(self):
        """kill -9."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self):
        """Asks the process to end and waits for it; returns its exit code."""
        if not self.process:
            return None
        if self.process.poll() is None:
            self.process.terminate()
        try:
            return self.process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self.kill()
            raise RuntimeError(f"did not stop in time:\n{self.output_tail()}") from None

    def restart(self):
        """Stops in order and starts again on the same files and ports."""
        self.stop()
        return self.start()

    def output_tail(self, characters=4000):
        """The end of what the process printed."""
        if not self.directory:
            return ""
        return (self.directory / "output.txt").read_text("utf-8", "replace")[-characters:]

    def clean(self):
        """Kills the process if it still runs, and removes its directory."""
        if self.process and self.process.poll() is None:
            self.kill()
        if self.directory:
            shutil.rmtree(self.directory, ignore_errors=True)
