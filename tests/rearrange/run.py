#!/usr/bin/env python3
"""Real nodes under a light load: nothing is lost, and what is written of it is right.

`bench rearrange` plays it, small: a fourth node joins three; and five nodes are parted, two from
three, while a shard is cut, which takes root (without it that play fails, or is skipped by
CARILLON_TESTS_WITHOUT_ROOT=1). Here its files are read by somebody who knows only what the front
page of crates/bench/src/bin/bench/rearrange/timeline.rs says: the JSON has every field, its numbers fit
together, and the picture is well-formed XML with everything in it that it is a picture of. Then
lies are told in the JSON, each of which must be found. How fast all was is not judged: the machine
may be busy (docs/performance.md has the figures).

  run.py
  run.py --json FILE --svg FILE           files of another run, of join or part, which are only read
"""

import argparse
import copy
import json
import os
import subprocess
import sys
import xml.etree.ElementTree as xml
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
# As the tests of carillon --test faults have it.
WITHOUT_ROOT = "CARILLON_TESTS_WITHOUT_ROOT"
sys.path.insert(0, str(HERE.parent))

from harness.report import Report  # noqa: E402

NUMBER = (int, float)
# Fields, by the path of the object that has them; and of what kind each is.
SCHEMA = {
    "": {
        "format": int, "play": str, "title": str, "machine": dict, "setup": dict, "events": list,
        "seconds": list, "figures": list, "failures": list, "slow": list, "read_back": dict,
    },
    "setup": {
        "nodes": int, "held": int, "shards": int, "replicas": int, "clients": int, "pause_ms": int,
        "filled_keys": int, "filled_bytes": int, "snapshot_rate": int, "flags": list, "network": str,
    },
    "events[]": {"at_s": NUMBER, "what": str},
    "seconds[]": {
        "at_s": int, "answered": int, "not_done": int, "unknown": int, "lost": int,
        "longest_wait_ms": NUMBER, "machine_stalled_ms": NUMBER, "host_taken": NUMBER,
        "moved_bytes": int, "changing": int, "below_strength": int, "clients": list, "nodes": list,
    },
    "seconds[].clients[]": {
        "node": int, "answered": int, "failed": int, "longest_wait_ms": NUMBER,
    },
    "seconds[].nodes[]": {
        "node": int, "replicas": int, "leaders": int, "bytes": int, "sent_bytes": int,
        "sending": int, "unsent_bytes": int, "processor": NUMBER,
    },
    "figures[]": {
        "what": str, "value": NUMBER, "unit": str, "limit": (str, type(None)),
        "holds": (bool, type(None)), "note": str,
    },
    "failures[]": {"at_s": NUMBER, "asked": str, "told": str},
    "slow[]": {"at_s": NUMBER, "took_ms": NUMBER, "asked": str},
    "read_back": {"client_keys": int, "filled_keys": int, "lost": int},
}
CHARTS = [
    "requests answered", "requests failed", "longest wait", "bytes moved", "bytes of each node",
    "replicas of each node", "leaders of each node", "processor of each node", "the host",
]
SVG = "{http://www.w3.org/2000/svg}"
# Scenario `part`: which nodes are cut off, and which go on.
FEW, MANY = (1, 2), (3, 4, 5)
REPLICAS_OF_PART = 5
# One half of a shard, and a keyspace.
SHARDS_MORE = 1 + 8
# How each play is made small.
PLAYS = {
    "join": ["--clients", "4", "--baseline-s", "6"],
    "part": ["--clients", "5", "--baseline-s", "2"],
}


def check(report, name, holds, why):
    """One check."""
    report.ok(name) if holds else report.fail(name, why)


def misfits(value, path=""):
    """What does not follow the schema, in words."""
    if isinstance(value, list):
        for each in value:
            yield from misfits(each, path + "[]")
    elif path in SCHEMA:
        fields = SCHEMA[path]
        if set(value) != set(fields):
            yield f"{path or 'the whole'} has {sorted(set(value) ^ set(fields))} too many or few"
            return
        for name, kind in fields.items():
            if not isinstance(value[name], kind):
                yield f"{path}.{name} is {value[name]!r}"
            yield from misfits(value[name], f"{path}.{name}" if path else name)


