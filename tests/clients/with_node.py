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
sys.path.insert(0, str(HERE.parent))

from harness.server import Server  # noqa: E402


def main():
    """Runs run.sh before and after a restart."""
    parser = argparse.ArgumentParser(description="client libraries against a server")
    parser.add_argument("--server", default="carillon", help="carillon, redis-aof or a command")
    options = parser.parse_args()
    with Server(options.server) as server:
        target = f"{server.host}:{server.resp}"
        results = HERE.parents[1] / "target/clients/results.txt"
        results.parent.mkdir(parents=True, exist_ok=True)
        results.write_text("")
        for phase in ("use", "verify"):
            subprocess.run([HERE / "run.sh", target, phase, results], check=False)
            if phase == "use":
                print("  clients: restarting the server", flush=True)
                server.restart()
        if server.stop() != 0:
            results.write_text(results.read_text() + "FAIL the server did not stop cleanly\n")
        words = [line.split()[0] for line in results.read_text().splitlines()]
    passed, failed = words.count("ok"), words.count("FAIL")
    print(f"clients: {passed} passed, {failed} failed")
    sys.exit(0 if failed == 0 and passed > 0 else 1)


if __name__ == "__main__":
    main()
