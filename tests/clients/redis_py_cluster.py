"""redis-py's cluster client against mode cluster: redis_py_cluster.py HOST:PORT,… SECONDS

Tries everything, prints `loading`, writes for so many seconds (meanwhile a node is killed), prints
`loaded`, waits for a line, and looks whether every write that was acknowledged is there."""

import sys
import time

import redis
from redis.backoff import ExponentialBackoff
from redis.cluster import ClusterNode, LoadBalancingStrategy, RedisCluster
from redis.retry import Retry

NODES = [address.rsplit(":", 1) for address in sys.argv[1].split(",")]
SECONDS = float(sys.argv[2])
# What the client itself retries, until its attempts are used up.
PASSING = (
    redis.ConnectionError,
    redis.TimeoutError,
    redis.exceptions.ClusterError,
    redis.exceptions.ClusterDownError,
    redis.exceptions.TryAgainError,
    redis.exceptions.MovedError,
    redis.exceptions.SlotNotCoveredError,
    redis.exceptions.RedisClusterException,
)
FAILED = []


def check(name, test):
    """Runs one test and prints how it went."""
    try:
        test()
        print(f"ok redis-py cluster {name}", flush=True)
    except Exception as error:  # pylint: disable=broad-except
        FAILED.append(name)
        print(f"FAIL redis-py cluster {name}: {type(error).__name__}: {str(error)[:300]!r}",
              flush=True)


def same(expected, actual):
    """Fails unless both are equal."""
    assert expected == actual, f"expected {expected!r:.200}, got {actual!r:.200}"


def client(**options):
    """A client that finds the cluster through any node."""
    nodes = [ClusterNode(host, int(port)) for host, port in NODES]
    retry = Retry(ExponentialBackoff(cap=0.5, base=0.02), 12)
    return RedisCluster(startup_nodes=nodes, socket_timeout=2, retry=retry, **options)


def use(r):
    """Everything, while all nodes are there."""

    def keys():
        for i in range(300):
            same(True, r.set(f"pc:{i}", i))
        for i in range(300):
            same(str(i).encode(), r.get(f"pc:{i}"))
        same([1, 2, 3], [r.incr("pc:n") for _ in range(3)])
        same(True, r.mset({"pc:{tag}1": 1, "pc:{tag}2": 2}))
        same([b"1", b"2"], r.mget("pc:{tag}1", "pc:{tag}2"))
        same(2, r.delete("pc:0", "pc:1", "pc:none"))

    def pipeline():
        p = r.pipeline()
        for i in range(1000):
            p.set(f"pp:{i}", i)
            p.get(f"pp:{i}")
        replies = p.execute()
        same([True, b"0"], replies[:2])
        same([True, b"999"], replies[-2:])

    def crossing():
        try:
            r.execute_command("MGET", "a", "b", target_nodes=r.get_random_node())
        except redis.ResponseError as error:
            assert "same slot" in str(error), error
            return
        raise AssertionError("no error")

    def whole():
        # By default, this client asks one node; it can be configured to ask all.
        every = {"target_nodes": RedisCluster.PRIMARIES}
        # A node that one lead has left counts as a replica until the slots are fetched again; and a
        # lead may move from a node that was not asked yet to one that was.
        for _ in range(5):
            r.nodes_manager.initialize()
            size = r.dbsize(**every)
            found = set(r.scan_iter(match="pp:*", count=100))
            keys = set(r.keys("pp:*", **every))
            if size >= 1298 and len(found) == len(keys) == 1000:
                break
            time.sleep(1)
        assert size >= 1298, size
        same(1000, len(found))
        same(1000, len(keys))
        slot = r.cluster_keyslot("pc:7")
        # Other clients' keys may lie there as well.
        assert r.cluster_countkeysinslot(slot) >= 1
        assert "pc:7" in r.cluster_get_keys_in_slot(slot, 1000)

    def about():
        same("cluster", r.info(target_nodes=r.get_default_node())["redis_mode"])
        same(3, len(r.cluster_nodes()))
        same("ok", r.cluster_info()["cluster_state"])
        same(3, len(r.get_nodes()))
        shards = r.cluster_shards()
        assert len(shards) == 8 and len(shards[0]["nodes"]) == 3, shards

    def replicas():
        near = client(load_balancing_strategy=LoadBalancingStrategy.ROUND_ROBIN)
        for i in range(50):
            near.set(f"pr:{i}", i)
            same(str(i).encode(), near.get(f"pr:{i}"))
        near.close()

    def wait():
        primary = r.get_node_from_key("pw")
        link = redis.Redis(primary.host, primary.port)
        with link.client() as one:
            one.set("pw", 1)
            same(2, one.wait(2, 20_000))
            began = time.monotonic()
            same(2, one.wait(5, 100))
            assert time.monotonic() - began >= 0.1
            same([1, 2], one.execute_command("WAITAOF", 1, 2, 20_000))
        link.close()

    for test in (keys, pipeline, crossing, whole, about, replicas, wait):
        check(test.__name__, test)


def load(r):
    """Writes, and remembers what was acknowledged."""
    acknowledged, counts, errors = {}, {}, {}
    longest, last, number = 0.0, time.monotonic(), 0

    def passed(error):
        name = type(error).__name__
        errors[name] = errors.get(name, 0) + 1

    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        number += 1
        key = f"pl:{number}"
        try:
            assert r.set(key, number) is True
            acknowledged[key] = number
            counter = f"pl:count{number % 9}"
            r.incr(counter)
            counts[counter] = counts.get(counter, 0) + 1
            if number % 8 == 0:
                p = r.pipeline()
                keys = [f"pl:{number}:{i}" for i in range(32)]
                for each in keys:
                    p.set(each, number)
                for each, reply in zip(keys, p.execute(raise_on_error=False)):
                    if reply is True:
                        acknowledged[each] = number
                    elif isinstance(reply, PASSING):
                        passed(reply)
                    else:
                        raise AssertionError(f"{each}: {reply!r}")
        except PASSING as error:
            passed(error)
            continue
        longest, last = max(longest, time.monotonic() - last), time.monotonic()
    print(f"note: {len(acknowledged)} keys, longest pause {longest:.2f} s, errors {errors}")
    return acknowledged, counts


def verify(r, acknowledged, counts):
    """Nothing acknowledged is lost."""
    keys = list(acknowledged)
    assert len(keys) > 100, len(keys)
    for at in range(0, len(keys), 500):
        p = r.pipeline()
        for key in keys[at:at + 500]:
            p.get(key)
        for key, value in zip(keys[at:at + 500], p.execute()):
            same((key, str(acknowledged[key]).encode()), (key, value))
    for counter, count in counts.items():
        # A client that retries what it had no answer to may count twice, but never less.
        assert int(r.get(counter)) >= count, (counter, r.get(counter), count)


R = client()
use(R)
print("loading", flush=True)
LEFT = []
check("load over a kill -9", lambda: LEFT.append(load(R)))
print("loaded", flush=True)
sys.stdin.readline()
if LEFT:
    check("nothing acknowledged is lost", lambda: verify(R, *LEFT[0]))
sys.exit(1 if FAILED else 0)
