"""Scripts on three nodes, through redis-py: what holds over a kill -9, over several shards, for keys
that nobody declared, and while a script runs for ever. Called by with_cluster.py."""

import hashlib
import threading
import time

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

ACCOUNTS = 6
EACH = 100
LOAD_SECONDS = 6
BEFORE_KILL_SECONDS = 1.5
DOWN_SECONDS = 2
RECOVERY_SECONDS = 20
# script_time_ms by default, and what the one who waits may add.
SCRIPT_SECONDS = 5
OTHERS_SECONDS_MAX = 1.0

TRANSFER = """
local has, amount = tonumber(redis.call('GET', KEYS[1])), tonumber(ARGV[1])
if has < amount then return 0 end
redis.call('DECRBY', KEYS[1], amount)
return redis.call('INCRBY', KEYS[2], amount)
"""
# Declares no keys.
SUM = """
local sum = 0
for number = 0, tonumber(ARGV[1]) - 1 do
  sum = sum + redis.call('GET', 'account:' .. number)
end
return sum
"""
COUNT = "return redis.call('INCR', KEYS[1])"
COUNT_UNDECLARED = "return redis.call('INCR', 'hot')"
ENDLESS = {
    "loop": "while true do end",
    "pcall": "while true do pcall(function() while true do end end) end",
    "coroutine": "coroutine.wrap(function() while true do end end)()",
    "writes": "redis.call('SET', 'hostile', '1') while true do redis.call('GET', 'hostile') end",
}

# Each ends with an error, soon or at the limit of time.
BOMBS = {
    "strings": "local text = 'x' while true do text = text .. text end",
    "tables": "local all = {} while true do all[#all + 1] = {} end",
    "recursion": "local function deeper(n) return 1 + deeper(n + 1) end return deeper(1)",
    "repeat": "return string.rep('x', 2000000000)",
    "concat": "local all = {} for n = 1, 100000 do all[n] = string.rep('x', 100000) end return #all",
}


class Counts:
    """What came of attempts: acknowledged, certainly not done, without a certain answer."""

    def __init__(self):
        self.lock = threading.Lock()
        self.done = self.refused = self.unknown = 0
        self.wrong = []

    def attempt(self, call):
        """One attempt; its reply, if there was one. Other errors than those of a dying node are
        wrong."""
        try:
            reply = call()
        except (redis.ConnectionError, redis.TimeoutError) as error:
            # Nobody listened, so nothing was sent.
            refused = "refused" in str(error) or isinstance(error.__cause__, ConnectionRefusedError)
            return self.add("refused" if refused else "unknown")
        except redis.exceptions.TryAgainError:
            return self.add("refused")
        except redis.ResponseError as error:
            word = str(error).split(" ")[0]
            if word == "UNKNOWN":
                return self.add("unknown")
            if word in ("TRYAGAIN", "BUSY", "LOADING"):
                return self.add("refused")
            self.wrong.append(repr(error))
            return None
        self.add("done")
        if not isinstance(reply, int):
            self.wrong.append(f"not an integer: {reply!r}")
        return reply

    def add(self, name):
        """Counts one; nothing is known of the reply."""
        with self.lock:
            setattr(self, name, getattr(self, name) + 1)
        if name != "done":
            time.sleep(0.02)

    def __str__(self):
        return f"{self.done} done, {self.refused} refused, {self.unknown} without an answer"


def client(node):
    """A client that sends nothing twice."""
    return redis.Redis(node.host, node.resp, socket_timeout=15, retry=Retry(NoBackoff(), 0))


def sure(call):
    """A reply, as soon as there is one: nodes may just have been started."""
    until = time.monotonic() + RECOVERY_SECONDS
    while True:
        try:
            return call()
        except redis.RedisError:
            if time.monotonic() > until:
                raise
            time.sleep(0.1)


