#!/usr/bin/env python3
"""Replays the sessions of README.md and docs/start.md, and compares what is printed.

| in front of a block | what it is |
|---|---|
| `<!-- session: node -->` | starts a lone node and compares its log |
| `<!-- session: cluster -->` | starts `carillon dev` and compares what it prints until all is ready |
| `<!-- session: again -->` | starts a killed node of it with the command that it has printed |
| `<!-- session -->` | is run by bash beside it, command by command |
| `<!-- session: soon -->` | the same, each command again and again until it prints that |

The binary is the one that `TEST_CARILLON` names, by default target/release/carillon. Everything
runs in a directory of its own on free ports; the documents' addresses and process numbers are
translated. In what is expected, `…` stands for any text, alone on a line for any number of lines.
Four more things may differ: how wide the columns of a table are, the order of the keys that `scan`
shows, and on a slow machine a time to live that is a few seconds shorter and what `time` shows.
"""

import os
import random
import re
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))
from harness.server import CARILLON, free_ports  # noqa: E402

BINARY = Path(CARILLON).resolve()
DOCUMENTS = ("README.md", "docs/start.md")
BLOCK = re.compile(r"<!-- session(?:: (\w+))? -->\n```console\n(.*?)```", re.DOTALL)
LONE_PORTS = {"resp": 6379, "native": 7400, "http": 7480}
CLUSTER_PORTS = LONE_PORTS | {"peer": 7600}
NODES = 3
READY_SECONDS_MAX = 60
COMMAND_SECONDS_MAX = 60
SOON_SECONDS_MAX = 60
STOP_SECONDS_MAX = 30
TTL_SECONDS_SHORTER_MAX = 60
REAL_SECONDS_MAX = 10
END = "-- end of command --"


def steps(block):
    """The commands of a block, each with the lines it is to print."""
    found = []
    for line in block.splitlines():
        if line.startswith("$ "):
            found.append((line[2:], []))
        else:
            found[-1][1].append(line)
    return found


def matches(command, expected, printed):
    """Whether what a command printed is what the document says."""
    if re.match(r"redis-cli ttl ", command):
        want, got = (re.fullmatch(r"\(integer\) (\d+)", "\n".join(x)) for x in (expected, printed))
        return bool(want and got) and 0 <= int(want[1]) - int(got[1]) <= TTL_SECONDS_SHORTER_MAX
    if re.match(r"redis-cli scan ", command):
        want, got = (sorted(re.findall(r'"(.*?)"', "\n".join(x))) for x in (expected, printed))
        return want == got
    if command.startswith("time "):
        real = re.search(r"^real\s+0m(\d+\.\d+)s$", "\n".join(printed), re.MULTILINE)
        if real is None or float(real[1]) > REAL_SECONDS_MAX:
            return False
        expected = [re.sub(r"^(real\s+)0m\d+\.\d+s$", r"\1…", line) for line in expected]
    pieces = []
    for line in expected:
        if line == "…":
            pieces.append(r"(?:[^\n]*\n)*")
        else:
            pieces.append(".*".join(re.escape(part) for part in narrow(line).split("…")) + r"\n")
    text = "".join(narrow(line) + "\n" for line in printed)
    return re.fullmatch("".join(pieces), text) is not None


def narrow(line):
    """A line with one space between its columns."""
    return re.sub(r"\s+", " ", line).rstrip()


def too_late(*_):
    raise TimeoutError(f"a command took more than {COMMAND_SECONDS_MAX} s")


def without_settings():
    """The environment for a node, which refuses settings that it does not know."""
    return {k: v for k, v in os.environ.items() if not k.startswith("CARILLON_")}


def stop(process):
    """Asks one to end, and ends it if it does not; SIGKILL is enough for `carillon dev` too."""
    if process is None or process.poll() is not None:
        return
    process.terminate()
    try:
        process.wait(STOP_SECONDS_MAX)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


