#!/usr/bin/env python3
"""Client libraries against three nodes.

  mode cluster   the cluster clients of redis-py, ioredis and go-redis, all at once: what they can
                 do, then writes while the node that leads most is killed with -9 and started again;
                 nothing acknowledged is lost, and no error comes that a client would not retry
  replicas       the same clients, where nodes have listeners for replicas: they find and use them
  mode any       redis-py and ioredis as for a lone server, through each of the nodes; past times;
                 transactions that are gone through step by step; lookups that a request names; scripts
"""

import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE.parent), str(HERE)]

import begun  # noqa: E402
import lookups  # noqa: E402
import scripts_cluster  # noqa: E402
from harness.cluster import Cluster  # noqa: E402
from harness.report import Report  # noqa: E402
from harness.resp import Error, ReplyError, encode  # noqa: E402

PYTHON = ROOT / "target/venv/bin/python"
LOAD_SECONDS = 7
CLIENTS = {
    "redis-py": [PYTHON, HERE / "redis_py_cluster.py"],
    "redis-py pubsub": [PYTHON, HERE / "redis_py_pubsub.py"],
    "ioredis": ["node", HERE / "ioredis/cluster.js"],
    "go-redis": [ROOT / "target/clients/goredis", "cluster"],
}


REPLICAS = {
    "redis-py replicas": [PYTHON, HERE / "redis_py_replicas.py"],
    "ioredis replicas": ["node", HERE / "ioredis/replicas.js"],
    "go-redis replicas": [ROOT / "target/clients/goredis", "replicas"],
}


PAST = {
    "redis-py past": [PYTHON, HERE / "redis_py_past.py"],
    "ioredis past": ["node", HERE / "ioredis/past.js"],
    "go-redis past": [ROOT / "target/clients/goredis", "past"],
}


PLAIN = {
    "redis-py": [PYTHON, HERE / "redis_py.py"],
    "ioredis": ["node", HERE / "ioredis/test.js"],
}


