#!/usr/bin/env python3
"""What a viewer of events costs: pipelined GETs a second of a node, with a viewer and without, in turns.

    python3 scripts/watch_cost.py                  # some three minutes; a machine with nothing else to do
    python3 scripts/watch_cost.py --turns 20 --samples 1000

Each turn is a run of redis-benchmark without a viewer, one with, and one without again: what the viewer
costs is judged against the mean of its neighbours, since a machine's speed changes within minutes. The
viewer asks for all events and for samples of requests, as the console does while a view shows them, and
reads what comes. Printed are the median of all turns, the quartiles, and how many samples came.

The exit code is 1 if the median cost is above the bound of docs/events.md (3 %), 2 if the run is of no
use: a turn without samples, or quiet neighbours that differ by more than a tenth.

The binary is the one that `TEST_CARILLON` names, by default target/release/carillon.
"""

import argparse
import csv
import io
import json
import shutil
import statistics
import subprocess
import sys
import threading
import urllib.request
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from harness.server import Server  # noqa: E402

COST_MAX = 0.03
NEIGHBOURS_MAX = 0.10
KEYS = 100_000


class Viewer:
    """Reads a stream of events until it is closed."""

    def __init__(self, http, samples):
        url = f"http://127.0.0.1:{http}/v1/events?scope=node&samples={samples}"
        self.stream = urllib.request.urlopen(url, timeout=30)
        self.samples = 0
        # The first event says that the stream has begun.
        self.stream.readline()
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()

    def read(self):
        try:
            for line in self.stream:
                if line.startswith(b"data:") and json.loads(line[5:])["type"] == "request":
                    self.samples += 1
        except (OSError, ValueError):
            pass  # it was closed

    def close(self):
        # A read that waits is woken by the end of the connection.
        self.stream.fp.raw._sock.shutdown(2)
        self.thread.join(10)
        return self.samples


def benchmark(port, test, args):
    """Requests a second."""
    command = ["redis-benchmark", "-p", str(port), "-t", test, "-n", str(args.requests)]
    command += ["-P", str(args.pipeline), "-c", str(args.clients), "-r", str(KEYS), "--csv", "-q"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    return float(rows[0]["rps"])


def measure(server, args):
    """The cost in each turn, how much its neighbours differ, and the fewest samples of a turn."""
    costs, differences, samples = [], [], []
    before = benchmark(server.resp, "get", args)
    for turn in range(args.turns):
        viewer = Viewer(server.http, args.samples)
        watched = benchmark(server.resp, "get", args)
        samples.append(viewer.close())
        after = benchmark(server.resp, "get", args)
        quiet = (before + after) / 2
        costs.append(1 - watched / quiet)
        differences.append(abs(before - after) / quiet)
        print(
            f"turn {turn + 1}: {before:12,.0f} {watched:12,.0f} {after:12,.0f} GET/s  "
            f"{costs[-1]:+7.2%}  {samples[-1]} samples",
            flush=True,
        )
        before = after
    return costs, differences, samples


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--turns", type=int, default=10, help="at least 2")
    parser.add_argument("--samples", type=int, default=20, help="a second: 20 is the console's")
    parser.add_argument("--requests", type=int, default=4_000_000, help="of each run")
    parser.add_argument("--pipeline", type=int, default=64)
    parser.add_argument("--clients", type=int, default=50)
    args = parser.parse_args()
    if args.turns < 2:
        parser.error("--turns has to be 2 or more")
    if shutil.which("redis-benchmark") is None:
        sys.exit("redis-benchmark is needed: make setup")
    with Server("carillon") as server:
        benchmark(server.resp, "set", args)
        benchmark(server.resp, "get", args)
        print("               without      watched      without")
        costs, differences, samples = measure(server, args)
    low, median, high = statistics.quantiles(costs, n=4)
    print(
        f"one viewer, {args.samples} samples a second: median cost {median:.2%} "
        f"(quartiles {low:.2%} and {high:.2%}); allowed: {COST_MAX:.0%}"
    )
    if min(samples) == 0:
        sys.exit(complain("a turn had no samples: its viewer saw nothing"))
    if statistics.median(differences) > NEIGHBOURS_MAX:
        sys.exit(complain("runs without a viewer differ by more than a tenth: the machine is not quiet"))
    return int(median > COST_MAX)


def complain(why):
    print(f"of no use: {why}")
    return 2


if __name__ == "__main__":
    sys.exit(main())
