"""limits: fixed windows and sliding counters, from six threads through all nodes."""

import time

from limits import RateLimitItemPerMinute, RateLimitItemPerSecond
from limits.storage import storage_from_string
from limits.strategies import FixedWindowRateLimiter, SlidingWindowCounterRateLimiter
from shared import (MODE, NODES, SECONDS, TIMEOUT_SECONDS, Admitted, check, finish, loading,
                    options, parallel, until_works)

LIMIT = 20
BRIEF_LIMIT = 5
THREADS = 6
KINDS = {"fixed window": FixedWindowRateLimiter,
         "sliding counter": SlidingWindowCounterRateLimiter}


def storage(number):
    """limits' storage through a node."""
    if MODE == "cluster":
        nodes = ",".join(f"{host}:{port}" for host, port in NODES)
        return storage_from_string(f"redis+cluster://{nodes}", socket_timeout=TIMEOUT_SECONDS)
    host, port = NODES[number % len(NODES)]
    return storage_from_string(f"redis://{host}:{port}", **options())


def main():
    """Each round has a name of its own; one name with a window of a second goes through all."""
    item, brief = RateLimitItemPerMinute(LIMIT), RateLimitItemPerSecond(BRIEF_LIMIT)
    counts = {kind: Admitted(LIMIT) for kind in KINDS}
    briefly = {kind: [] for kind in KINDS}
    limiters = [{kind: make(storage(number)) for kind, make in KINDS.items()}
                for number in range(THREADS)]

    def work(number):
        while time.monotonic() < end:
            for kind, limiter in limiters[number].items():
                name = counts[kind].name()
                counts[kind].hit(name, lambda: limiter.hit(item, kind, name))
                counts[kind].hit("brief", lambda: hit_briefly(kind, limiter))

    def hit_briefly(kind, limiter):
        admitted = limiter.hit(brief, kind, "brief")
        if admitted:
            briefly[kind].append(time.monotonic())
        return admitted

    def judge_brief(kind):
        # A window is a second long and there is at most one more than seconds.
        most = BRIEF_LIMIT * (int(SECONDS) + 3)
        found = len(briefly[kind])
        assert BRIEF_LIMIT < found <= most, f"{found}, at most {most}"
        for limiter in limiters:
            until_works("a new window", lambda: limiter[kind].hit(brief, kind, "brief"))

    end = loading()
    check("limits: load over a kill -9", parallel, work, THREADS)
    for kind, count in counts.items():
        count.counts.pop("brief", None)
        check(f"limits: {kind}", count.judge)
        check(f"limits: {kind} of a second", judge_brief, kind)


main()
finish()