class Client:
    """A client's process; it reads lines that state how far the others are."""

    def __init__(self, name, command, addresses):
        self.name = name
        self.words = [str(word) for word in [*command, addresses, LOAD_SECONDS]]
        self.process = subprocess.Popen(
            self.words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True)
        self.failed = self.passed = 0

    def until(self, word):
        """Passes its lines on, up to this one or the end; whether it came."""
        for line in self.process.stdout:
            if line.strip() == word:
                return True
            print("  " + line.rstrip(), flush=True)
            self.passed += line.startswith("ok ")
            self.failed += line.startswith("FAIL ")
        return False

    def finish(self):
        """Lets it look after its writes, and waits for its end."""
        try:
            self.process.stdin.write("look\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass
        self.until(None)
        code = self.process.wait(60)
        if code and not self.failed:
            print(f"  FAIL {self.name} ended with {code}")
            self.failed += 1


def cluster_mode(report):
    """The cluster clients, over a kill -9."""
    with Cluster(flags="--resp-mode cluster") as cluster:
        report.run("what nodes say", while_one_leads, cluster, "key", cluster_answers)
        clients = [Client(name, command, cluster.addresses) for name, command in CLIENTS.items()]
        try:
            for client in clients:
                client.until("loading")
            time.sleep(1)
            leader = cluster.leader()
            leader.kill()
            time.sleep(2.5)
            leader.spawn()
            for client in clients:
                client.until("loaded")
            cluster.until("cluster after the kill", cluster.is_whole)
            for client in clients:
                client.finish()
        finally:
            for client in clients:
                if client.process.poll() is None:
                    client.process.kill()
    report.passed += sum(client.passed for client in clients)
    report.failed += sum(client.failed for client in clients)


def replicas(report):
    """Clients that ask for replicas."""
    with Cluster(flags="--resp-mode cluster", replicas=True) as cluster:
        cluster.until("a listener for each", lambda node: shown_replicas(node) == len(cluster.nodes))
        clients = [Client(name, command, cluster.addresses) for name, command in REPLICAS.items()]
        for client in clients:
            client.until(None)
            if client.process.wait(60) and not client.failed:
                print(f"  FAIL {client.name} ended with an error")
                client.failed += 1
        report.passed += sum(client.passed for client in clients)
        report.failed += sum(client.failed for client in clients)


def shown_replicas(node):
    """How many replicas a node shows."""
    link = node.connect()
    ports = {each[1] for entry in link.call("CLUSTER", "SLOTS") for each in entry[3:]}
    link.close()
    return len(ports)


def while_one_leads(cluster, key, check):
    """Runs a check that holds as long as the key's shard has one leader; again, if that moves."""
    for _ in range(3):
        leader = cluster.leader(key)
        try:
            return check(cluster)
        except AssertionError:
            if cluster.leader(key) is leader:
                raise
            print("  another node leads the key by now: once more", flush=True)
    raise AssertionError("the key's leader does not come to rest")


def cluster_answers(cluster):
    """What a node of a Redis Cluster says."""
    links = [node.connect() for node in cluster.nodes]
    ids = {link.call("CLUSTER", "MYID") for link in links}
    assert len(ids) == 3 and all(len(each) == 40 for each in ids), ids
    leader = cluster.leader("key")
    slot = links[0].call("CLUSTER", "KEYSLOT", "key")
    same(b"OK", leader.connect().call("SET", "key", "value"))
    for node, link in zip(cluster.nodes, links):
        assert b"cluster_enabled:1" in link.call("INFO", "cluster")
        assert b"cluster" in link.call("HELLO")
        refuses(link, "CROSSSLOT", "MGET", "a", "b")
        refuses(link, "CROSSSLOT", "MSET", "a", "1", "b", "2")
        refuses(link, "CROSSSLOT", "DEL", "a", "b")
        refuses(link, "ERR SELECT is not allowed in cluster mode", "SELECT", "1")
        same(b"OK", link.call("SELECT", "0"))
        if node is leader:
            same(b"value", link.call("GET", "key"))
            continue
        moved = f"MOVED {slot} {leader.host}:{leader.resp}"
        same(moved, refuses(link, "MOVED", "SET", "key", "x"))
        # Behind a write that was sent on nothing is read here: both may be of one pipeline.
        same(b"OK", link.call("READONLY"))
        for _ in range(3):
            same(moved, refuses(link, "MOVED", "GET", "key"))
        time.sleep(1.1)
        same(b"value", link.call("GET", "key"))
        same(b"OK", link.call("READWRITE"))
        same(moved, refuses(link, "MOVED", "GET", "key"))
        # It was sent on a moment ago: it does not mean to follow.
        same(b"value", link.call("GET", "key"))
        same(moved, refuses(link, "MOVED", "SET", "key", "x"))
        same(moved, refuses(node.connect(), "MOVED", "GET", "key"))
        pipeline = node.connect()
        pipeline.send(encode(["SET", "key", "x"]) + encode(["GET", "key"]) * 40)
        for _ in range(41):
            said = pipeline.read()[1]
            assert isinstance(said, Error) and said.startswith("MOVED"), f"read past a write: {said}"
        pipeline.close()
    same(2, sum(link.call("DBSIZE") for link in links))
    for link in links:
        same(1, link.call("CLUSTER", "COUNTKEYSINSLOT", slot))
        same([b"key"], link.call("CLUSTER", "GETKEYSINSLOT", slot, 5))
        same(2, len(link.call("CLUSTER", "LINKS")))
        lines = link.call("CLUSTER", "NODES").decode().splitlines()
        same(1, sum("myself" in line for line in lines))
        same(3, len(lines))
        master = next(line.split()[0] for line in lines if "master" in line)
        same(2, len(link.call("CLUSTER", "REPLICAS", master)))
        link.close()


def waits(cluster):
    """WAIT counts the replicas that have the writes; fewer while a node is dead."""
    leader = cluster.leader("waited")
    others = [node for node in cluster.nodes if node is not leader]
    for node in cluster.nodes:
        link = node.connect()
        same(b"OK", link.call("SET", "waited", "1"))
        assert link.call("WAIT", 1, 0) in (1, 2)
        # Also where another node leads: it is asked.
        same(2, link.call("WAIT", 2, 20_000))
        began = time.monotonic()
        same(2, link.call("WAIT", 3, 300))
        assert time.monotonic() - began >= 0.3
        link.close()
    others[0].kill()
    link = leader.connect()
    same(b"OK", link.call("SET", "waited", "2"))
    same(1, link.call("WAIT", 2, 300))
    same([1, 1], link.call("WAITAOF", 1, 1, 0))
    # What waits longer than it takes the node to come back hears of it.
    link.send(encode(["WAIT", 2, 20_000]))
    others[0].spawn()
    same(2, link.read()[1])
    link.close()
    others[0].wait_ready()


def sure(link, *command):
    """The reply to a command that is repeated while its shard has no leader."""
    until = time.time() + 60
    while True:
        try:
            return link.call(*command)
        except ReplyError as error:
            if not str(error).startswith("TRYAGAIN") or time.time() > until:
                raise


def long_commands(cluster):
    """What a node takes, it can send to the others: 66 MiB go in pieces."""
    value = "x" * (1 << 20)
    keys = [f"{{long}}{number}" for number in range(66)]
    pairs = [word for key in keys for word in (key, value)]
    for node in cluster.nodes:
        link = node.connect()
        same(1, sure(link, "MSETNX", *pairs))
        for other in cluster.nodes:
            same(value.encode(), other.connect().call("GET", keys[-1]))
        same(len(keys), link.call("DEL", *keys))
        same(b"OK", link.call("MULTI"))
        for number in range(31):
            same(b"QUEUED", link.call("SET", f"{{long}}{number}", value))
        refuses(link, "ERR the commands of a transaction have at most", "SET", "{long}", value)
        refuses(link, "EXECABORT", "EXEC")
        # What fits is done, but for what it makes beyond a bound.
        same(b"OK", link.call("MULTI"))
        for number in range(30):
            same(b"QUEUED", link.call("SET", f"{{long}}{number}", value))
        same([b"OK"] * 30, link.call("EXEC"))
        link.call("MULTI")
        link.call("SETRANGE", "{long}a", 20 << 20, "x")
        for number in range(100):
            link.call("COPY", "{long}a", f"{{long}}copy{number}")
        same(5, sum(answer == 1 for answer in link.call("EXEC")))
        link.call("FLUSHDB")
        link.close()


def any_mode(report):
    """Plain clients through each node, all at once, each with keys of its own."""
    with Cluster() as cluster:
        running = {}
        for number, (node, only) in enumerate(zip(cluster.nodes, ("default", "resp2", "resp3"))):
            for name, command in PLAIN.items():
                words = [str(word) for word in [*command, node.host, node.resp, "use", only]]
                running[f"{name} through node {number + 1}"] = subprocess.Popen(
                    words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT, text=True)
        for name, process in running.items():
            lines = process.communicate(timeout=120)[0].splitlines()
            passed = sum(line.startswith("ok ") for line in lines)
            failed = [line for line in lines if line.startswith("FAIL ")]
            if process.returncode and not failed:
                failed = [f"FAIL {name} ended with {process.returncode}", *lines[-5:]]
            print(f"  {name}: {passed} ok", flush=True)
            print("".join(f"  {line}\n" for line in failed), end="", flush=True)
            report.passed += passed
            report.failed += len(failed)
        past = [Client(name, command, cluster.addresses) for name, command in PAST.items()]
        for client in past:
            client.finish()
        report.passed += sum(client.passed for client in past)
        report.failed += sum(client.failed for client in past)
        report.run("long commands", long_commands, cluster)
        report.run("BEGIN and COMMIT", begun.one_by_one, cluster)
        report.run("values that move in MULTI", begun.moves_within, cluster)
        report.run("absent again", begun.absent_again, cluster)
        report.run("values that move, in each other's way", begun.in_each_others_way, cluster)
        report.run("ranges within", begun.in_order, cluster)
        report.run("a keyspace made anew", begun.made_anew, cluster)
        report.run("WATCH, a write, a read", begun.own_writes, cluster)
        report.run("many that begin", begun.at_once, cluster)
        report.run("LOOKUP", lookups.words, cluster)
        report.run("commands by every lookup", lookups.commands, cluster)
        report.run("EXPLAIN ROUTE", lookups.routes, cluster)
        report.run("routes in replies", lookups.attributes, cluster)
        report.run("lookups by HTTP", lookups.by_http, cluster)
        report.run("lookups while a node is dead", lookups.with_one_dead, cluster)
        report.run("WAIT", waits, cluster)
        report.run("scripts: keys that nobody declared", scripts_cluster.undeclared, cluster)
        report.run("scripts: known everywhere", scripts_cluster.known_everywhere, cluster)
        report.run("scripts: hostile ones", scripts_cluster.hostile, cluster)
        report.run("scripts over a kill", scripts_cluster.over_a_kill, cluster)
        codes = [node.stop() for node in cluster.nodes]
        report.run("clean stop", lambda: same([0, 0, 0], codes))


def refuses(link, text, *command):
    """Fails unless a command is refused so; all that was said."""
    link.send(encode(command))
    said = link.read()[1]
    assert isinstance(said, Error) and said.startswith(text), f"{command}: {said!r}"
    return str(said)


def same(expected, actual):
    """Fails unless both are equal."""
    assert expected == actual, f"expected {expected}, got {actual}"


def main():
    """Both modes, and listeners for replicas."""
    report = Report("cluster clients")
    report.run("mode cluster", cluster_mode, report)
    report.run("replicas", replicas, report)
    report.run("mode any", any_mode, report)
    report.finish()


if __name__ == "__main__":
    main()
