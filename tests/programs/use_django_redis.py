"""django-redis: 8 threads × 50 `incr` make 400, before and after a node is killed. Its `incr` is a
script; one that is answered with an error it replaces by a read and a write, so while nodes die
only counters with one writer are judged."""

import threading
import time

import django
import redis
from django.conf import settings
from shared import (NODES, TIMEOUT_SECONDS, check, finish, loading, no_retries, parallel, passing,
                    same, until_works)

THREADS = 8
EACH = 50


def configure():
    """One cache of Django for each node."""
    settings.configure(CACHES={
        f"node{number}": {
            "BACKEND": "django_redis.cache.RedisCache",
            "LOCATION": f"redis://{host}:{port}/0",
            "OPTIONS": {"CONNECTION_POOL_KWARGS": {"socket_timeout": TIMEOUT_SECONDS,
                                                   "retry": no_retries()}},
        } for number, (host, port) in enumerate(NODES)
    } | {"default": {"BACKEND": "django.core.cache.backends.dummy.DummyCache"}})
    django.setup()


configure()
from django.core.cache import caches  # noqa: E402


def cache(number):
    """The cache through a node, of this thread."""
    return caches[f"node{number % len(NODES)}"]


class Replaced(threading.local):
    """Scripts of this thread that were answered with UNKNOWN, and so may have been done before they
    were replaced."""
    count = 0


REPLACED = Replaced()


def watch_scripts():
    """Sees what django-redis hides from its callers."""
    send = redis.Redis.eval

    def watched(*words, **named):
        try:
            return send(*words, **named)
        except redis.ResponseError as error:
            REPLACED.count += str(error).startswith("UNKNOWN")
            raise

    redis.Redis.eval = watched


def counts_to_400(name):
    """All threads, one counter."""
    cache(0).set(name, 0, timeout=None)

    def work(number):
        for _ in range(EACH):
            reply = cache(number).incr(name)
            assert isinstance(reply, int), reply

    parallel(work, THREADS)
    for number in range(len(NODES)):
        same(THREADS * EACH, cache(number).get(name))


def calls():
    """What else it sends."""
    mine, other = cache(0), cache(1)
    same(True, mine.add("dr:add", "x", timeout=100))
    same(False, other.add("dr:add", "y"))
    same({"dr:add": "x"}, other.get_many(["dr:add", "dr:none"]))
    assert 0 < other.ttl("dr:add") <= 100
    same(-5, (mine.set("dr:n", -2), other.decr("dr:n", 3))[1])
    try:
        mine.incr("dr:none")
        raise AssertionError("an absent key was counted up")
    except ValueError:
        pass
    same(1, mine.incr("dr:none", ignore_key_check=True))
    same(["dr:add"], list(other.iter_keys("dr:ad*")))
    same(1, other.delete_pattern("dr:ad*"))
    with mine.lock("dr:lock", timeout=10):
        same(False, other.lock("dr:lock", timeout=10).acquire(blocking=False))
    taken = other.lock("dr:lock", timeout=10)
    same(True, taken.acquire(blocking=False))
    taken.release()


def main():
    """Before, over and after the kill."""
    watch_scripts()
    check("django-redis: calls", calls)
    check("django-redis: 8 threads x 50 incr", counts_to_400, "dr:before")
    acknowledged = [0] * THREADS
    unanswered = [0] * THREADS
    replaced = [0] * THREADS
    for number in range(THREADS):
        cache(0).set(f"dr:own{number}", 0, timeout=None)

    def work(number):
        while time.monotonic() < end:
            try:
                cache(number).incr(f"dr:own{number}")
                acknowledged[number] += 1
            except Exception as error:  # pylint: disable=broad-except
                if not passing(error):
                    raise
                unanswered[number] += 1
                time.sleep(0.02)
        replaced[number] = REPLACED.count

    def none_is_lost():
        for number in range(THREADS):
            until_works("a read", lambda: cache(number).get(f"dr:own{number}") is not None)
            value = cache(number).get(f"dr:own{number}")
            # One may have been done by the script, and again by the write that replaced it.
            most = acknowledged[number] + unanswered[number] + replaced[number]
            assert acknowledged[number] <= value <= most, \
                f"{acknowledged[number]} <= {value} <= {most}"

    end = loading()
    check("django-redis: load over a kill -9", parallel, work, THREADS)
    print(f"note: {sum(acknowledged)} acknowledged, {sum(unanswered)} without an answer, "
          f"{sum(replaced)} replaced that may have been done")
    check("django-redis: no acknowledged incr is lost", none_is_lost)
    check("django-redis: 8 threads x 50 incr after the kill", counts_to_400, "dr:after")


main()
finish()
