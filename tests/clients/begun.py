"""BEGIN … COMMIT, RANGE within, and values that move from shard to shard, through three nodes."""

import itertools
import json
import random
import threading
import time

from harness.resp import Error, encode

SECONDS = 4
# Long enough for a command that is run again and again to be refused: 5 s, and 2 s for the last.
IN_VAIN_SECONDS, ANSWERED_SECONDS = 9, 7


class Session:
    """One connection, on which errors are values."""

    def __init__(self, node, keyspace=None):
        self.link = node.connect()
        if keyspace:
            self("SELECT", keyspace)

    def __call__(self, *command):
        return self.link.pipeline([command])[0]

    def committed(self):
        """Whether COMMIT was done; fails if that is not known."""
        said = self("COMMIT")
        if not isinstance(said, Error):
            return True
        known = ("CONFLICT", "BUSY", "TRYAGAIN", "CLUSTERDOWN")
        assert said.startswith(known), said
        return False


def same(expected, actual):
    """Fails unless both are equal."""
    assert expected == actual, f"expected {expected!r}, got {actual!r}"


def refused(said, text):
    """Fails unless a command was refused so."""
    assert isinstance(said, Error) and said.startswith(text), f"{said!r}, not {text!r}"


def one_by_one(cluster):
    """Replies of commands between BEGIN and COMMIT, and what other clients see."""
    for node, other in zip(cluster.nodes, cluster.nodes[1:] + cluster.nodes[:1]):
        me, you = Session(node), Session(other)
        you("DEL", *(f"b{n}" for n in range(9)))
        refused(me("COMMIT"), "ERR COMMIT without BEGIN")
        refused(me("ROLLBACK"), "ERR ROLLBACK without BEGIN")
        same(b"OK", me("BEGIN"))
        refused(me("BEGIN"), "ERR BEGIN calls can not be nested")
        for command in (["MULTI"], ["WATCH", "b1"], ["SELECT", "1"], ["FLUSHDB"], ["DBSIZE"],
                        ["KEYS", "*"], ["RANGE", "-", "+"], ["WAIT", "1", "1"], ["INCR", "b1", "2"]):
            refused(me(*command), "ERR")
        same(b"OK", me("MSET", "b1", "1", "b2", "2"))
        same([b"1", b"2", None], me("MGET", "b1", "b2", "b3"))
        same([2, 1, b"OK", 1], [me("INCR", "b1"), me("APPEND", "b4", "x"), me("RENAME", "b2", "b3"),
                                me("COPY", "b3", "b5")])
        same([0, 1, 1, b"PONG"], [me("MSETNX", "b6", "1", "b5", "2"), me("MSETNX", "b6", "1", "b7", "2"),
                                  me("DEL", "b7", "b8"), me("PING")])
        refused(me("INCR", "b4"), "ERR value is not an integer")
        same([None] * 7, you("MGET", *(f"b{n}" for n in range(1, 8))))
        same(b"OK", me("COMMIT"))
        values = [b"2", None, b"2", b"x", b"2", b"1", None]
        same(values, you("MGET", *(f"b{n}" for n in range(1, 8))))
        # Nothing is done of what is given up.
        for end in (["ROLLBACK"], ["RESET"]):
            same([b"OK", b"OK"], [me("BEGIN"), me("SET", "b1", "9")])
            me(*end)
            same(b"2", you("GET", "b1"))
        # What was read has changed, though its value has not.
        same([b"OK", b"2", b"OK"], [me("BEGIN"), me("GET", "b1"), you("SET", "b1", "2")])
        same(b"OK", me("SET", "b8", "1"))
        refused(me("COMMIT"), "CONFLICT 'b1' has changed")
        same([b"OK", None, b"OK"], [me("BEGIN"), me("GET", "b8"), you("SET", "b8", "x")])
        refused(me("COMMIT"), "CONFLICT 'b8' has changed")
        # What is only written has not.
        same([b"OK", b"OK", b"OK"], [me("BEGIN"), me("SET", "b8", "y"), you("SET", "b8", "z")])
        same([b"OK", b"y"], [me("COMMIT"), you("GET", "b8")])
        same([b"OK", b"OK"], [me("BEGIN"), me("COMMIT")])
        me.link.close()
        you.link.close()


