#!/usr/bin/env python3
"""redis-py by TLS: redis_py_tls.py HOST:PORT,… CA OTHER_CA"""

import sys

import redis
from redis.cluster import ClusterNode, RedisCluster

ADDRESSES = [address.rsplit(":", 1) for address in sys.argv[1].split(",")]
HOST, PORT = ADDRESSES[0][0], int(ADDRESSES[0][1])
CA, OTHER_CA = sys.argv[2:4]
FAILED = []


def check(name, test):
    """Runs one test and prints how it went."""
    try:
        test()
        print(f"ok redis-py tls {name}", flush=True)
    except Exception as error:  # pylint: disable=broad-except
        FAILED.append(name)
        print(f"FAIL redis-py tls {name}: {str(error)[:300]!r}", flush=True)


def cluster(ca=CA):
    """A cluster client."""
    nodes = [ClusterNode(host, int(port)) for host, port in ADDRESSES]
    return RedisCluster(startup_nodes=nodes, ssl=True, ssl_ca_certs=ca)


def lone():
    """A connection with one node."""
    for protocol in (2, 3):
        link = redis.Redis(HOST, PORT, ssl=True, ssl_ca_certs=CA, protocol=protocol)
        assert link.ping()
        assert link.echo("x" * 300_000) == b"x" * 300_000
        subscriber = link.pubsub()
        subscriber.subscribe("tls")
        assert subscriber.get_message(timeout=10)["type"] == "subscribe"
        link.publish("tls", "hello")
        assert subscriber.get_message(timeout=10)["data"] == b"hello"
        subscriber.close()
        link.close()


def keys():
    """Keys of all nodes, one by one and in a pipeline."""
    link = cluster()
    for number in range(100):
        assert link.set(f"py:{number}", number)
    pipe = link.pipeline()
    for number in range(100):
        pipe.get(f"py:{number}")
    assert pipe.execute() == [str(number).encode() for number in range(100)]
    # All nodes are known by their ports for TLS.
    assert {str(node.port) for node in link.get_nodes()} == {port for _, port in ADDRESSES}
    link.close()


def refused():
    """Who trusts another authority does not speak with these nodes."""
    for connect in (lambda: cluster(OTHER_CA),
                    redis.Redis(HOST, PORT, ssl=True, ssl_ca_certs=OTHER_CA).ping,
                    redis.Redis(HOST, PORT, socket_timeout=10).ping):
        try:
            connect()
        except (redis.RedisError, redis.exceptions.RedisClusterException):
            continue
        raise AssertionError("it was not refused")


check("alone", lone)
check("cluster", keys)
check("others are refused", refused)
sys.exit(1 if FAILED else 0)
