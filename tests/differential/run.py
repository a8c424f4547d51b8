#!/usr/bin/env python3
"""The same command streams to redis-server and to a target; every reply compared byte for byte.

Random streams from seeds (RESP2 and RESP3, one to three connections, pipelined in random pieces),
scripts (scripts/*.redis, both protocols), conversations of several connections
(scripts/pubsub.txt, tracking.txt), protocol errors (scripts/protocol.txt), each on a connection of
its own, and what COMMAND tells (commands.py). What may differ stands in may_differ.toml, and what Carillon answers
there in scripts/own.txt. A stream that fails is shrunk
and printed as redis-cli lines.

  run.py                         a Carillon node that this starts
  run.py --target HOST:PORT      a server that runs already (its data is flushed!)
  run.py --seed 7 --streams 1    one stream again
  run.py --self-test             redis-server against itself, then against one with planted faults
"""

import argparse
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import commands  # noqa: E402
import conversations  # noqa: E402
import generate  # noqa: E402
import play  # noqa: E402
import planted  # noqa: E402
import scripts  # noqa: E402
from harness.report import Report  # noqa: E402
from harness.server import Server  # noqa: E402
from rules import Rules  # noqa: E402


def main():
    """Parses the command line and runs the suites."""
    parser = argparse.ArgumentParser(description="compares a server with redis-server")
    parser.add_argument("--target", default="carillon", help="carillon, redis, HOST:PORT, command")
    parser.add_argument("--seed", type=int, help="first seed (default: the time)")
    parser.add_argument("--streams", type=int, default=100, help="how many random streams")
    parser.add_argument("--commands", type=int, default=400, help="commands per stream")
    parser.add_argument("--failures", type=int, default=5, help="stop after so many")
    parser.add_argument("--self-test", action="store_true", help="test this suite itself")
    options = parser.parse_args()
    if options.seed is None:
        options.seed = int(time.time())
    report = Report("differential")
    with Server("redis") as reference:
        if options.self_test:
            with Server("redis") as target:
                compare(reference, target, options, report)
                planted.check(reference, target, report)
        else:
            with Server(options.target) as target:
                compare(reference, target, options, report)
    report.finish()


def compare(reference, target, options, report):
    """All scripts, protocol errors and random streams."""
    player = play.Player(reference, target, Rules())
    for path in sorted((HERE / "scripts").glob("*.redis")):
        for protocol in ("2", "3"):
            ops = scripts.read(path, protocol)
            judge(player, ops, 0, f"{path.name} RESP{protocol}", report, scripted=True)
    for subject in ("pubsub", "tracking"):
        for name, lines in conversations.read(HERE / f"scripts/{subject}.txt"):
            for protocol in ("2", "3"):
                report.run(f"{subject} {name} RESP{protocol}",
                           conversations.play, reference, target, lines, protocol)
    for name, data in scripts.protocol_cases(HERE / "scripts/protocol.txt"):
        report.run(f"protocol {name}", scripts.protocol_case, reference, target, data)
    for protocol in (2, 3):
        for name in ("info", "docs", "calls"):
            check = (commands.check, reference, target, protocol, name)
            report.run(f"COMMAND {name} RESP{protocol}", *check)
    if target.is_carillon:
        report.run("own answers", scripts.own_answers, target, HERE / "scripts/own.txt")
    print(f"  differential: seeds {options.seed} to {options.seed + options.streams - 1}")
    for seed in range(options.seed, options.seed + options.streams):
        ops = generate.Generator(seed).stream(options.commands)
        judge(player, ops, seed, f"seed {seed}", report)
        if report.failed >= options.failures:
            print(f"  differential: stopped after {report.failed} failures")
            break


def judge(player, ops, seed, name, report, scripted=False):
    """Plays a stream; shrinks and prints it if it fails."""
    began = time.monotonic()
    try:
        count = player.play(ops, seed, scripted)
    except Exception as first:  # pylint: disable=broad-except
        report.fail(name, f"{type(first).__name__}: {first}")
        print(explain(player, ops, seed, scripted, first), flush=True)
        return
    report.ok(f"{name}: {count} replies", time.monotonic() - began)


def explain(player, ops, seed, scripted, first):
    """The shrunk stream as redis-cli lines, and what differs in it."""

    def fails(some):
        try:
            player.play(some, seed, scripted)
        except play.Difference:
            return True
        except Exception:  # pylint: disable=broad-except
            return type(first) is not play.Difference
        return False

    if not fails(ops):
        return f"  (did not fail again)\n{first.report() if hasattr(first, 'report') else first}"
    small = play.shrink(ops, fails)
    last = first
    try:
        player.play(small, seed, scripted)
    except Exception as error:  # pylint: disable=broad-except
        last = error
    lines = [f"  {len(ops)} operations shrunk to {len(small)}:"]
    several = len({op.connection for op in small}) > 1
    for op in small:
        mark = f"  # connection {op.connection}" if several else ""
        lines += [f"    {line[:600]}{mark}" for line in op.lines()]
    lines.append(last.report() if isinstance(last, play.Difference) else f"  {last}")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