def moves_within(cluster):
    """RENAME, COPY and MSETNX of keys in several shards, in MULTI."""
    for node, other in zip(cluster.nodes, cluster.nodes[1:] + cluster.nodes[:1]):
        me, you = Session(node), Session(other)
        you("DEL", *(f"m{n}" for n in range(9)))
        commands = (["SET", "m1", "v"], ["RENAME", "m1", "m2"], ["COPY", "m2", "m3"],
                    ["MSETNX", "m4", "1", "m5", "2"], ["MSETNX", "m4", "1", "m6", "2"],
                    ["RENAME", "nothing", "m7"], ["MGET", "m1", "m2", "m3"], ["DEL", "m2", "m3"])
        said = within(me, commands)
        refused(said.pop(5), "ERR no such key")
        same([b"OK", b"OK", 1, 1, 0, [None, b"v", b"v"], 2], said)
        same([None, None, None, b"1", b"2", None], you("MGET", *(f"m{n}" for n in range(1, 7))))
        # A watched key that has changed, and one that has not.
        for change, after in (("m4", None), ("m8", [b"OK", b"OK"])):
            same([b"OK", b"OK"], [me("WATCH", "m4"), you("SET", change, "3")])
            same(after, within(me, (["RENAME", "m5", "m6"], ["SET", "m7", "x"])))
        same([None, b"2", b"x"], you("MGET", "m5", "m6", "m7"))


def absent_again(cluster):
    """A client that watches an absent key notices that it existed, in one shard or several."""
    made_and_deleted = (
        (["SET", "{k}", "1"], ["DEL", "{k}", "{other}"]),
        (["SET", "{k}", "1"], ["SET", "{other}", "1"], ["EXPIRE", "{k}", "-1"]),
        (["SET", "{k}", "1"], ["GETDEL", "{k}"], ["SET", "{other}", "1"]),
        (["SET", "{k}", "1"], ["RENAME", "{k}", "{other}"]),
        (["SET", "{k}", "1", "EXAT", "1"], ["SET", "{other}", "1"]),
        (["SET", "{k}", "1", "EXAT", "1"],),
    )
    left_alone = ((["DEL", "{k}", "{other}"],), (["GET", "{k}"], ["SET", "{other}", "1"]),
                  (["SET", "{k}", "1", "XX"], ["SET", "{other}", "1"]))
    for node, another in zip(cluster.nodes, cluster.nodes[1:] + cluster.nodes[:1]):
        me, you = Session(node), Session(another)
        for k, other in (("a1", "a2"), ("a2", "a1"), ("{a}1", "{a}2"), ("a1", "a1x")):
            for commands in made_and_deleted + left_alone:
                you("DEL", k, other)
                size = you("DBSIZE")
                same(b"OK", me("WATCH", k))
                within(you, [[part.replace("{k}", k).replace("{other}", other) for part in command]
                             for command in commands])
                expected = None if commands in made_and_deleted else [b"PONG"]
                same((commands, expected), (commands, within(me, (["PING"],))))
                same((0, you("EXISTS", other)), (you("EXISTS", k), you("DBSIZE") - size))


