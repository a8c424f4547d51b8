#!/usr/bin/env python3
"""The document at /openapi.json, tried against a real node: schemathesis makes requests that it
allows and requests that it does not, and looks whether each reply is one that it has.

  run.py                 a node of its own, with a fixed seed
  run.py --seed 7        other requests
  run.py --seconds 300   for longer

One check each operation, and one that the node lives. The streams of events and of changes are left
out, since their replies do not end; the tests of `api` and `carillon` read them. What fails is shown
with a curl command.

Not checked: that the node accepts all that the document allows. It cannot say which keyspaces and
shards there are, or that a shard is led elsewhere.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from harness.report import Report  # noqa: E402
from harness.server import Server  # noqa: E402

ROOT = HERE.parents[1]
SCHEMATHESIS = ROOT / "target/openapi-venv/bin/schemathesis"
SECONDS = 25
# Beyond the time that it is given, for its start and its last requests.
SECONDS_MORE_MAX = 60
EXAMPLES_MAX = 60
OUTPUT_CHARACTERS_MAX = 20_000
CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "negative_data_rejection",
    "unsupported_method",
    "allow_header_conformance",
)


def command(node, options, results):
    """The command line of schemathesis."""
    return [
        str(SCHEMATHESIS),
        "run",
        f"--url=http://127.0.0.1:{node.http}",
        f"--checks={','.join(CHECKS)}",
        f"--seed={options.seed}",
        f"--max-time={options.seconds}",
        f"--max-examples={EXAMPLES_MAX}",
        "--phases=examples,coverage,fuzzing",
        "--exclude-path=/v1/events",
        "--exclude-path=/v1/feed",
        "--request-timeout=10",
        "--suppress-health-check=all",
        "--warnings=off",
        "--continue-on-failure",
        "--no-shrink",
        "--no-color",
        "--report=junit",
        f"--report-junit-path={results}",
        f"http://127.0.0.1:{node.http}/openapi.json",
    ]


def run(node, options, report):
    """Runs it, and counts what it says of each operation."""
    with tempfile.TemporaryDirectory(prefix="carillon-openapi-") as folder:
        results = Path(folder) / "results.xml"
        ended = subprocess.run(
            command(node, options, results),
            cwd=folder,
            env=os.environ | {"HYPOTHESIS_STORAGE_DIRECTORY": folder},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=options.seconds + SECONDS_MORE_MAX,
            text=True,
            check=False,
        )
        if not results.exists():
            report.fail("schemathesis", f"ended with {ended.returncode}:\n{ended.stdout}")
            return
        for case in ElementTree.parse(results).iter("testcase"):
            name = case.get("name")
            wrong = [child for child in case if child.tag in ("failure", "error")]
            if wrong:
                report.fail(name, "\n".join(child.get("message", "") for child in wrong))
            else:
                report.ok(name)
        if ended.returncode != 0:
            print(ended.stdout[:OUTPUT_CHARACTERS_MAX])
            if report.failed == 0:
                report.fail("schemathesis", f"ended with {ended.returncode}")


def lives(node):
    """The node has survived, and serves."""
    assert node.alive(), node.output_tail()
    status, text = node.request("GET", "/health/ready")
    assert status == 200, text


def main():
    """All operations of one node."""
    parser = argparse.ArgumentParser(description="the document of the HTTP API")
    parser.add_argument("--seed", type=int, default=1, help="of the requests")
    parser.add_argument("--seconds", type=int, default=SECONDS, help="for how long")
    options = parser.parse_args()
    report = Report("openapi")
    with Server("carillon") as node:
        body = {"name": "orders", "placement": "ordered"}
        assert node.request("POST", "/v1/keyspaces", body)[0] == 201
        run(node, options, report)
        report.run("the node serves", lives, node)
    report.finish()


if __name__ == "__main__":
    main()
