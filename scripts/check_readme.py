#!/usr/bin/env python3
"""Replays the first session of README.md and compares what is printed.

A block behind `<!-- session: node -->` starts the node (the binary that `TEST_CARILLON` names, by
default target/release/carillon) and compares its log; one behind `<!-- session -->` is run by bash,
command by command. The node runs in a directory of its own on free ports, and the addresses of the
README are translated. In what is expected, `…` stands for any text, alone on a line for any number
of lines. Two more things may differ: the order of the keys that `scan` shows, and a time to live
that is a few seconds shorter on a slow machine.
"""

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))
from harness.server import CARILLON, free_ports  # noqa: E402

BINARY = Path(CARILLON).resolve()
BLOCK = re.compile(r"<!-- session(: node)? -->\n```console\n(.*?)```", re.DOTALL)
README_PORTS = {"resp": 6379, "native": 7400, "http": 7480}
READY_SECONDS_MAX = 60
COMMAND_SECONDS_MAX = 60
TTL_SECONDS_SHORTER_MAX = 60
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
    """Whether what a command printed is what the README says."""
    if re.match(r"redis-cli ttl ", command):
        want, got = (re.fullmatch(r"\(integer\) (\d+)", "\n".join(x)) for x in (expected, printed))
        return bool(want and got) and 0 <= int(want[1]) - int(got[1]) <= TTL_SECONDS_SHORTER_MAX
    if re.match(r"redis-cli scan ", command):
        want, got = (sorted(re.findall(r'"(.*?)"', "\n".join(x))) for x in (expected, printed))
        return want == got
    pieces = []
    for line in expected:
        if line == "…":
            pieces.append(r"(?:[^\n]*\n)*")
        else:
            pieces.append(".*".join(re.escape(part) for part in line.split("…")) + r"\n")
    text = "".join(line + "\n" for line in printed)
    return re.fullmatch("".join(pieces), text) is not None


class Session:
    """A node that is started and killed, and the shell beside it."""

    def __init__(self, directory):
        self.directory = Path(directory)
        self.ports = dict(zip(README_PORTS, free_ports(len(README_PORTS))))
        self.node = None
        self.shell = None
        self.checked = 0
        self.failures = []

    def translated(self, text):
        """With the ports of this run."""
        for name, port in README_PORTS.items():
            text = text.replace(f"127.0.0.1:{port}", f"127.0.0.1:{self.ports[name]}")
        return text

    def check(self, command, expected, printed):
        self.checked += 1
        expected = [self.translated(line) for line in expected]
        if not matches(command, expected, printed):
            self.failures.append(command)
            print(f"$ {command}\n-- README.md says:")
            print("\n".join(expected) + "\n-- printed:\n" + "\n".join(printed) + "\n")

    def start(self, command, expected):
        if self.node is not None:
            # The session has killed it.
            self.node.wait(timeout=READY_SECONDS_MAX)
        log = self.directory / f"log-{self.checked}"
        listen = []
        for name, port in self.ports.items():
            listen += [f"--{name}", f"127.0.0.1:{port}"]
        environment = {k: v for k, v in os.environ.items() if not k.startswith("CARILLON_")}
        with log.open("w") as output:
            self.node = subprocess.Popen(
                [BINARY, "start", "--dir", "data", *listen],
                cwd=self.directory, stdout=output, stderr=output, env=environment,
            )
        until = time.monotonic() + READY_SECONDS_MAX
        while not log.read_text().endswith("INFO ready\n"):
            if self.node.poll() is not None or time.monotonic() > until:
                sys.exit(f"the node does not start:\n{log.read_text()}")
            time.sleep(0.05)
        self.check(command, expected, log.read_text().splitlines())
        if self.shell is None:
            self.shell = self.open_shell()

    def open_shell(self):
        # As at a terminal, which these are not: redis-cli's quotes and types, curl's plain output.
        functions = (
            f"redis-cli() {{ command redis-cli -p {self.ports['resp']} --no-raw \"$@\"; }}\n"
            f"carillon() {{ '{BINARY}' \"$@\"; }}\n"
            "pidof() { echo \"$NODE_PID\"; }\n"
        )
        environment = dict(os.environ, CARILLON_HTTP=f"127.0.0.1:{self.ports['http']}")
        shell = subprocess.Popen(
            ["bash"], cwd=self.directory, env=environment, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )
        shell.stdin.write(functions)
        return shell

    def run(self, command, expected):
        # A value without a newline ends its line here, as carillon itself sees to at a terminal.
        script = (
            f"NODE_PID={self.node.pid}\n{{ {self.translated(command)}\n}} </dev/null\n"
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
        self.check(command, expected, printed)

    def close(self):
        for process in (self.shell, self.node):
            if process is not None and process.poll() is None:
                process.kill()
                process.wait()


def main():
    blocks = BLOCK.findall((ROOT / "README.md").read_text())
    if not any(node for node, _ in blocks):
        sys.exit("README.md has no session to replay")
    with tempfile.TemporaryDirectory(prefix="carillon-readme-") as directory:
        session = Session(directory)
        try:
            for node, block in blocks:
                for command, expected in steps(block):
                    (session.start if node else session.run)(command, expected)
        finally:
            session.close()
    failed = len(session.failures)
    print(f"readme: {session.checked - failed} passed, {failed} failed")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
