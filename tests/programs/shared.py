"""What the Python programs share. They are called with `HOST:PORT,… SECONDS any|cluster`.

A program tries what must hold while all nodes are there, prints `loading`, works for so many
seconds (meanwhile a node is killed with -9 and started again), and checks what came of it. Each
check prints `ok NAME` or `FAIL NAME: why`. Clients do not retry: an attempt without an answer is
counted, so that every result has a lower and an upper bound."""

import sys
import threading
import time
import traceback

import redis
from redis.backoff import NoBackoff
from redis.cluster import ClusterNode, RedisCluster
from redis.retry import Retry

NODES = [(host, int(port)) for host, port in
         (address.rsplit(":", 1) for address in sys.argv[1].split(","))]
SECONDS = float(sys.argv[2])
MODE = sys.argv[3]
# How long a client waits for a node, and how long everything may take to work again.
TIMEOUT_SECONDS = 5
RECOVERY_SECONDS = 20
# A request under a new name so often: some names see the kill, the others see healthy nodes.
ROUND_SECONDS = 0.5
PASSING_CODES = ("UNKNOWN", "TRYAGAIN", "BUSY", "LOADING", "CLUSTERDOWN")
PASSING = (redis.ConnectionError, redis.TimeoutError, redis.exceptions.TryAgainError,
           redis.exceptions.ClusterDownError, redis.exceptions.ClusterError,
           redis.exceptions.SlotNotCoveredError, redis.exceptions.MovedError,
           redis.exceptions.RedisClusterException)
FAILED = []


def no_retries():
    """A policy that sends every command once."""
    return Retry(NoBackoff(), 0)


def options():
    """How clients connect."""
    return {"socket_timeout": TIMEOUT_SECONDS, "retry": no_retries()}


def client(number, db=0):
    """A redis-py client through a node; in mode cluster the cluster client."""
    if MODE == "cluster":
        return RedisCluster(startup_nodes=[ClusterNode(*node) for node in NODES],
                            socket_timeout=TIMEOUT_SECONDS)
    host, port = NODES[number % len(NODES)]
    return redis.Redis(host, port, db=db, **options())


def passing(error):
    """Whether this is an error that a node may answer with while another is dead."""
    while error is not None:
        if isinstance(error, PASSING) or isinstance(error, (ConnectionError, TimeoutError)):
            return True
        if isinstance(error, redis.ResponseError) and str(error).startswith(PASSING_CODES):
            return True
        error = error.__cause__
    return False


def check(name, test, *args):
    """Runs one test and prints how it went."""
    try:
        test(*args)
        print(f"ok {name}", flush=True)
    except Exception as error:  # pylint: disable=broad-except
        FAILED.append(name)
        frame = traceback.extract_tb(error.__traceback__)[-1]
        print(f"FAIL {name}: {type(error).__name__}: {str(error)[:300]!r} "
              f"({frame.name}:{frame.lineno})", flush=True)


def same(expected, actual):
    """Fails unless both are equal."""
    assert expected == actual, f"expected {expected!r:.200}, got {actual!r:.200}"


def parallel(worker, count):
    """Runs `worker(number)` in so many threads at once; raises the first error of any."""
    errors = []

    def run(number):
        try:
            worker(number)
        except Exception as error:  # pylint: disable=broad-except
            errors.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def loading():
    """Says that the load begins; the moment at which it ends."""
    print("loading", flush=True)
    return time.monotonic() + SECONDS


def until_works(what, attempt):
    """Tries until the attempt holds, as it must soon after the kill."""
    deadline = time.monotonic() + RECOVERY_SECONDS
    while True:
        try:
            if attempt():
                return
            why = "no"
        except Exception as error:  # pylint: disable=broad-except
            if not passing(error):
                raise
            why = repr(error)
        assert time.monotonic() < deadline, f"{what} not within {RECOVERY_SECONDS} s: {why}"
        time.sleep(0.05)


class Admitted:
    """Counts by name of what a rate limiter said, over all threads."""

    def __init__(self, limit):
        self.limit = limit
        self.lock = threading.Lock()
        # Per name: admitted, refused, without an answer.
        self.counts = {}
        self.began = time.monotonic()

    def name(self):
        """The name of this moment's round."""
        return str(int((time.monotonic() - self.began) / ROUND_SECONDS))

    def hit(self, name, attempt):
        """Counts one attempt under a name."""
        try:
            column = 0 if attempt() else 1
        except Exception as error:  # pylint: disable=broad-except
            if not passing(error):
                raise
            column = 2
            time.sleep(0.02)
        with self.lock:
            self.counts.setdefault(name, [0, 0, 0])[column] += 1

    def judge(self):
        """Never more than the limit; less only by attempts without an answer."""
        assert len(self.counts) > SECONDS / ROUND_SECONDS / 2, self.counts
        for name, (admitted, refused, unanswered) in self.counts.items():
            assert admitted <= self.limit, f"{admitted} of {self.limit} admitted in round {name}"
            # Cluster clients retry by themselves: what was counted twice is missing here.
            if refused and MODE == "any":
                assert admitted + unanswered >= self.limit, \
                    f"round {name}: {admitted} admitted, {refused} refused, {unanswered} unanswered"
        sums = [sum(column) for column in zip(*self.counts.values())]
        assert sums[0] and sums[1], sums
        print(f"note: {len(self.counts)} rounds, {sums[0]} admitted, {sums[1]} refused, "
              f"{sums[2]} without an answer", flush=True)


class Holders:
    """Who holds a lock. A holder counts until it lets go or until its lock has run out, reckoned
    from before it asked, less a twentieth for clocks."""

    def __init__(self, ttl_seconds):
        self.ttl_seconds = ttl_seconds
        self.lock = threading.Lock()
        self.held = {}
        self.taken = self.unreleased = self.unanswered = 0

    def enter(self, name, who, asked):
        """A holder has its lock."""
        now = time.monotonic()
        with self.lock:
            self.taken += 1
            other, until = self.held.get(name, (None, 0.0))
            self.held[name] = (who, asked + self.ttl_seconds * 0.95)
        assert now >= until, f"{who} got {name} while {other} had it for {until - now:.3f} s more"

    def leave(self, name, who):
        """A holder is about to let go."""
        with self.lock:
            if self.held.get(name, (None, 0.0))[0] == who:
                del self.held[name]

    def judge(self):
        """The lock was taken often enough to show something."""
        print(f"note: taken {self.taken} times, {self.unreleased} releases and {self.unanswered} "
              "attempts without an answer", flush=True)
        assert self.taken > 20, self.taken


def finish():
    """Ends the program."""
    sys.exit(1 if FAILED else 0)
