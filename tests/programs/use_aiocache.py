"""aiocache: its OptimisticLock counts exactly, and its RedLock spares most of those who want a value
from computing it. Both are scripts. RedLock does not promise that only one computes: who is
refused before the winner has read its reply does not wait."""

import asyncio
import time

from aiocache import Cache
from aiocache.lock import OptimisticLock, OptimisticLockError, RedLock
from shared import (NODES, RECOVERY_SECONDS, SECONDS, TIMEOUT_SECONDS, check, finish, loading,
                    passing, same)

LEASE_SECONDS = 2
TASKS = 9


def caches():
    """A cache through each node."""
    return [Cache(Cache.REDIS, endpoint=host, port=port, timeout=TIMEOUT_SECONDS)
            for host, port in NODES]


async def computed_once(each, rounds, errors):
    """All tasks want a value at once, round after round; how often it was computed."""
    computed = {}

    async def want(cache, key):
        try:
            async with RedLock(cache, key, lease=LEASE_SECONDS):
                if await cache.get(key) is None:
                    computed[key] = computed.get(key, 0) + 1
                    await asyncio.sleep(0.005)
                    await cache.set(key, "value", ttl=60)
            return await cache.get(key)
        except Exception as error:  # pylint: disable=broad-except
            if not (passing(error) or isinstance(error, (asyncio.TimeoutError, KeyError))):
                raise
            errors[key] = errors.get(key, 0) + 1
            return None

    async for key in rounds:
        found = await asyncio.gather(*(want(each[n % len(each)], key) for n in range(TASKS)))
        if key not in errors:
            same(["value"] * TASKS, found)
    return computed


async def counted(each, end, errors):
    """All tasks count up one value by compare and set: (acknowledged, without an answer)."""
    acknowledged = unanswered = conflicts = 0

    async def count(cache):
        nonlocal acknowledged, unanswered, conflicts
        while time.monotonic() < end:
            try:
                async with OptimisticLock(cache, "ac:n") as lock:
                    value = int(await cache.get("ac:n"))
                    # What the lock saw is what is replaced.
                    if str(value) == lock._token:
                        await lock.cas(value + 1)
                        acknowledged += 1
            except OptimisticLockError:
                conflicts += 1
            except Exception as error:  # pylint: disable=broad-except
                if not (passing(error) or isinstance(error, asyncio.TimeoutError)):
                    raise
                unanswered += 1
                await asyncio.sleep(0.02)
    await asyncio.gather(*(count(cache) for cache in each))
    print(f"note: {acknowledged} counted, {conflicts} conflicts, {unanswered} without an answer")
    return acknowledged, unanswered


async def ask(call, key):
    """What a node answers, as soon as it does again."""
    deadline = time.monotonic() + RECOVERY_SECONDS
    while True:
        try:
            return await call(key)
        except Exception as error:  # pylint: disable=broad-except
            if not passing(error) or time.monotonic() > deadline:
                raise
            await asyncio.sleep(0.1)


async def main():
    """Calm rounds, then both over the kill."""
    each = caches()
    outcome = {}

    async def rounds(name, end):
        number = 0
        while time.monotonic() < end:
            number += 1
            yield f"ac:{name}:{number}"
            await asyncio.sleep(0.02)

    async def run(name, work):
        try:
            outcome[name] = await work
        except Exception as error:  # pylint: disable=broad-except
            outcome[name] = error

    def held(name):
        if isinstance(outcome[name], Exception):
            raise outcome[name]
        if isinstance(outcome[name], dict):
            counts = outcome[name].values()
            print(f"note: {len(counts)} values, computed {sum(counts)} times")
            assert counts and sum(counts) <= len(counts) * TASKS / 2, sum(counts)

    calm = {}
    await run("calm", computed_once(each, rounds("calm", time.monotonic() + 1), calm))
    check("aiocache: RedLock, few compute", held, "calm")
    check("aiocache: no errors while all are there", same, {}, calm)
    await each[0].set("ac:n", 0)
    end = loading()
    errors = {}
    await asyncio.gather(run("stampede", computed_once(each, rounds("load", end), errors)),
                         run("count", counted(each, end, errors)))
    check("aiocache: RedLock, few compute over a kill -9", held, "stampede")
    check("aiocache: OptimisticLock over a kill -9", held, "count")
    values = [int(await ask(cache.get, "ac:n")) for cache in each]
    await asyncio.sleep(LEASE_SECONDS)
    left = [await ask(each[1].exists, key + "-lock") for key in outcome["stampede"]
            ] if isinstance(outcome["stampede"], dict) else []
    check("aiocache: locks are released or run out", same, [False] * len(left), left)

    def counts():
        acknowledged, unanswered = outcome["count"]
        assert acknowledged > 20 * SECONDS / 6, acknowledged
        assert all(acknowledged <= value <= acknowledged + unanswered for value in values), \
            f"{acknowledged} <= {values} <= {acknowledged} + {unanswered}"
    check("aiocache: OptimisticLock counts exactly", counts)
    for cache in each:
        await cache.close()


asyncio.run(main())
finish()
