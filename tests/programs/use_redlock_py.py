"""redlock-py: three databases, each through another node, count as its three servers."""

import logging
import random
import time

import redis
from redlock import MultipleRedlockException, Redlock
from shared import NODES, Holders, check, client, finish, loading, parallel, same, until_works

TTL_MS = 1500
THREADS = 6
DATABASES = (1, 2, 3)
NAMES = ["redlock-py-a", "redlock-py-b"]


def manager(number):
    """A thread's manager: the databases are reached through nodes in another order."""
    servers = [client(number + db, db=db) for db in DATABASES]
    return Redlock(servers, retry_count=1, retry_delay=0.01)


def while_all_are_there():
    """Taken once, refused, released."""
    first, second = manager(0), manager(1)
    mine = first.lock("redlock-py-calm", 10_000)
    assert mine and mine.validity > 5_000, mine
    same(False, second.lock("redlock-py-calm", 10_000))
    first.unlock(mine)
    for number in range(len(NODES)):
        for db in DATABASES:
            same(None, client(number, db=db).get("redlock-py-calm"))


def main():
    """Holders for a moment, over the kill. It raises when a server is down, having taken the
    others: such a lock runs out."""
    logging.getLogger().setLevel(logging.CRITICAL)
    check("redlock-py: calls", while_all_are_there)
    holders = Holders(TTL_MS / 1000)

    def work(number):
        locks = manager(number)
        while time.monotonic() < end:
            name = random.choice(NAMES)
            asked = time.monotonic()
            try:
                mine = locks.lock(name, TTL_MS)
            except (MultipleRedlockException, redis.RedisError):
                holders.unanswered += 1
                time.sleep(0.05)
                continue
            if not mine:
                time.sleep(random.uniform(0.005, 0.03))
                continue
            holders.enter(name, number, asked)
            time.sleep(random.uniform(0.002, 0.02))
            holders.leave(name, number)
            locks.unlock(mine)

    def free():
        for number in range(len(NODES)):
            locks = manager(number)
            for name in NAMES:
                def take(locks=locks, name=name):
                    try:
                        mine = locks.lock(name, TTL_MS)
                    except MultipleRedlockException:
                        return False
                    if mine:
                        locks.unlock(mine)
                    return bool(mine)
                until_works(f"{name} by manager {number}", take)

    end = loading()
    check("redlock-py: never two holders", parallel, work, THREADS)
    check("redlock-py: taken often", holders.judge)
    check("redlock-py: free after its time", free)


main()
finish()