def together(workers):
    """Runs functions at once; raises the first error of any."""
    errors = []

    def run(work):
        try:
            work()
        except Exception as error:  # pylint: disable=broad-except
            errors.append(error)

    threads = [threading.Thread(target=run, args=(work,)) for work in workers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def shard_of(cluster, key):
    """The number of a key's shard."""
    link = cluster.nodes[0].connect()
    slot = link.call("CLUSTER", "KEYSLOT", key)
    shards = link.call("CLUSTER", "SHARDS")
    link.close()
    for number, shard in enumerate(shards):
        bounds = shard[1]
        if any(low <= slot <= high for low, high in zip(bounds[::2], bounds[1::2])):
            return number
    raise AssertionError(f"no shard has {key}")


def over_a_kill(cluster):
    """Transfers over shards keep their sum, and a hot counter counts what was acknowledged, while
    a node is killed and started again."""
    names = [f"account:{number}" for number in range(ACCOUNTS)]
    shards = {shard_of(cluster, name) for name in names}
    assert len(shards) > 1, "all accounts lie in one shard"
    calm = client(cluster.nodes[0])
    calm.mset({name: EACH for name in names} | {"hot": 0})
    moved, counted, seen = Counts(), Counts(), Counts()
    replies = []
    end = time.monotonic() + LOAD_SECONDS

    def transfer(number):
        one, turn = client(cluster.nodes[number % 3]), number
        while time.monotonic() < end:
            turn += 1
            source = names[turn % ACCOUNTS]
            target = names[(turn * 7 + number + 1) % ACCOUNTS]
            if source != target:
                moved.attempt(lambda: one.eval(TRANSFER, 2, source, target, turn % 9 + 1))

    def count(number):
        one, words = client(cluster.nodes[number % 3]), [COUNT, 1, "hot"]
        if number > 2:
            words = [COUNT_UNDECLARED, 0]
        while time.monotonic() < end:
            reply = counted.attempt(lambda: one.eval(*words))
            if reply is not None:
                replies.append(reply)

    def look(number):
        one = client(cluster.nodes[number])
        while time.monotonic() < end:
            found = seen.attempt(lambda: one.eval(SUM, 0, ACCOUNTS))
            if found not in (None, ACCOUNTS * EACH):
                seen.wrong.append(f"a sum of {found}")
            time.sleep(0.01)

    def kill():
        time.sleep(BEFORE_KILL_SECONDS)
        victim = cluster.leader("hot")
        victim.kill()
        time.sleep(DOWN_SECONDS)
        victim.spawn()

    together([lambda n=n: transfer(n) for n in range(6)] + [lambda n=n: count(n) for n in range(6)]
             + [lambda n=n: look(n) for n in range(3)] + [kill])
    print(f"  note: transfers {moved}; counts {counted}; sums {seen}", flush=True)
    cluster.until("cluster after the kill", cluster.is_whole)
    for counts in (moved, counted, seen):
        assert not counts.wrong, counts.wrong[:3]
        assert counts.done > 20, str(counts)
    for node in cluster.nodes:
        one = client(node)
        balances = [int(each) for each in sure(lambda: one.mget(names))]
        assert sum(balances) == ACCOUNTS * EACH and min(balances) >= 0, balances
        value = int(sure(lambda: one.get("hot")))
        assert counted.done <= value <= counted.done + counted.unknown, f"{counted}: {value}"
    assert len(set(replies)) == len(replies), "a count was given out twice"


def undeclared(cluster):
    """Keys in any shards, in the words of the script alone, through each node."""
    script = """
    for number = 1, 20 do redis.call('SET', ARGV[1] .. number, number) end
    redis.call('DEL', ARGV[1] .. '20')
    local sum = 0
    for number = 1, 20 do sum = sum + (redis.call('GET', ARGV[1] .. number) or 0) end
    return {sum, redis.call('EXISTS', ARGV[1] .. '20'), redis.call('TTL', ARGV[1] .. '1')}
    """
    for number, node in enumerate(cluster.nodes):
        prefix = f"un{number}:"
        assert client(node).eval(script, 0, prefix) == [190, 0, -1]
        for other in cluster.nodes:
            names = [f"{prefix}{each}" for each in range(1, 21)]
            expected = [str(each).encode() for each in range(1, 20)] + [None]
            assert client(other).mget(names) == expected
        # One key is declared, another shard's is touched all the same.
        assert client(node).eval("return redis.call('GET', ARGV[1] .. '7')", 1, f"{prefix}3",
                                 prefix) == b"7"
        # Read-only scripts see one moment.
        assert client(node).eval_ro("return redis.call('MGET', ARGV[1], ARGV[2])", 0,
                                    f"{prefix}1", f"{prefix}2") == [b"1", b"2"]


def known_everywhere(cluster):
    """EVALSHA through another node than the one that knows the script."""
    for number, node in enumerate(cluster.nodes):
        script = f"return redis.call('INCRBY', KEYS[1], {number + 1})"
        sha = client(node).script_load(script)
        assert sha == hashlib.sha1(script.encode()).hexdigest()
        evaluated = script + " + 0"
        client(node).eval(evaluated, 1, f"known:{number}:e")
        for other in cluster.nodes:
            one = client(other)
            one.evalsha(sha, 1, f"known:{number}")
            one.evalsha(hashlib.sha1(evaluated.encode()).hexdigest(), 1, f"known:{number}:e")
        assert int(client(node).get(f"known:{number}")) == 3 * (number + 1)
        assert int(client(node).get(f"known:{number}:e")) == 4 * (number + 1)


def hostile(cluster):
    """Scripts without an end are stopped at their limit, nothing of them is done, and meanwhile
    everyone else is served on, at every node."""
    took, slowest = {}, [0.0] * 3
    over = threading.Event()

    def endless(name, node):
        began = time.monotonic()
        try:
            reply = client(node).eval(ENDLESS[name], 0)
            took[name] = (0.0, f"answered {reply!r}")
        except redis.RedisError as error:
            took[name] = (time.monotonic() - began, f"{type(error).__name__}: {error}")

    def bombs():
        for at, (name, script) in enumerate(BOMBS.items()):
            began = time.monotonic()
            try:
                reply = client(cluster.nodes[at % 3]).eval(script, 0)
            except redis.ResponseError as error:
                print(f"  note: {name}: {time.monotonic() - began:.2f} s, {str(error)[:100]}",
                      flush=True)
                continue
            # All strings of one content are one string: this one is small.
            assert name == "concat" and reply == 100000, f"{name}: {reply!r:.100}"

    def scripts():
        together([bombs] + [lambda name=name, node=cluster.nodes[at % 3]: endless(name, node)
                  for at, name in enumerate(ENDLESS)])
        over.set()

    def serve(number):
        one, turn = client(cluster.nodes[number]), 0
        while not over.is_set():
            turn += 1
            began = time.monotonic()
            assert one.set(f"calm:{number}:{turn % 50}", turn)
            assert int(one.get(f"calm:{number}:{turn % 50}")) == turn
            slowest[number] = max(slowest[number], time.monotonic() - began)
            time.sleep(0.002)

    together([scripts] + [lambda n=n: serve(n) for n in range(3)])
    for name, (seconds, said) in took.items():
        print(f"  note: {name}: {seconds:.2f} s, {said}", flush=True)
    print(f"  note: slowest SET and GET meanwhile {max(slowest) * 1000:.0f} ms", flush=True)
    for name, (seconds, said) in took.items():
        assert SCRIPT_SECONDS * 0.2 < seconds < SCRIPT_SECONDS + 3, f"{name}: {seconds:.2f} s, {said}"
        assert "script_time_ms" in said or "script_instructions" in said, f"{name}: {said}"
    assert max(slowest) < OTHERS_SECONDS_MAX, slowest
    for node in cluster.nodes:
        assert client(node).get("hostile") is None, "half of a script was done"
        assert client(node).eval("return 1", 0) == 1
