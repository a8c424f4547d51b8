"""redis-py's Lock: six threads through all nodes, never two holders, always released."""

import random
import time

import redis
from shared import (NODES, Holders, check, client, finish, loading, parallel, passing, same,
                    until_works)

TTL_SECONDS = 2.0
KEPT_SECONDS = 60
THREADS = 6
NAMES = ["lock-a", "lock-b"]


def lock(r, name, ttl_seconds=TTL_SECONDS):
    """One thread's lock."""
    return r.lock(name, timeout=ttl_seconds, blocking=False, thread_local=False)


def while_all_are_there():
    """Taken, refused, prolonged and released, through different nodes."""
    clients = [client(number) for number in range(len(NODES))]
    first, second = lock(clients[0], "lock-calm"), lock(clients[1], "lock-calm")
    same(True, first.acquire())
    same(False, second.acquire())
    same(True, second.locked())
    same(True, first.owned())
    same(True, first.extend(30, replace_ttl=True))
    same(True, first.reacquire())
    first.release()
    same(True, second.acquire())
    try:
        first.local.token = b"another"
        first.release()
    except redis.exceptions.LockNotOwnedError:
        second.release()
        return
    raise AssertionError("released by another")


def main():
    """Holders that hold for a moment; besides, a lock through each node over the kill."""
    check("redis-py Lock: calls", while_all_are_there)
    holders = Holders(TTL_SECONDS)
    kept = [lock(client(number), f"lock-kept-{number}", KEPT_SECONDS)
            for number in range(len(NODES))]
    for each in kept:
        same(True, each.acquire())

    def hold(mine, name, who):
        asked = time.monotonic()
        try:
            if not mine.acquire():
                time.sleep(0.005)
                return
        except Exception as error:  # pylint: disable=broad-except
            if not passing(error):
                raise
            holders.unanswered += 1
            time.sleep(0.02)
            return
        holders.enter(name, who, asked)
        time.sleep(random.uniform(0.002, 0.02))
        holders.leave(name, who)
        try:
            mine.release()
        except redis.exceptions.LockError:
            # It ran out, as it must if this thread waited longer than that.
            assert time.monotonic() - asked > TTL_SECONDS * 0.9, "lost early"
        except Exception as error:  # pylint: disable=broad-except
            if not passing(error):
                raise
            holders.unreleased += 1

    def work(number):
        r = client(number)
        while time.monotonic() < end:
            name = random.choice(NAMES)
            hold(lock(r, name), name, number)

    def all_are_free():
        for number in range(len(NODES)):
            for name in NAMES:
                mine = lock(client(number), name)
                until_works(f"{name} through node {number + 1}", mine.acquire)
                mine.release()

    def kept_are_released():
        for number, each in enumerate(kept):
            same(False, lock(client(number + 1), f"lock-kept-{number}").acquire())
            until_works("owned", each.owned)
            each.release()
            same(True, lock(client(number + 2), f"lock-kept-{number}").acquire())

    end = loading()
    check("redis-py Lock: never two holders", parallel, work, THREADS)
    check("redis-py Lock: taken often", holders.judge)
    check("redis-py Lock: free after its time", all_are_free)
    check("redis-py Lock: kept over the kill, then released", kept_are_released)


main()
finish()
