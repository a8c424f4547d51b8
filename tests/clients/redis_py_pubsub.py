"""redis-py's publish and subscribe on three nodes, of which one is killed in the middle:

  redis_py_pubsub.py HOST:PORT,HOST:PORT,HOST:PORT SECONDS

It prints `loading` and `loaded` around the time in which a node may be killed and started again, and
then waits for a line.
"""

import sys
import threading
import time

import redis
from redis.backoff import ConstantBackoff, NoBackoff
from redis.retry import Retry

NODES = [(host, int(port)) for host, port in (a.split(":") for a in sys.argv[1].split(","))]
SECONDS = float(sys.argv[2])
FAILED = []


def check(name, test, *args):
    """Runs one test and prints how it went."""
    try:
        test(*args)
        print(f"ok redis-py pubsub {name}", flush=True)
    except Exception as error:  # pylint: disable=broad-except
        FAILED.append(name)
        print(f"FAIL redis-py pubsub {name}: {type(error).__name__}: {str(error)[:300]!r}", flush=True)


def client(node, **options):
    """A client that sends nothing twice."""
    host, port = NODES[node]
    return redis.Redis(host, port, retry=Retry(NoBackoff(), 0), **options)


def message(subscriber):
    """The next message that is no confirmation: (type, channel, data)."""
    until = time.monotonic() + 20
    while time.monotonic() < until:
        got = subscriber.get_message(ignore_subscribe_messages=True, timeout=1)
        if got:
            return got["type"], got["channel"], got["data"]
    raise AssertionError("no message within 20 s")


def same(expected, actual):
    """Fails unless both are equal."""
    assert expected == actual, f"expected {expected!r:.200}, got {actual!r:.200}"


def pairs(protocol):
    """A message from each node to each node, by name, by pattern and to a shard channel."""
    for to in range(len(NODES)):
        with client(to, protocol=protocol).pubsub() as subscriber:
            subscriber.subscribe("news")
            subscriber.psubscribe("n?w*")
            same("subscribe", subscriber.get_message(timeout=20)["type"])
            same("psubscribe", subscriber.get_message(timeout=20)["type"])
            for by in range(len(NODES)):
                publisher = client(by, protocol=protocol)
                same(2, publisher.publish("news", f"from {by}"))
                data = f"from {by}".encode()
                same(("message", b"news", data), message(subscriber))
                same(("pmessage", b"news", data), message(subscriber))
                # In mode cluster a node speaks of its own subscribers, as Redis's do.
                own = int(by == to)
                same([(b"news", own)], publisher.pubsub_numsub("news"))
                same(own, publisher.pubsub_numpat())
                same([b"news"] * own, publisher.pubsub_channels("new*"))
                publisher.close()
            subscriber.unsubscribe()
            subscriber.punsubscribe()
            same("unsubscribe", subscriber.get_message(timeout=20)["type"])
            same("punsubscribe", subscriber.get_message(timeout=20)["type"])


def threads():
    """redis-py's own thread for messages, with handlers."""
    got, there = [], threading.Event()

    def handle(message_of_channel):
        got.append(message_of_channel["data"])
        if len(got) == 100:
            there.set()

    subscriber = client(0).pubsub(ignore_subscribe_messages=True)
    subscriber.subscribe(handled=handle)
    thread = subscriber.run_in_thread(sleep_time=0.01)
    with client(1).pipeline(transaction=False) as pipeline:
        for number in range(100):
            pipeline.publish("handled", number)
        same([1] * 100, pipeline.execute())
    assert there.wait(20), f"{len(got)} of 100 messages"
    same([b"%d" % number for number in range(100)], got)
    thread.stop()
    thread.join()


class Load:
    """Publishers and subscribers on every node."""

    def __init__(self):
        self.until = time.monotonic() + SECONDS
        self.sent = {node: [] for node in range(len(NODES))}
        self.got = {node: [] for node in range(len(NODES))}
        self.broken = set()
        self.is_over = False

    def publish(self, node):
        """Numbers, each once; those that were answered are noted with their receivers."""
        publisher, number = None, 0
        while time.monotonic() < self.until:
            number += 1
            try:
                publisher = publisher or client(node, socket_timeout=20)
                self.sent[node].append((number, publisher.publish("load", f"{node} {number}")))
                time.sleep(0.001)
            except redis.RedisError:
                self.broken.add(node)
                publisher = None
                time.sleep(0.05)

    def subscribe(self, node):
        """All that comes; connects again by itself."""
        host, port = NODES[node]
        link = redis.Redis(host, port, retry=Retry(ConstantBackoff(0.1), 300))
        subscriber = link.pubsub(ignore_subscribe_messages=True)
        subscriber.subscribe("load", "ready")
        while not self.is_over:
            got = subscriber.get_message(timeout=0.5)
            if got and got["channel"] == b"load":
                self.got[node].append(tuple(int(word) for word in got["data"].split()))

    def run(self):
        """Until the time is over, and all has come."""
        subscribers = [threading.Thread(target=self.subscribe, args=[n], daemon=True) for n in self.got]
        [each.start() for each in subscribers]
        # Every node knows of all subscribers.
        for node in self.sent:
            until = time.monotonic() + 20
            while client(node).publish("ready", "") < len(NODES):
                assert time.monotonic() < until, f"node {node} does not reach all subscribers"
                time.sleep(0.05)
        publishers = [threading.Thread(target=self.publish, args=[n], daemon=True) for n in self.sent]
        [each.start() for each in publishers]
        [each.join() for each in publishers]
        time.sleep(3)
        self.is_over = True
        [each.join() for each in subscribers]


def nothing_is_lost_between_those_that_live(load):
    """Each message of a node that lived came to all that lived; in order everywhere."""
    assert len(load.broken) <= 1, f"nodes {load.broken} broke"
    alive = set(load.sent) - load.broken
    for to, got in load.got.items():
        for by in load.sent:
            numbers = [number for node, number in got if node == by]
            assert numbers == sorted(set(numbers)), f"disorder from {by} at {to}"
            if {to, by} <= alive:
                missing = {number for number, _ in load.sent[by]} - set(numbers)
                assert not missing, f"{len(missing)} of {by}'s {len(load.sent[by])} not at {to}"
    for by in alive:
        same([], [sent for sent in load.sent[by] if sent[1] < len(alive)])


def all_is_well_again():
    """Messages go from each node to each node, once the dead one is back."""
    until = time.monotonic() + 60
    while True:
        try:
            return pairs(2)
        except (redis.RedisError, AssertionError):
            if time.monotonic() > until:
                raise
            time.sleep(0.5)


def main():
    """All tests."""
    for protocol in (2, 3):
        check(f"every pair RESP{protocol}", pairs, protocol)
    check("threads", threads)
    load = Load()
    print("loading", flush=True)
    load.run()
    print("loaded", flush=True)
    sys.stdin.readline()
    check("a node dies: the others lose nothing", nothing_is_lost_between_those_that_live, load)
    check("it is back: all come everywhere", all_is_well_again)
    return len(FAILED)


sys.exit(main())
