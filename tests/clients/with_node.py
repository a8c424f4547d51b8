#!/usr/bin/env python3
"""Starts a server, runs all client libraries against it, restarts it, and lets each client look
whether its data is still there.

  with_node.py                       a Carillon node
  with_node.py --server redis-aof    redis-server, to try the tests themselves
"""

import argparse
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

import commander  # noqa: E402
import exporter  # noqa: E402
from harness.report import Report  # noqa: E402
from harness.server import Server  # noqa: E402


def main():
    """Runs run.sh before and after a restart."""
    parser = argparse.ArgumentParser(description="client libraries against a server")
    parser.add_argument("--server", default="carillon", help="carillon, redis-aof or a command")
    options = parser.parse_args()
    report = Report("clients")
    results = HERE.parents[1] / "target/clients/results.txt"
    results.parent.mkdir(parents=True, exist_ok=True)
    results.write_text("")
    with Server(options.server) as server:
        run(server, "use", results)
        report.run("redis_exporter", exporter.scrapes, server)
        report.run("Redis Commander", commander.browses, server)
        if report.run("restart", server.restart):
            run(server, "verify", results)
            report.run("clean stop", stops, server)
    words = [line.split()[0] for line in results.read_text().splitlines()]
    report.passed += words.count("ok")
    report.failed += words.count("FAIL")
    report.finish()


def run(server, phase, results):
    """All clients, one after the other."""
    target = f"{server.host}:{server.resp}"
    subprocess.run([HERE / "run.sh", target, phase, results], check=False)


def stops(server):
    """SIGTERM ends the process in order."""
    code = server.stop()
    assert code == 0, f"exit code {code}"


if __name__ == "__main__":
    main()
