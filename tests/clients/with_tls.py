#!/usr/bin/env python3
"""Client libraries by TLS: redis-py, ioredis and go-redis, each as for a lone server and as cluster
clients, against three nodes in mode cluster that also speak TLS with each other.

Each client trusts the authority of `carillon certs dev`, and must refuse the nodes if it trusts
another.
"""

import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE.parent), str(HERE)]

from harness.cluster import Cluster  # noqa: E402
from harness.report import Report  # noqa: E402
from harness.server import CARILLON  # noqa: E402

CLIENTS = {
    "redis-py": [ROOT / "target/venv/bin/python", HERE / "redis_py_tls.py"],
    "ioredis": ["node", HERE / "ioredis/tls.js"],
    "go-redis": [ROOT / "target/clients/goredis", "tls"],
}


def certificates(directory):
    """A new authority with certificates."""
    subprocess.run([CARILLON, "certs", "dev", "--dir", directory], check=True,
                   stdout=subprocess.DEVNULL)
    return directory


def moved(cluster, ca):
    """What nodes say by TLS names ports for TLS, and plain clients hear of plain ports."""
    def ask(port, *words):
        command = ["redis-cli", "-p", str(port), *words]
        if port in cluster.tls:
            command[1:1] = ["--tls", "--cacert", str(ca)]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    plain = {str(node.resp) for node in cluster.nodes}
    secure = {str(port) for port in cluster.tls}
    for node, port in zip(cluster.nodes, cluster.tls):
        for asked, expected in ((node.resp, plain), (port, secure)):
            lines = ask(asked, "cluster", "nodes").splitlines()
            shown = {line.split()[1].split("@")[0].rsplit(":", 1)[1] for line in lines}
            assert shown == expected, f"{asked}: {shown}"
            words = ask(asked, "cluster", "slots").split()
            assert expected <= set(words), f"{asked}: {words}"
    said = [ask(port, "get", "key").strip() for port in cluster.tls]
    redirects = [text.split()[-1] for text in said if text.startswith("MOVED")]
    assert len(redirects) == 2, said
    assert all(text.rsplit(":", 1)[1] in secure for text in redirects), redirects


def run(report, name, command, addresses, good, bad):
    """One client, with the authority that it trusts and another."""
    words = [str(word) for word in [*command, addresses, good, bad]]
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=120, check=False)
    lines = (done.stdout + done.stderr).splitlines()
    print("".join(f"  {line}\n" for line in lines), end="", flush=True)
    passed = sum(line.startswith("ok ") for line in lines)
    failed = sum(line.startswith("FAIL ") for line in lines)
    if (done.returncode or not passed) and not failed:
        print(f"  FAIL {name} ended with {done.returncode}")
        failed = 1
    report.passed += passed
    report.failed += failed


def main():
    """All clients, one after the other."""
    report = Report("clients by TLS")
    with tempfile.TemporaryDirectory(prefix="carillon-tls-") as directory:
        certs = certificates(Path(directory) / "certs")
        others = certificates(Path(directory) / "others")
        flags = "--resp-mode cluster " + " ".join(
            f"--{name} {shlex.quote(str(certs / file))}" for name, file in (
                ("tls-cert-file", "server.pem"), ("tls-key-file", "server.key"),
                ("peer-tls-cert-file", "peer.pem"), ("peer-tls-key-file", "peer.key"),
                ("peer-tls-ca-file", "ca.pem")))
        with Cluster(flags=flags, tls=True) as cluster:
            addresses = ",".join(f"127.0.0.1:{port}" for port in cluster.tls)
            report.run("addresses by TLS", moved, cluster, certs / "ca.pem")
            for name, command in CLIENTS.items():
                run(report, name, command, addresses, certs / "ca.pem", others / "ca.pem")
    report.finish()


if __name__ == "__main__":
    main()
