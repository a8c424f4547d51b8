#!/usr/bin/env python3
"""Redis's own Tcl suites, against a node: the units of commands that Carillon has.

The suites come with Debian's source package of redis. `apt-get source` fetches it once into
target/tcl, with lists and settings of its own there, so the machine's stay as they are. Where that
fails (no Debian, no network, no tclsh), this suite says so and is skipped.

Each unit runs alone, against a server of its own, in external mode: its harness connects to the
server and starts none. It leaves out tests that restart the server or need replicas. Harness and
results of a unit are in target/tcl/results.

known_failures.txt lists the tests that fail, each with its reason. A test that fails and is not
listed fails this suite. So does a listed test that passes, or that is gone: the list only shrinks.

  run.py                          a Carillon node
  run.py --only scripting         units whose name contains a word
  run.py --run-all                also the tests that the list leaves out
  run.py --server redis           redis-server, to try the test itself: every test must pass
"""

import argparse
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE.parent))

import known  # noqa: E402
import source  # noqa: E402
import unit as units  # noqa: E402
from harness.report import Report  # noqa: E402
from harness.server import Server  # noqa: E402

UNITS = [
    "unit/type/string", "unit/type/incr", "unit/expire", "unit/keyspace", "unit/scan",
    "unit/scripting", "unit/functions", "unit/pubsub", "unit/tracking", "unit/multi",
    "unit/introspection", "unit/introspection-2", "unit/protocol", "unit/info-command",
    "unit/latency-monitor", "unit/slowlog", "unit/quit", "unit/other", "unit/pause",
]


def main():
    """Fetches the suites, and runs the units."""
    parser = argparse.ArgumentParser(description="Redis's Tcl suites")
    parser.add_argument("--server", default="carillon", help="carillon, redis or a command")
    parser.add_argument("--only", default="", help="units whose name contains this")
    parser.add_argument("--run-all", action="store_true", help="also what the list leaves out")
    options = parser.parse_args()
    # Redis fails none of its own tests.
    reasons = known.read(UNITS) if options.server != "redis" else {unit: {} for unit in UNITS}
    try:
        redis = source.fetch(ROOT / "target/tcl")
    except source.Unreachable as error:
        print(f"tcl: skipped: {error}", flush=True)
        return
    report = Report("tcl")
    for unit in UNITS:
        if options.only in unit:
            run(report, redis, unit, options, reasons[unit])
    report.finish()


def run(report, redis, unit, options, reasons):
    """Runs one unit on a server of its own, and compares with the list."""
    results = ROOT / "target/tcl/results"
    results.mkdir(exist_ok=True)
    log = results / (unit.removeprefix("unit/").replace("/", "-") + ".txt")
    left_out = [] if options.run_all else known.left_out(reasons)
    began = time.monotonic()
    with Server(options.server) as server:
        result = units.run_unit(redis, unit, server, left_out, log)
        if not server.alive():
            report.fail(f"{unit}: the server ended", server.output_tail(600))
    write(log.with_suffix(".results"), unit, result)
    counts = f"{len(result.passed)} pass, {len(result.failed)} fail, {len(left_out)} left out"
    wrong = list(known.judge(reasons, result))
    for test, why in wrong:
        report.fail(f"{unit}: {test}", why)
    if not wrong:
        report.ok(f"{unit}: {counts}", time.monotonic() - began)
    else:
        print(f"       {unit}: {counts}", flush=True)


def write(path, unit, result):
    """The results by test, a line each, as in the list."""
    lines = [known.line(unit, test, "passes") for test in sorted(result.passed)]
    lines += [known.line(unit, test, f"fails: {why}") for test, why in result.failed.items()]
    lines += [known.line(unit, test, "left out") for test in sorted(result.skipped)]
    path.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
