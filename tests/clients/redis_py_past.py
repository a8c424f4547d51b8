"""redis-py at a past time: redis_py_past.py HOST:PORT,…"""

import sys
import time

import redis

NODES = [(host, int(port)) for host, port in (each.rsplit(":", 1) for each in sys.argv[1].split(","))]
FAILED = []


def check(name, test):
    """Runs one test and prints how it went."""
    try:
        test()
        print(f"ok redis-py past {name}", flush=True)
    except Exception as error:  # pylint: disable=broad-except
        FAILED.append(name)
        print(f"FAIL redis-py past {name}: {type(error).__name__}: {str(error)[:300]!r}", flush=True)


def same(expected, actual):
    """Fails unless both are equal."""
    assert expected == actual, f"expected {expected!r:.300}, got {actual!r:.300}"


def refused(text, call, *words):
    """Fails unless the call is refused so."""
    try:
        said = call(*words)
    except redis.ResponseError as error:
        assert text in str(error), f"{text!r} is not in {error!s:.300}"
        return
    raise AssertionError(f"{words} was not refused: {said!r:.300}")


def client(number, protocol=2):
    """One connection to a node."""
    host, port = NODES[number % len(NODES)]
    return redis.Redis(host=host, port=port, protocol=protocol, single_connection_client=True, socket_timeout=10)


def written(key):
    """Gives a key two values; a time between them, as `AT` takes it."""
    writer = client(0)
    writer.set(key, "before")
    time.sleep(0.05)
    # By the node's clock: where this machine's clock is set while nodes run, they do not follow it.
    seconds, micros = writer.time()
    at = f"{seconds * 1000 + micros // 1000}ms"
    time.sleep(0.05)
    writer.mset({key: "after", key + ":later": "x"})
    return at


def connection():
    """CLIENT AT: all that is read is of that time, nothing is written, until OFF."""
    key = f"past:py:connection:{time.time_ns()}"
    at = written(key)
    for number, protocol in enumerate((2, 3, 2)):
        r = client(number, protocol)
        same(b"after", r.get(key))
        same(True, r.execute_command("CLIENT", "AT", at) in (True, b"OK", "OK"))
        same([b"before", None], r.mget(key, key + ":later"))
        same(0, r.exists(key + ":later"))
        same([key.encode()], list(r.scan_iter(match=key + "*", count=500)))
        same(b"nil_yet", r.execute_command("STATE", key + ":later"))
        refused("SET cannot run at a past time", r.set, key, "never")
        refused("EVAL cannot run at a past time", r.eval, "return 1", 0)
        # A pipeline would take another connection.
        for words in (["MULTI"], ["GET", key], ["EXISTS", key]):
            r.execute_command(*words)
        same([b"before", 1], r.execute_command("EXEC"))
        r.execute_command("CLIENT", "AT", "OFF")
        same(b"after", r.get(key))
        r.close()


def transaction():
    """MULTI that begins with AT."""
    key = f"past:py:transaction:{time.time_ns()}"
    at = written(key)
    for number, protocol in enumerate((2, 3, 3)):
        r = client(number, protocol)
        with r.pipeline(transaction=True) as pipe:
            pipe.execute_command("AT", at)
            pipe.get(key).execute_command("STATE", key + ":later")
            pipe.dbsize()
            said = pipe.execute()
        same([b"before", b"nil_yet"], said[1:3])
        assert said[3] >= 1, said
        same(b"after", r.get(key))
        with r.pipeline(transaction=True) as pipe:
            pipe.execute_command("AT", at)
            pipe.set(key, "never")
            refused("SET cannot run at a past time", pipe.execute)
        same(b"after", r.get(key))
        same(b"before", r.execute_command("AT", at, "GET", key))
        r.close()


check("CLIENT AT", connection)
check("MULTI with AT", transaction)
sys.exit(bool(FAILED))