def judge(report, timeline):
    """What is written of a play."""
    wrong = sorted(set(misfits(timeline)))
    check(report, "the JSON is as it is documented", not wrong, "; ".join(wrong[:5]))
    if wrong:
        return
    seconds, setup = timeline["seconds"], timeline["setup"]
    read_back = timeline["read_back"]
    lost = read_back["lost"] + sum(second["lost"] for second in seconds)
    check(report, "nothing acknowledged is lost", lost == 0, f"{lost} keys")
    were_read = read_back["client_keys"] > 0 and read_back["filled_keys"] == setup["filled_keys"]
    check(report, "everything was read back", were_read, str(read_back))
    times = [second["at_s"] for second in seconds]
    check(report, "seconds rise", times == sorted(set(times)), str(times))
    sums = [
        second for second in seconds
        if second["answered"] != sum(one["answered"] for one in second["clients"])
        or second["not_done"] + second["unknown"] != sum(one["failed"] for one in second["clients"])
    ]
    check(report, "what clients saw adds up", not sums, str(sums[:1]))
    {"join": judge_join, "part": judge_part}[timeline["play"]](report, timeline)


def at(report, timeline, what):
    """When something happened."""
    times = [event["at_s"] for event in timeline["events"] if event["what"] == what]
    check(report, f"event: {what}", len(times) == 1, str(timeline["events"]))
    return times[0] if times else 0.0


def are_there(report, timeline, replicas):
    """All replicas are held in the end."""
    held = sum(node["replicas"] for node in timeline["seconds"][-1]["nodes"])
    check(report, "all replicas are there", held == replicas, f"{held} of {replicas}")


def judge_join(report, timeline):
    """A node joins, and clients do not notice."""
    seconds, setup = timeline["seconds"], timeline["setup"]
    failed = sum(second["not_done"] + second["unknown"] for second in seconds)
    check(report, "no request failed", failed == 0, str(timeline["failures"][:3]))
    at(report, timeline, "load alone")
    at(report, timeline, f"node {setup['nodes'] + 1} joins")
    are_there(report, timeline, setup["replicas"])
    new = [node for node in seconds[-1]["nodes"] if node["node"] == setup["nodes"] + 1]
    part = setup["replicas"] / (setup["nodes"] + 1)
    has_part = len(new) == 1 and new[0]["replicas"] >= part / 2
    check(report, "who joined has its part", has_part, str(new))
    moved = sum(second["moved_bytes"] for second in seconds)
    check(report, "what it has was moved", moved >= new[0]["bytes"] / 2 if new else False, f"{moved}")


def judge_part(report, timeline):
    """The network was parted: a majority went on and cut a shard, and the others came back."""
    seconds, setup = timeline["seconds"], timeline["setup"]
    parted = at(report, timeline, "a partition separates nodes 1, 2 from nodes 3, 4, 5")
    split = at(report, timeline, "the shard has split")
    made = at(report, timeline, "an operator creates a keyspace")
    healed = at(report, timeline, "the network is healed")
    done = parted < split < made < healed
    check(report, "both are done during the partition", done,
          f"{parted} {split} {made} {healed}")

    def answered(second, nodes):
        return [one["answered"] for one in second["clients"] if one["node"] in nodes]

    # Two seconds for an election, and for leases to end.
    inside = [s for s in seconds if s["at_s"] >= parted + 2 and s["at_s"] + 1 <= healed]
    check(report, "it is parted for seconds", len(inside) >= 3, f"{parted} {healed}")
    silent = [s["at_s"] for s in inside if 0 in answered(s, MANY)]
    check(report, "clients of three nodes go on", not silent, f"seconds {silent}")
    heard = [s["at_s"] for s in inside if any(answered(s, FEW))]
    check(report, "no client of the other two is answered", not heard, f"seconds {heard}")
    failed = sum(one["failed"] for s in seconds for one in s["clients"] if one["node"] in MANY)
    check(report, "no request of clients of three nodes failed", failed == 0,
          str(timeline["failures"][:3]))
    check(report, "all clients are served in the end",
          all(answered(seconds[-1], FEW + MANY)), str(seconds[-1]["clients"]))
    leaders = sum(node["leaders"] for node in seconds[-1]["nodes"])
    more = leaders - setup["shards"]
    check(report, "what was asked for while parted is there", more == SHARDS_MORE, f"{more}")
    are_there(report, timeline, setup["replicas"] + REPLICAS_OF_PART * SHARDS_MORE)


