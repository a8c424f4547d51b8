#!/usr/bin/env python3
"""Bad input over real sockets: whatever one client does, the others are served.

Every case runs while a well-behaved client reads and writes; afterwards the server lives, that
client has met no error and no long wait, and the server's memory has stayed within the case's
bound. Cases for the native and the HTTP port run where the server has them.

  run.py                       a Carillon node
  run.py --server redis        redis-server, to try the test itself
  run.py --only idle           cases whose name contains a word
"""

import argparse
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import http_cases  # noqa: E402
import native_cases  # noqa: E402
import resp_cases  # noqa: E402
from harness.report import Report  # noqa: E402
from harness.server import Server, raise_file_limit  # noqa: E402
from witness import Witness  # noqa: E402

MIB = 1 << 20


def main():
    """Runs all cases against one server."""
    parser = argparse.ArgumentParser(description="bad input")
    parser.add_argument("--server", default="carillon", help="carillon, redis or a command")
    parser.add_argument("--only", default="", help="cases whose name contains this")
    options = parser.parse_args()
    raise_file_limit()
    report = Report("abuse")
    with Server(options.server) as server:
        cases = list(resp_cases.CASES)
        if server.is_carillon:
            cases += resp_cases.CARILLON_CASES + native_cases.CASES + http_cases.CASES
        else:
            connection = server.connect()
            # Redis bounds this only if it is configured to.
            connection.call("CONFIG", "SET", "client-output-buffer-limit", "normal 64mb 32mb 5")
            connection.close()
        for case, growth_mib in cases:
            if options.only in case.__name__:
                report.run(case.__name__, run_case, server, case, growth_mib * MIB)
                if not server.alive():
                    print(server.output_tail())
                    break
        if not options.only:
            report.run("stops cleanly", stops, server)
    report.finish()


def run_case(server, case, growth_max):
    """One case beside a witness; then the server must be alive and lean."""
    before = server.rss_bytes() or 0
    with Witness(server) as witness:
        case(server)
        after = server.rss_bytes() or 0
        time.sleep(0.05)
    assert server.alive(), "the server is gone"
    witness.judge()
    grown = after - before
    assert grown <= growth_max, f"memory grew by {grown >> 20} MiB, allowed {growth_max >> 20}"


def stops(server):
    """After all of it, SIGTERM still ends the process in order."""
    code = server.stop()
    assert code == 0, f"exit code {code}"


if __name__ == "__main__":
    main()