class Session:
    """A shell, and what it talks to. `replaced` translates words of the document."""

    def __init__(self, directory):
        self.directory = Path(directory)
        self.directory.mkdir()
        self.shell = None
        self.node = None
        self.replaced = {}
        self.checked = 0
        self.failures = []

    def translated(self, text):
        """With the ports and process numbers of this run."""
        if not self.replaced:
            return text
        words = "|".join(re.escape(word) for word in self.replaced)
        return re.sub(rf"(?<!\d)({words})(?!\d)", lambda found: self.replaced[found[1]], text)

    def check(self, command, expected, printed):
        self.checked += 1
        expected = [self.translated(line) for line in expected]
        if not matches(command, expected, printed):
            self.failures.append(command)
            print(f"$ {command}\n-- the document says:")
            print("\n".join(expected) + "\n-- printed:\n" + "\n".join(printed) + "\n")

    def spawn(self, command, is_ready):
        """Starts a process, and waits until its log says that it is ready: both."""
        log = self.directory / f"log-{self.checked}"
        with log.open("w") as output:
            process = subprocess.Popen(
                command, cwd=self.directory, stdin=subprocess.DEVNULL,
                stdout=output, stderr=output, env=without_settings(),
            )
        try:
            until = time.monotonic() + READY_SECONDS_MAX
            while not is_ready(log.read_text()):
                if process.poll() is not None or time.monotonic() > until:
                    sys.exit(f"it does not start: {command}\n{log.read_text()}")
                time.sleep(0.05)
        except BaseException:
            stop(process)
            raise
        return process, log

    def open_shell(self, port, http):
        # As at a terminal, which these are not: redis-cli's quotes and types, curl's plain output.
        functions = (
            f"redis-cli() {{ command redis-cli -p {port} --no-raw \"$@\"; }}\n"
            f"carillon() {{ '{BINARY}' \"$@\"; }}\n"
            "pidof() { echo \"$NODE_PID\"; }\n"
        )
        self.shell = subprocess.Popen(
            ["bash"], cwd=self.directory, env=os.environ | {"CARILLON_HTTP": f"127.0.0.1:{http}"},
            text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            # What it has begun ends with it.
            start_new_session=True,
        )
        self.shell.stdin.write(functions)

    def printed(self, command):
        """What a command prints, as lines."""
        # A value without a newline ends its line here, as carillon itself sees to at a terminal.
        script = (
            f"NODE_PID={self.node.pid if self.node else ''}\n"
            f"{{ {self.translated(command)}\n}} </dev/null\n"
            f"echo; echo '{END}'\n"
        )
        self.shell.stdin.write(script)
        self.shell.stdin.flush()
        signal.alarm(COMMAND_SECONDS_MAX)
        printed = []
        for line in self.shell.stdout:
            if line.rstrip("\n") == END:
                break
            printed.append(line.rstrip("\n"))
        signal.alarm(0)
        while printed and printed[-1] == "":
            printed.pop()
        return printed

    def run(self, command, expected):
        self.check(command, expected, self.printed(command))

    def soon(self, command, expected):
        until = time.monotonic() + SOON_SECONDS_MAX
        printed = self.printed(command)
        wanted = [self.translated(line) for line in expected]
        while not matches(command, wanted, printed) and time.monotonic() < until:
            time.sleep(0.2)
            printed = self.printed(command)
        self.check(command, expected, printed)

    def close(self):
        if self.shell is not None:
            if self.shell.poll() is None:
                os.killpg(self.shell.pid, signal.SIGKILL)
            self.shell.wait()


class Lone(Session):
    """A node that is started, killed, and started again."""

    def __init__(self, directory):
        super().__init__(directory)
        self.ports = dict(zip(LONE_PORTS, free_ports(len(LONE_PORTS))))
        self.replaced = {
            f"127.0.0.1:{port}": f"127.0.0.1:{self.ports[name]}"
            for name, port in LONE_PORTS.items()
        }

    def node_block(self, command, expected):
        if self.node is not None:
            # The session has killed it.
            self.node.wait(READY_SECONDS_MAX)
        listen = [f"--{name}=127.0.0.1:{port}" for name, port in self.ports.items()]
        start = [BINARY, "start", "--dir", "data", *listen]
        self.node, log = self.spawn(start, lambda said: said.endswith("INFO ready\n"))
        self.check(command, expected, log.read_text().splitlines())
        if self.shell is None:
            self.open_shell(self.ports["resp"], self.ports["http"])

    def close(self):
        super().close()
        stop(self.node)