def lies(timeline):
    """Timelines that are not true, each with what is wrong about it."""

    def lie(what, change):
        told = copy.deepcopy(timeline)
        change(told)
        return what, told

    def parted(told, nodes, answered):
        healed = [e["at_s"] for e in told["events"] if e["what"] == "the network is healed"][0]
        second = [s for s in told["seconds"] if s["at_s"] + 1 <= healed][-1]
        for one in second["clients"]:
            if one["node"] in nodes:
                second["answered"] += answered - one["answered"]
                one["answered"] = answered

    def fail(told):
        second = told["seconds"][-1]
        second["unknown"] += 1
        second["clients"][-1]["failed"] += 1

    last = timeline["seconds"][-1]["nodes"][-1]
    yield lie("a key is lost", lambda told: told["read_back"].update(lost=1))
    yield lie("an answer is too old", lambda told: told["seconds"][3].update(lost=1))
    yield lie("nothing was read back", lambda told: told["read_back"].update(filled_keys=0))
    yield lie("a field is missing", lambda told: told["seconds"][0].pop("clients"))
    yield lie("a request failed", fail)
    yield lie("a replica is missing", lambda told: told["seconds"][-1]["nodes"][-1].update(
        replicas=last["replicas"] - 1))
    if timeline["play"] == "part":
        yield lie("one of three nodes is silent", lambda told: parted(told, MANY[:1], 0))
        yield lie("both sides serve", lambda told: parted(told, FEW[:1], 7))
        yield lie("the shard is whole", lambda told: told["seconds"][-1]["nodes"][-1].update(
            leaders=last["leaders"] - 1))


def find_lies(report, timeline):
    """Each lie is found."""
    for what, told in lies(timeline):
        quiet = Report("lies", quiet=True)
        judge(quiet, told)
        check(report, f"it is found if {what}", quiet.failed > 0, "nothing was found")


def judge_picture(report, timeline, picture):
    """The picture of it."""
    seconds, setup = timeline["seconds"], timeline["setup"]
    events = [event["what"] for event in timeline["events"]]
    try:
        root = xml.fromstring(picture)
    except xml.ParseError as error:
        check(report, "the picture is well-formed", False, str(error))
        return
    check(report, "the picture is well-formed", root.tag == SVG + "svg", root.tag)
    words = " | ".join(text.text or "" for text in root.iter(SVG + "text"))
    missing = [word for word in CHARTS + events + [timeline["title"]] if word not in words]
    check(report, "it says what it shows", not missing, str(missing))
    # Axes and events are thinner.
    lines = [line for line in root.iter(SVG + "polyline") if line.get("stroke-width") == "2"]
    points = [len(line.get("points").split()) for line in lines]
    # Four charts have a line for each node.
    nodes = setup["nodes"] + setup["held"]
    expected = len(CHARTS) - 4 + 4 * nodes
    full = len(lines) == expected and max(points) == len(seconds)
    check(report, "a line for each, a point for each second", full, f"{len(lines)} {points}")
    style = "".join(style.text for style in root.iter(SVG + "style"))
    check(report, "it is legible on dark ground too", "prefers-color-scheme:dark" in style, style)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--json", type=Path)
    parser.add_argument("--svg", type=Path)
    parser.add_argument("--bench", default=str(ROOT / "target/release/bench"))
    parser.add_argument("--carillon", default=str(ROOT / "target/release/carillon"))
    options = parser.parse_args()
    report = Report("rearrange")
    written = [] if options.json is None else [(options.json, options.svg)]
    out = ROOT / "target/bench/test"
    for play, small in PLAYS.items() if not written else ():
        if play == "part" and os.geteuid() != 0:
            may_skip = os.environ.get(WITHOUT_ROOT) == "1"
            if may_skip:
                print(f"  skipped: part cuts a network, and {WITHOUT_ROOT} is set", flush=True)
            else:
                why = f"it cuts a network, which needs root; {WITHOUT_ROOT}=1 skips it"
                report.fail("part is played", why)
            continue
        command = [
            options.bench, "rearrange", play, "--quick", "--size", "4", "--pause-ms", "10",
            "--settle-s", "10", "--out", str(out), "--carillon", options.carillon, *small,
        ]
        played = subprocess.run(command, cwd=ROOT)
        check(report, f"{play} is played to its end", played.returncode == 0,
              f"{played.returncode}")
        if played.returncode == 0:
            written.append(tuple(out / f"rearrange-{play}.{kind}" for kind in ("json", "svg")))
    for told, picture in written:
        timeline = json.loads(told.read_text())
        failed = report.failed
        judge(report, timeline)
        # Of what is wrong already, no lie can be told.
        if report.failed == failed:
            judge_picture(report, timeline, picture.read_text())
            find_lies(report, timeline)
    report.finish()


if __name__ == "__main__":
    main()
