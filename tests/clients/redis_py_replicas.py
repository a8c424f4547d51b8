"""redis-py's cluster client where nodes have listeners for replicas: redis_py_replicas.py HOST:PORT,…"""

import sys
import time

import redis
from redis.cluster import ClusterNode, LoadBalancingStrategy, RedisCluster

NODES = [ClusterNode(host, int(port)) for host, port in (each.rsplit(":", 1) for each in sys.argv[1].split(","))]
FAILED = []


def check(test):
    """Runs one test and prints how it went."""
    try:
        test()
        print(f"ok redis-py replicas {test.__name__}", flush=True)
    except Exception as error:  # pylint: disable=broad-except
        FAILED.append(test)
        print(f"FAIL redis-py replicas {test.__name__}: {type(error).__name__}: {str(error)[:300]!r}", flush=True)


def same(expected, actual):
    """Fails unless both are equal."""
    assert expected == actual, f"expected {expected!r:.300}, got {actual!r:.300}"


def client(**options):
    """A client that finds the cluster through any node."""
    return RedisCluster(startup_nodes=NODES, socket_timeout=5, **options)


R = client()
REPLICAS = {"target_nodes": RedisCluster.REPLICAS}


def targets():
    """Three of each kind, and all of them answer."""
    same(3, len(R.get_primaries()))
    same(3, len(R.get_replicas()))
    same({node.name: True for node in R.get_replicas()}, R.ping(target_nodes=RedisCluster.REPLICAS) and
         {node.name: R.ping(target_nodes=node) for node in R.get_replicas()})
    said = R.info("replication", **REPLICAS)
    same(3, len(said))
    same({"slave"}, {each["role"] for each in said.values()})
    primaries = {node.port for node in R.get_primaries()}
    same(primaries, {each["master_port"] for each in said.values()})
    same({"master"}, {each["role"] for each in R.info("replication", target_nodes=RedisCluster.PRIMARIES).values()})
    nodes = R.cluster_nodes()
    same(6, len(nodes))
    same(3, sum("slave" in node["flags"] for node in nodes.values()))


def reads():
    """Each replica reads what was just written, of any key."""
    for number in range(60):
        same(True, R.set(f"rr:{number}", number))
        for node in R.get_replicas():
            same(str(number).encode(), R.execute_command("GET", f"rr:{number}", target_nodes=node))
    same({b"59"}, set(R.execute_command("GET", "rr:59", **REPLICAS).values()))


def sizes():
    """Each replica counts what its master leads."""
    for _ in range(50):
        want, got = R.dbsize(target_nodes=RedisCluster.PRIMARIES), R.dbsize(**REPLICAS)
        keys = sorted(R.keys("rr:*", **REPLICAS))
        if want == got and len(keys) == 60:
            break
        time.sleep(0.2)
    same((want, 60), (got, len(keys)))


def spread():
    """Reads by a strategy go to replicas as well, see what was written, and writes go to primaries."""
    for strategy in (LoadBalancingStrategy.ROUND_ROBIN, LoadBalancingStrategy.ROUND_ROBIN_REPLICAS,
                     LoadBalancingStrategy.RANDOM_REPLICA):
        near = client(load_balancing_strategy=strategy)
        for number in range(50):
            same(True, near.set(f"rs:{number}", number))
            same(str(number).encode(), near.get(f"rs:{number}"))
        near.close()


def writes():
    """What writes is sent on, or refused."""
    for node in R.get_replicas():
        link = redis.Redis(node.host, node.port)
        try:
            link.flushall()
            raise AssertionError("a replica was flushed")
        except redis.exceptions.ReadOnlyError:
            pass
        same("slave", link.role()[0].decode())
        link.close()
    same(60, sum(R.exists(f"rr:{number}") for number in range(60)))


for one in (targets, reads, sizes, spread, writes):
    check(one)
sys.exit(1 if FAILED else 0)
