#!/usr/bin/env python3
"""A fourth node joins three under a light load: nothing is lost, and what is written of it is right.

`bench rearrange join` plays it, small. Here its files are read by somebody who knows only what the
front page of crates/bench/src/rearrange/timeline.rs says: the JSON has every field, its numbers fit
together, and the picture is well-formed XML with everything in it that it is a picture of. How
fast all was is not judged: the machine may be busy (docs/performance.md has the figures).

  run.py
  run.py --json FILE --svg FILE           files of another run, which are only read
"""

import argparse
import json
import subprocess
import sys
import xml.etree.ElementTree as xml
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
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
        "filled_keys": int, "filled_bytes": int, "move_rate": int, "flags": list, "network": str,
    },
    "events[]": {"at_s": NUMBER, "what": str},
    "seconds[]": {
        "at_s": int, "answered": int, "not_done": int, "unknown": int, "lost": int,
        "longest_wait_ms": NUMBER, "machine_stalled_ms": NUMBER, "host_taken": NUMBER,
        "moved_bytes": int, "changing": int, "below_strength": int, "nodes": list,
    },
    "seconds[].nodes[]": {
        "node": int, "replicas": int, "leaders": int, "bytes": int, "sent_bytes": int,
        "sending": int, "processor": NUMBER,
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


def judge(report, timeline, picture):
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
    failed = sum(second["not_done"] + second["unknown"] for second in seconds)
    check(report, "no request failed", failed == 0, str(timeline["failures"][:3]))
    times = [second["at_s"] for second in seconds]
    check(report, "seconds rise", times == sorted(set(times)), str(times))
    events = [event["what"] for event in timeline["events"]]
    for what in ("load alone", f"node {setup['nodes'] + 1} joins"):
        check(report, f"event: {what}", what in events, str(events))
    last = seconds[-1]["nodes"]
    held = sum(node["replicas"] for node in last)
    check(report, "all replicas are there", held == setup["replicas"], f"{held} of {setup}")
    new = [node for node in last if node["node"] == setup["nodes"] + 1]
    part = setup["replicas"] / (setup["nodes"] + 1)
    has_part = len(new) == 1 and new[0]["replicas"] >= part / 2
    check(report, "who joined has its part", has_part, str(new))
    moved = sum(second["moved_bytes"] for second in seconds)
    check(report, "what it has was moved", moved >= new[0]["bytes"] / 2 if new else False, f"{moved}")

    try:
        root = xml.fromstring(picture)
    except xml.ParseError as error:
        check(report, "the picture is well-formed", False, str(error))
        return
    check(report, "the picture is well-formed", root.tag == SVG + "svg", root.tag)
    words = " | ".join(text.text or "" for text in root.iter(SVG + "text"))
    missing = [word for word in CHARTS + events + [timeline["title"]] if word not in words]
    check(report, "it says what it shows", not missing, str(missing))
    lines = list(root.iter(SVG + "polyline"))
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
    if options.json is None:
        out = ROOT / "target/bench/test"
        options.json, options.svg = out / "rearrange-join.json", out / "rearrange-join.svg"
        play = [
            options.bench, "rearrange", "join", "--quick", "--size", "4", "--clients", "4",
            "--pause-ms", "10", "--baseline-s", "6", "--settle-s", "20", "--out", str(out),
            "--carillon", options.carillon,
        ]
        played = subprocess.run(play, cwd=ROOT)
        check(report, "it is played to its end", played.returncode == 0, f"{played.returncode}")
        if played.returncode != 0:
            report.finish()
    judge(report, json.loads(options.json.read_text()), options.svg.read_text())
    report.finish()


if __name__ == "__main__":
    main()
