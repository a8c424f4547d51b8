"""redis-py as applications use it: redis_py.py HOST PORT use|verify [default|resp2|resp3]"""

import sys
import threading
import time

import redis

HOST, PORT, PHASE = sys.argv[1], int(sys.argv[2]), sys.argv[3]
ONLY = sys.argv[4] if len(sys.argv) > 4 else None
BIG = bytes(range(256)) * 40960  # 10 MiB
FAILED = []


def check(name, test):
    """Runs one test and prints how it went."""
    try:
        test()
        print(f"ok redis-py {name}")
    except Exception as error:  # pylint: disable=broad-except
        FAILED.append(name)
        print(f"FAIL redis-py {name}: {type(error).__name__}: {str(error)[:300]!r}")


def same(expected, actual):
    """Fails unless both are equal."""
    assert expected == actual, f"expected {expected!r:.200}, got {actual!r:.200}"


def raises(kind, text, call):
    """Fails unless the call raises this error."""
    try:
        call()
    except kind as error:
        assert text in str(error), f"{error}"
        return
    raise AssertionError("no error")


def client(**options):
    """A client with its own pool."""
    return redis.Redis(HOST, PORT, **options)


def use(name, r, other):
    """Everything, on one client; `other` is the same server's keyspace 5."""

    def key(text):
        return f"py:{name}:{text}"

    def set_get():
        same(True, r.set(key("a"), "x"))
        same(b"x", r.get(key("a")))
        same(None, r.get(key("none")))
        same(None, r.set(key("a"), "y", nx=True))
        same(b"x", r.set(key("a"), "z", get=True))
        same(2, r.exists(key("a"), key("a")))
        same([b"z", None], r.mget(key("a"), key("none")))
        same(True, r.mset({key("m1"): "1", key("m2"): "2"}))
        same(11, r.incrby(key("n"), 11))
        same(11.5, r.incrbyfloat(key("n"), 0.5))
        same(4, r.append(key("a"), "abc"))
        same(b"abc", r.getrange(key("a"), 1, -1))

    def pipeline():
        with r.pipeline(transaction=False) as p:
            for i in range(2000):
                p.set(key(f"p{i}"), i)
                p.get(key(f"p{i}"))
            replies = p.execute()
        same([True, b"0"], replies[:2])
        same([True, b"1999"], replies[-2:])

    def pipeline_error():
        with r.pipeline(transaction=False) as p:
            p.set(key("e"), "abc")
            p.incr(key("e"))
            p.get(key("e"))
            replies = p.execute(raise_on_error=False)
        assert isinstance(replies[1], redis.ResponseError), replies
        same(b"abc", replies[2])

    def transaction():
        a, b = key("{t}a"), key("{t}b")
        with r.pipeline() as p:
            p.set(a, 1).incr(a).mset({b: "x"}).mget(a, b).delete(b, key("{t}none")).exists(b)
            same([True, 2, True, [b"2", b"x"], 1, 0], p.execute())
        with r.pipeline() as p:
            p.set(a, "word").incr(a).get(a)
            replies = p.execute(raise_on_error=False)
        assert isinstance(replies[1], redis.ResponseError), replies
        same(b"word", replies[2])
        with r.pipeline() as p:
            for i in range(20):
                p.get(key(f"apart{i}"))
            same([None] * 20, p.execute())
        # On a database of its own: others use that of the tests, and may run this beside it.
        with client(db={"default": 9, "resp2": 10, "resp3": 11}[name]) as own:
            own.mset({f"flushed{i}": i for i in range(20)})
            with own.pipeline(transaction=True) as p:
                p.set("before", 1).flushdb().set("after", 2).get("before").dbsize()
                same([True, True, True, None, 1], p.execute())
            same([b"after"], own.keys("*"))
            # Pipelines are transactions by default: whatever stands in them, in any order.
            library = f"#!lua name=lib{name}\nredis.register_function('incr{name}', function(k) return redis.call('INCR', k[1]) end)"
            with own.pipeline() as p:
                p.keys("*").set("new", 1).dbsize().delete("after").keys("*").function_load(library, replace=True)
                p.fcall(f"incr{name}", 1, "new").client_getname().script_load("return 1").function_delete(f"lib{name}")
                p.fcall(f"incr{name}", 1, "new").get("new")
                said = p.execute(raise_on_error=False)
            assert isinstance(said.pop(10), redis.ResponseError), said
            sha = "e0e1f9fabfc9d4800c877a703b823ac0578ff8db"
            said = [reply.encode() if isinstance(reply, str) else reply for reply in said]
            same([[b"after"], True, 2, 1, [b"new"], f"lib{name}".encode(), 2, None, sha.encode(), True, b"2"],
                 [True if reply == b"OK" else reply for reply in said])
            own.flushdb()
        # Whichever shards the keys lie in.
        with r.pipeline() as p:
            for i in range(20):
                p.incrby(key(f"apart{i}"), i)
            p.mget([key(f"apart{i}") for i in range(3)])
            same([*range(20), [b"0", b"1", b"2"]], p.execute())
        same(3, r.delete(*[key(f"apart{i}") for i in range(3)]))
        assert r.msetnx({key("apart0"): 1, key("apart1"): 2}) and not r.msetnx({key("apart1"): 3, key("new"): 1})
        same([b"1", b"2", None], r.mget(key("apart0"), key("apart1"), key("new")))
        assert r.rename(key("apart0"), key("moved")) and r.copy(key("moved"), key("apart0"))
        assert not r.renamenx(key("moved"), key("apart1"))
        same([b"1", b"2", b"1"], r.mget(key("apart0"), key("apart1"), key("moved")))

    def watch():
        a, b = key("{w}a"), key("{w}b")
        r.set(a, 1)
        with r.pipeline() as p:
            p.watch(a, b)
            r.set(a, 1)
            p.multi()
            p.set(b, 1)
            raises(redis.WatchError, "", p.execute)
        same(None, r.get(b))
        # An UNWATCH that is queued comes too late.
        with client() as mine:
            mine_is = mine.connection_pool.get_connection("WATCH")
            said = []
            for words in (("SELECT", r.connection_pool.connection_kwargs.get("db", 0)),
                          ("WATCH", a), ("MULTI",), ("UNWATCH",), ("SET", b, 1)):
                mine_is.send_command(*words)
                said.append(mine_is.read_response())
            r.set(a, 2)
            mine_is.send_command("EXEC")
            same(None, mine_is.read_response())
            same(None, r.get(b))
            mine.connection_pool.release(mine_is)
        # Ten on one counter, each by what it has read: none overwrites another.
        count = key("{w}count")

        def add(p):
            seen = int(p.get(count) or 0)
            p.multi()
            p.set(count, seen + 1)

        def adds():
            with client(db=r.connection_pool.connection_kwargs.get("db", 0)) as mine:
                for _ in range(20):
                    mine.transaction(add, count)

        threads = [threading.Thread(target=adds) for _ in range(10)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        same(b"200", r.get(count))

    def expire():
        # Long enough for a busy machine to come back to it in time.
        r.set(key("soon"), "x", px=1000)
        assert 0 < r.pttl(key("soon")) <= 1000
        time.sleep(1.1)
        # Up to a second later where another node has just come to lead.
        deadline = time.monotonic() + 1.2
        while r.get(key("soon")) is not None and time.monotonic() < deadline:
            time.sleep(0.05)
        same(None, r.get(key("soon")))
        r.set(key("later"), "x", ex=5000)
        assert 4990 <= r.ttl(key("later")) <= 5000
        same(True, r.persist(key("later")))
        same(-1, r.ttl(key("later")))
        same(-2, r.ttl(key("none")))

    def scan():
        wanted = {key(f"scan{i}").encode() for i in range(500)}
        for each in wanted:
            r.set(each, 1)
        same(wanted, set(r.scan_iter(match=key("scan*"), count=50)))
        same(wanted, set(r.keys(key("scan*"))))

    def keyspaces():
        r.set(key("here"), "zero")
        other.set(key("here"), "five")
        same(b"zero", r.get(key("here")))
        same(b"five", other.get(key("here")))

    def binary():
        value = bytes(range(256))
        same(True, r.set(value, value))
        same(value, r.get(value))

    def big():
        same(True, r.set(key("big"), BIG))
        same(BIG, r.get(key("big")))

    def errors():
        r.set(key("text"), "abc")
        raises(redis.ResponseError, "value is not an integer", lambda: r.incr(key("text")))
        raises(redis.ResponseError, "unknown command", lambda: r.execute_command("NOSUCH", "x"))
        raises(redis.ResponseError, "wrong number", lambda: r.execute_command("GET"))
        raises(redis.ResponseError, "out of range", lambda: r.execute_command("SELECT", "99"))

    def about():
        same(True, r.ping())
        same("7.0.15", r.info()["redis_version"])
        assert r.dbsize() > 500
        r.client_setname("py-test")
        same("py-test", (r.client_getname() or b"").decode()
             if isinstance(r.client_getname(), bytes) else r.client_getname())

    def transaction_of_everything():
        tag = "{" + key("every") + "}"
        p = r.pipeline()
        p.set(tag + "a", "ohmytext").set(tag + "b", "mynewtext").incr(key("elsewhere"))
        p.client_setname("behind").client_getname()
        p.lcs(tag + "a", tag + "b").memory_usage(tag + "a").memory_usage(key("none"))
        p.keys(tag + "*").dbsize().randomkey().scan(count=5).time().config_get("save").info("server")
        replies = p.execute()
        same([True, True], replies[:2])
        same([b"mytext", True, None], [replies[5], replies[6] > 20, replies[7]])
        same("behind", str(replies[4], "ascii") if isinstance(replies[4], bytes) else replies[4])
        same({(tag + "a").encode(), (tag + "b").encode()}, set(replies[8]))
        assert replies[9] >= 3 and replies[10] and len(replies[11]) == 2, replies
        same("7.0.15", replies[14]["redis_version"])
        r.client_setname("")

    def tools():
        r.set(key("a"), "x")
        assert r.memory_usage(key("a"), samples=0) > 10
        same(None, r.memory_usage(key("none")))
        assert r.memory_stats()["total.allocated"] > 0
        same([], list(r.module_list()))
        same([], list(r.latency_latest()))
        assert r.slowlog_len() >= len(r.slowlog_get(1))
        assert r.slowlog_reset()
        assert r.info("commandstats")["cmdstat_set"]["calls"] > 0
        same("master", str(r.role()[0], "ascii") if isinstance(r.role()[0], bytes) else r.role()[0])
        assert r.lastsave().year >= 2020
        assert "Redis ver. 7.0.15" in str(r.lolwut())
        assert r.command_count() > 80 and len(r.command()) == r.command_count()
        listed = r.command_list()
        assert any(b"client|id" in (name, str(name).encode()) for name in listed), listed
        same([key("a").encode()], [name if isinstance(name, bytes) else name.encode()
                                   for name in r.command_getkeys("GET", key("a"))])
        one = client()
        one_id = one.client_id()
        same(1, r.client_kill_filter(_id=str(one_id)))
        assert all(int(each["id"]) != one_id for each in r.client_list())
        one.close()

    def kept():
        r.set(key("kept"), "kept")
        r.set(key("expiring"), "x", ex=100_000)
        r.set(key("deleted"), "x")
        r.delete(key("deleted"))

    for test in (set_get, pipeline, pipeline_error, transaction, watch, expire, scan, keyspaces,
                 binary, big, errors, about, transaction_of_everything, tools, kept):
        check(f"{name} {test.__name__}", test)


def verify(name, r, other):
    """After a restart: what `use` left."""
    key = f"py:{name}:"

    def kept():
        same(b"kept", r.get(key + "kept"))
        same(None, r.get(key + "deleted"))
        assert 99_000 < r.ttl(key + "expiring") <= 100_000
        same(BIG, r.get(key + "big"))
        same(b"five", other.get(key + "here"))
        same(500, len(list(r.scan_iter(match=key + "scan*", count=100))))

    check(f"{name} kept over a restart", kept)


def caching():
    """Invalidations reach its handler. (Its own cache refuses servers before Redis 7.4.)"""
    r, other, key = client(protocol=3, single_connection_client=True), client(), "py:caching"
    heard = []
    # pylint: disable=protected-access
    r.connection._parser.set_invalidation_push_handler(heard.append)
    same(True, r.execute_command("CLIENT TRACKING", "ON") in (b"OK", True, "OK"))
    for number in range(30):
        other.set(key, number)
        same(str(number).encode(), r.get(key))
        heard.clear()
        (other if number % 2 else r).set(key, "x")
        until = time.monotonic() + 1
        while [b"invalidate", [key.encode()]] not in heard:
            assert time.monotonic() < until, f"{heard} after {number}"
            r.ping()


if PHASE == "use" and ONLY in (None, "resp3"):
    check("caching", caching)
for title, settings in (("default", {}), ("resp2", {"protocol": 2}), ("resp3", {"protocol": 3})):
    if ONLY in (None, title):
        (use if PHASE == "use" else verify)(title, client(**settings), client(db=5, **settings))
sys.exit(1 if FAILED else 0)
