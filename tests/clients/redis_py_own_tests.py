#!/usr/bin/env python3
"""redis-py's own tests of publish and subscribe, locks, scripts, functions and client-side caches.

They come with its source package, which pip fetches once into target/clients; without it this suite
fails. They run through a node of three: in mode any as a lone server's, in mode cluster by the
cluster client. Needs pytest and its plugins (requirements-soak.txt).
"""

import re
import subprocess
import sys
import tarfile
from pathlib import Path

import redis

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from harness.cluster import Cluster  # noqa: E402
from harness.report import Report  # noqa: E402

SOURCES = Path(__file__).resolve().parents[2] / "target/clients"
TESTS = ["pubsub", "lock", "scripting", "function", "cache"]
ASYNCIO = ["pubsub", "lock", "scripting"]
SECONDS_MAX = 900
# They take for granted which slots the nodes of redis-py's own test cluster have: that two channels
# are of one node. Here any node may lead either slot.
LEFT_OUT = ["test_resubscribe_shard_channels_different_slots_same_node"]


def source():
    """The directory of the source package of the redis-py that is installed."""
    name = f"redis-{redis.__version__}"
    if not (SOURCES / name).exists():
        SOURCES.mkdir(parents=True, exist_ok=True)
        subprocess.run(
            [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps",
             "--no-binary", "redis", "--dest", SOURCES, f"redis=={redis.__version__}"],
            check=True,
        )
        with tarfile.open(SOURCES / f"{name}.tar.gz") as packed:
            packed.extractall(SOURCES, filter="data")
    return SOURCES / name


def run(mode, report):
    """All tests, through the second node of a cluster in this mode."""
    marks = "not redismod" + (" and not onlycluster" if mode == "any" else " and not onlynoncluster")
    files = [f"tests/test_{name}.py" for name in TESTS]
    files += [f"tests/test_asyncio/test_{name}.py" for name in ASYNCIO]
    with Cluster(flags=f"--resp-mode {mode}") as cluster:
        node = cluster.nodes[1]
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "--timeout", "60", "-m", marks, *files,
             "-k", " and ".join(f"not {name}" for name in LEFT_OUT),
             "-p", "no:cacheprovider", "--redis-url", f"redis://{node.host}:{node.resp}/0",
             "--redis-cluster-nodes", "3"],
            cwd=source(), capture_output=True, text=True, timeout=SECONDS_MAX, check=False,
        )
    for line in done.stdout.splitlines():
        if line.startswith(("FAILED", "ERROR")):
            report.fail(f"{mode} {line.split(' - ')[0]}", line)
    counts = re.search(r"(\d+) passed", done.stdout)
    passed = int(counts.group(1)) if counts else 0
    if passed < 100 or done.returncode not in (0, 1):
        report.fail(f"{mode}: only {passed} tests passed", done.stdout[-2000:] + done.stderr[-2000:])
    else:
        report.ok(f"{mode}: {passed} tests passed")


def main():
    """Both modes."""
    report = Report("redis-py own tests")
    for mode in sys.argv[1:] or ("any", "cluster"):
        run(mode, report)
    report.finish()


if __name__ == "__main__":
    main()