def in_each_others_way(cluster):
    """Many that take values between few keys of several shards, and others that only write them: each
    has its answer in time."""
    stop, failed, seconds = time.monotonic() + IN_VAIN_SECONDS, [], []
    names = [f"w{number}" for number in range(6)]
    counts = {"copied": 0, "moved": 0, "written": 0, "busy": 0}

    def until_the_end(number):
        draw, mine = random.Random(number), Session(cluster.nodes[number % 3])
        kind = ("copied", "moved", "written", "written")[number % 4]
        try:
            while time.monotonic() < stop:
                one, two, three = draw.sample(names, 3)
                began = time.monotonic()
                if kind == "copied":
                    said = mine("COPY", one, two, "REPLACE")
                else:
                    moves = (["SET", one, number], ["RENAME", one, two], ["COPY", two, three, "REPLACE"])
                    writes = [["SET", name, number] for name in (one, two, three)]
                    commands = moves if kind == "moved" else writes
                    said = mine.link.pipeline([("MULTI",), *commands, ("EXEC",)])[-1]
                seconds.append(time.monotonic() - began)
                if isinstance(said, Error):
                    refused(said, "BUSY conflict on key 'w")
                    counts["busy"] += 1
                else:
                    done = {"copied": (0, 1), "moved": ([b"OK", b"OK", 1],), "written": ([b"OK"] * 3,)}
                    assert said in done[kind], said
                    counts[kind] += 1
        except BaseException as error:  # noqa: BLE001 - told to who waits
            failed.append(f"{number}: {error!r}")

    threads = [threading.Thread(target=until_the_end, args=(number,)) for number in range(48)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(IN_VAIN_SECONDS + 30)
    same([], failed)
    print(f"  {counts}, {max(seconds):.1f} s at most", flush=True)
    assert max(seconds) < ANSWERED_SECONDS, f"an answer took {max(seconds):.1f} s"
    assert min(counts["copied"], counts["moved"], counts["written"]) > 0, counts


def within(session, commands):
    """What EXEC says of some commands."""
    same([b"OK", *[b"QUEUED"] * len(commands)],
         [session("MULTI"), *(session(*command) for command in commands)])
    return session("EXEC")


def in_order(cluster, keyspace="begun"):
    """An ordered keyspace of three shards; what RANGE shows, and what is a change of it."""
    first = cluster.nodes[0]
    status, text = first.request("POST", "/v1/keyspaces", {"name": keyspace, "placement": "ordered"})
    assert status == 201, text
    sessions = []
    for node in cluster.nodes:
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline and isinstance(Session(node, keyspace)("GET", "x"), Error):
            time.sleep(0.1)
        sessions.append(Session(node, keyspace))
    for number in range(60):
        same(b"OK", sessions[0]("SET", f"k{number:02}", "v"))
    for at in ("k20", "k40"):
        cut(cluster, keyspace, at)
    for me, you in zip(sessions, sessions[1:] + sessions[:1]):
        names = lambda low, high: [f"k{number:02}".encode() for number in range(low, high)]
        same(b"OK", me("BEGIN"))
        same(names(18, 43), me("RANGE", "[k18", "(k43"))
        same(names(15, 43)[::-1][:26], me("RANGE", "(k43", "[k00", "REV", "LIMIT", "26"))
        same([1, b"OK"], [me("DEL", "k20"), me("SET", "k19a", "new")])
        shown = me("RANGE", "[k19", "[k21", "WITHVALUES")
        same([[b"k19", b"v"], [b"k19a", b"new"], [b"k21", b"v"]], pairs(shown))
        same(b"OK", me("COMMIT"))
        same([b"k19", b"k19a", b"k21"], you("RANGE", "[k19", "[k21"))
        # A key comes, one goes, one behind the end comes, one is written.
        for change, conflicts in ((["SET", "k30a", "p"], True), (["DEL", "k30a"], True),
                                  (["SET", "k50a", "p"], False), (["SET", "k30", "v"], True)):
            same(b"OK", me("BEGIN"))
            me("RANGE", "[k15", "(k50")
            you(*change)
            me("SET", "elsewhere", "x")
            said = me("COMMIT")
            if conflicts:
                refused(said, f"CONFLICT '{change[1]}'")
            else:
                same(b"OK", said)
        you("DEL", "k50a", "k19a", "elsewhere")
        you("SET", "k20", "v")
        # Of what LIMIT has left out nothing is watched.
        same(b"OK", me("BEGIN"))
        same(names(0, 3), me("RANGE", "-", "+", "LIMIT", "3"))
        you("SET", "k59", "w")
        same([b"OK", b"OK"], [me("SET", "k00", "v"), me("COMMIT")])


def made_anew(cluster, keyspace="anew"):
    """What was watched is of the keyspace that there was, not of one that has its name now."""
    first, node = cluster.nodes[:2]

    def make():
        status, text = first.request("POST", "/v1/keyspaces", {"name": keyspace})
        assert status == 201, text
        until(True)

    def until(is_there):
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline and is_known() != is_there:
            time.sleep(0.05)
        same(is_there, is_known())

    def is_known():
        session = Session(node)
        return not any(isinstance(said, Error) for said in (session("SELECT", keyspace), session("GET", "x")))

    make()
    me = Session(node, keyspace)
    same([b"OK", b"OK", b"QUEUED", [b"OK"]], [me("WATCH", "x"), me("MULTI"), me("SET", "x", "1"), me("EXEC")])
    same([1, b"OK"], [me("DEL", "x"), me("WATCH", "x")])
    status, text = first.request("DELETE", f"/v1/keyspaces/{keyspace}")
    assert status < 300, text
    until(False)
    make()
    same([b"OK", b"QUEUED", None], [me("MULTI"), me("SET", "x", "2"), me("EXEC")])
    same(None, me("GET", "x"))


def own_writes(cluster, keyspace="own"):
    """A write between WATCH and a read counts, even if its client gets no answer."""
    options = {"name": keyspace, "replicas": 1, "durability": "memory"}
    status, text = cluster.nodes[0].request("POST", "/v1/keyspaces", options)
    assert status == 201, text
    for node in cluster.nodes:
        me = Session(node, keyspace)
        deadline = time.monotonic() + 20
        while isinstance(me("MGET", *"abcdef"), Error) and time.monotonic() < deadline:
            time.sleep(0.05)
        for one, other in itertools.permutations("abcdef", 2):
            same(b"OK", me("MSET", one, "1", other, "1"))
            commands = (["WATCH", one, other], ["CLIENT", "REPLY", "SKIP"], ["SET", one, "2"],
                        ["MGET", one, other])
            me.link.send(b"".join(encode(command) for command in commands))
            same([b"OK", [b"2", b"1"]], [me.link.read()[1] for _ in range(2)])
            same(None, within(me, [["SET", other, "3"]]))
        me.link.close()


def pairs(shown):
    """A reply of keys and values as pairs."""
    return [list(pair) for pair in zip(shown[::2], shown[1::2])]


def cut(cluster, keyspace, key):
    """Cuts the last shard of an ordered keyspace before a key."""
    deadline = time.monotonic() + 30
    while True:
        status, text = cluster.nodes[0].request("GET", f"/v1/shards?keyspace={keyspace}")
        assert status == 200, text
        shards = json.loads(text)["shards"]
        last = max(shards, key=lambda shard: shard["id"])["id"]
        said = [node.request("POST", f"/v1/shards/{last}/split", {"at": key})
                for node in cluster.nodes]
        if any(status // 100 == 2 for status, _ in said):
            break
        assert time.monotonic() < deadline, said
        time.sleep(0.3)
    while time.monotonic() < deadline:
        status, text = cluster.nodes[0].request("GET", f"/v1/shards?keyspace={keyspace}")
        if len(json.loads(text)["shards"]) > len(shards):
            return
        time.sleep(0.1)
    raise AssertionError(f"it is not cut: {text}")


def at_once(cluster, keyspace="begun"):
    """Many at a time: a value that moves is always in one place, a seat is taken once, of two that
    are on duty one stays, and accounts hold what they held together."""
    stop, failed = time.monotonic() + SECONDS, []
    taken, counts = [], {"moved": 0, "left": 0, "paid": 0, "nil": 0}
    setup = Session(cluster.nodes[0], keyspace)
    setup("SET", "token:0", "T")
    setup("MSET", "duty:a", "1", "duty:z", "1")
    accounts = [f"{side}:account:{number}" for side in "az" for number in range(3)]
    setup("MSET", *(part for name in accounts for part in (name, "100")))

    def until_the_end(number, each):
        draw = random.Random(number)
        mine = Session(cluster.nodes[number % 3], keyspace)
        try:
            while time.monotonic() < stop:
                each(draw, mine)
        except BaseException as error:  # noqa: BLE001 - told to who waits
            failed.append(f"{each.__name__}: {error!r}")

    def move(draw, mine):
        source, target = draw.sample(range(6), 2)
        said = mine("RENAME", f"token:{source}", f"token:{target}")
        assert not isinstance(said, Error) or said.startswith(("ERR no such key", "BUSY", "TRYAGAIN")), said
        counts["moved"] += said == b"OK"

    def sit(draw, mine):
        seat = draw.randrange(3_000)
        mine("BEGIN")
        if mine("RANGE", f"[seat:{seat:04}:", f"[seat:{seat:04}:~", "LIMIT", "1") == []:
            name = f"{threading.get_ident()}:{draw.random()}"
            mine("SET", f"seat:{seat:04}:{draw.randrange(1_000_000):06}", name)
            if mine.committed():
                taken.append(seat)
        else:
            mine("ROLLBACK")

    def leave(draw, mine):
        me = draw.choice(("duty:a", "duty:z"))
        mine("BEGIN")
        both = mine("MGET", "duty:a", "duty:z")
        if both == [b"1", b"1"]:
            mine("SET", me, "0")
        elif mine("GET", me) == b"0":
            mine("SET", me, "1")
        counts["left"] += mine.committed()

    def pay(draw, mine):
        pair = draw.sample(accounts, 2)
        amount = draw.randrange(1, 4)
        said, (one, other) = mine.link.pipeline([("WATCH", *pair), ("MGET", *pair)])
        same(b"OK", said)
        said = mine.link.pipeline([("MULTI",), ("SET", pair[0], int(one) - amount),
                                   ("SET", pair[1], int(other) + amount), ("EXEC",)])
        if isinstance(said[3], Error):
            assert said[3].startswith(("BUSY", "TRYAGAIN", "CLUSTERDOWN")), said
            return
        same([b"OK", b"QUEUED", b"QUEUED"], said[:3])
        counts["paid" if said[3] else "nil"] += 1
        assert said[3] in (None, [b"OK", b"OK"]), said

    def add_up(_, mine):
        same(100 * len(accounts), sum(map(int, mine("MGET", *accounts))))

    def look(_, mine):
        mine("BEGIN")
        both = mine("MGET", "duty:a", "duty:z")
        tokens = mine("RANGE", "[token:", "[token:~")
        if mine.committed():
            assert both != [b"0", b"0"], "nobody was on duty"
            same(1, len(tokens))

    each = [move, move, sit, sit, sit, leave, leave, look, look, pay, pay, pay, pay, add_up]
    threads = [threading.Thread(target=until_the_end, args=pair) for pair in enumerate(each)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS + 30)
    same([], failed)
    same(len(set(taken)), len(taken))
    there = setup("RANGE", "[seat:", "[seat:~")
    same(sorted(set(taken)), [int(name[5:9]) for name in there])
    assert min(len(taken), *counts.values()) > 3, (len(taken), counts)
    print(f"  {len(taken)} seats, {counts}", flush=True)