class Cluster(Session):
    """`carillon dev`, and a node of it that is started again by hand."""

    def __init__(self, directory):
        super().__init__(directory)
        self.base = free_base_port()
        shift = self.base - CLUSTER_PORTS["resp"]
        ports = [port + node for port in CLUSTER_PORTS.values() for node in range(NODES)]
        self.replaced = {
            f"{where}{port}": f"{where}{port + shift}"
            for port in ports for where in ("127.0.0.1:", "-p ")
        }
        self.dev = self.log = None

    def cluster_block(self, command, expected):
        start = [BINARY, "dev", "--nodes", str(NODES), "--base-port", str(self.base)]
        self.dev, self.log = self.spawn(start, lambda said: "Ctrl-C" in said)
        said = self.log.read_text().splitlines()
        for line in filter(re.compile(r"node-\d ").match, expected):
            # Its name, four addresses, its process, its directory.
            fields = self.translated(line).split()
            found = [each.split() for each in said if each.split()[:5] == fields[:5]]
            if found:
                self.replaced[fields[5]] = found[0][5]
        self.check(command, expected, said)
        self.open_shell(self.base, self.base + CLUSTER_PORTS["http"] - CLUSTER_PORTS["resp"])

    def again_block(self, command, expected):
        told = re.findall(r"to start it again: (.*)", self.log.read_text())
        if len(told) != 1:
            sys.exit(f"carillon dev is to say how a node is started again, once: {told}")
        self.check("carillon dev", [command], told)
        start = shlex.split(told[0])
        self.node, log = self.spawn(start, lambda said: said.endswith("INFO ready\n"))
        self.check(command, expected, log.read_text().splitlines())

    def close(self):
        super().close()
        stop(self.node)
        stop(self.dev)


def free_base_port():
    """One with which no node of `carillon dev` finds a port taken."""
    offsets = [port - CLUSTER_PORTS["resp"] for port in CLUSTER_PORTS.values()]
    while True:
        # Below those that the system gives to clients.
        base = random.randrange(10_000, 30_000)
        sockets = []
        try:
            for port in (base + offset + node for offset in offsets for node in range(NODES)):
                sockets.append(socket.create_server(("127.0.0.1", port)))
            return base
        except OSError:
            continue
        finally:
            for each in sockets:
                each.close()


def main():
    # Both end what was started.
    signal.signal(signal.SIGALRM, too_late)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))
    blocks = [block for name in DOCUMENTS for block in BLOCK.findall((ROOT / name).read_text())]
    begin = {"node": Lone, "cluster": Cluster}
    sessions = []
    with tempfile.TemporaryDirectory(prefix="carillon-readme-") as directory:
        try:
            for kind, block in blocks:
                session = sessions[-1] if sessions else None
                if kind in begin and not isinstance(session, begin[kind]):
                    if session is not None:
                        session.close()
                    session = begin[kind](Path(directory) / kind)
                    sessions.append(session)
                play = {
                    "": "run", "soon": "soon",
                    "node": "node_block", "cluster": "cluster_block", "again": "again_block",
                }[kind]
                for command, expected in steps(block):
                    getattr(session, play)(command, expected)
        finally:
            for session in sessions:
                session.close()
    if sorted(type(session).__name__ for session in sessions) != ["Cluster", "Lone"]:
        sys.exit(f"{' and '.join(DOCUMENTS)} need one session with a node and one with a cluster")
    failed = sum(len(session.failures) for session in sessions)
    print(f"readme: {sum(s.checked for s in sessions) - failed} passed, {failed} failed")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
