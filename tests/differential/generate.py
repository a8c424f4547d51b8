"""Random streams of commands: mostly valid, often at the edges, sometimes plain wrong.

Keys come from a small pool, so that commands meet each other's results. Expiries lie far ahead or in the past,
never so near that they could pass while a stream runs, and far enough apart that the moment at
which a command arrives cannot decide a GT or LT.
"""

import random
import time

from play import Op

PLAIN_KEYS = ["a", "b", "key:1", "key:2", "key:3", "", "k\x00\xff\r\n".encode("latin-1"), "K"]
# A library with one function.
LIBRARY = "#!lua name=lib\nredis.register_function('get', function(k) return redis.call('GET', k[1]) end)"
TAGGED_KEYS = ["{t}1", "{t}2", "{t}3", "x{t}", "{t}"]
LCS_KEYS = ["{l}1", "{l}2", "{l}3"]
INTEGERS = [
    "0", "1", "-1", "7", "10", "100", "12345", "-999", "9999", "10000",
    "9223372036854775807", "-9223372036854775808", "9223372036854775806",
    "9223372036854775808", "-9223372036854775809", "2147483648", "4294967296",
]
NOT_INTEGERS = [
    "", " 1", "1 ", "+1", "01", "-0", "0x10", "1e3", "1.0", "abc", "--1", "1\x00", "१",
    "99999999999999999999999",
]
FLOATS = [
    "0", "1", "-1.5", "3.14", "0.1", "0.2", "1e3", "-2.5e-3", "5.0e3", "1000000", "10.50", ".5",
    "5.", "1e17", "0.00001", "123456.789", "-0.1", "1e-10",
]
NOT_FLOATS = ["", "abc", "nan", "inf", "-inf", "infinity", " 1.5", "1.5 ", "1,5", "1e", "0x1p3",
              "1e400", "1.5abc"]
PATTERNS = [
    "*", "?", "a*", "key:*", "key:?", "key:[12]", "key:[^1]", "key:[1-2]", "*1", "k*", "\\*", "",
    "[a", "[^", "a\\", "{t}*", "*\x00*", "[b-a]", "**", "*?*", "key:[3-1]", "K", "nothing*",
]
JUNK = ["", "foo", "NX", "XX", "GET", "EX", "10", "-1", "0", "abc def", "*", "\r\n", "é"]
NOT_KNOWN = ["FOO", "GETT", "SETT", "", " ", "get2", "HELP", "\r\n", "x" * 200, "'q'", "POST1"]


class Generator:
    """A stream's operations, from a seed."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.now_ms = int(time.time() * 1000)
        self.connections = self.random.choice([1, 1, 2, 3])
        self.key_pool = PLAIN_KEYS + TAGGED_KEYS + [f"n:{i}" for i in range(self.random.choice([2, 8, 40]))]

    def stream(self, count):
        """About `count` commands, then a look at all that is left."""
        ops = []
        if self.random.random() < 0.5:
            for each in range(self.connections):
                ops.append(Op([("HELLO", "3")], each))
        makers, weights = zip(*[(getattr(self, name), weight) for name, weight in MAKERS])
        while len(ops) < count:
            made = self.random.choices(makers, weights)[0]()
            if made is None:
                continue
            op = made if isinstance(made, Op) else Op([made])
            op.commands = [self.case(c) for c in op.commands]
            op.connection = self.random.randrange(self.connections)
            ops.append(op)
        return ops + self.epilogue()

    def epilogue(self):
        """Everything a client can see of databases 0 and 1."""
        ops = []
        for number in ("0", "1"):
            ops.append(Op([("SELECT", number)]))
            ops.append(Op([("KEYS", "*")]))
            for key in self.key_pool + LCS_KEYS:
                ops.append(Op([("GET", key), ("PTTL", key), ("TYPE", key)]))
            ops.append(Op([("DBSIZE",)]))
        return ops

    def case(self, command):
        """The command's name in upper, lower or mixed case."""
        name = command[0]
        if isinstance(name, str) and name and self.random.random() < 0.3:
            name = self.random.choice([name.lower(), name.title(), name.swapcase()])
        return (name, *command[1:])

    # Arguments.

    def pick(self, options):
        """One of these."""
        return self.random.choice(options)

    def maybe(self, share):
        """True with this probability."""
        return self.random.random() < share

    def key(self):
        """A key of the pool."""
        return self.pick(self.key_pool)

    def keys(self, most=5):
        """A few keys, with repeats."""
        return [self.key() for _ in range(self.random.randint(1, most))]

    def tagged(self):
        """A key with the common hash tag."""
        return self.pick(TAGGED_KEYS)

    def value(self):
        """A value: number, text, binary, empty, long."""
        kind = self.random.random()
        if kind < 0.35:
            return self.pick(INTEGERS)
        if kind < 0.5:
            return self.pick(FLOATS)
        if kind < 0.6:
            return self.pick(NOT_INTEGERS)
        if kind < 0.65:
            return ""
        if kind < 0.8:
            return self.random.randbytes(self.random.randint(1, 60))
        if kind < 0.95:
            return "".join(self.pick("abcde") for _ in range(self.random.choice([3, 43, 44, 45])))
        return self.random.randbytes(self.random.choice([200, 4096, 20000]))

    def integer(self):
        """An integer argument, right or wrong."""
        if self.maybe(0.6):
            return str(self.random.randint(-100, 100))
        return self.pick(INTEGERS + INTEGERS + NOT_INTEGERS)

    def float(self):
        """A float argument, right or wrong."""
        return self.pick(FLOATS * 3 + NOT_FLOATS + INTEGERS[:6])

    def seconds(self):
        """A time from now: far ahead, or not positive, or wrong. (text, whether it is ahead)"""
        kind = self.random.random()
        if kind < 0.75:
            return str(self.random.randint(1_000, 10_000_000)), True
        if kind < 0.9:
            return self.pick(["0", "-1", "-100", "-9223372036854775808"]), False
        return self.pick(["9223372036854775807", "9223372036854775", "abc", "1.5", ""]), False

    def time_of(self, option):
        """A time as EX, PX, EXAT or PXAT take it: (text, whether it lies in the past)."""
        text, ahead = self.seconds()
        if not ahead and option in ("EXAT", "PXAT") and self.maybe(0.6):
            return self.pick(["1", "1000", "1600000000"]), True
        if not ahead:
            return text, False
        number = int(text)
        if option == "EX":
            return text, False
        if option == "PX":
            return str(number * 1000 + self.random.randint(0, 999)), False
        at_ms = self.now_ms + number * 1000
        return str(at_ms if option == "PXAT" else at_ms // 1000), False

    def looked_at(self, command, key, past):
        """The command; after an expiry in the past, a look that makes Redis drop the key now."""
        return Op([command, ("EXISTS", key)]) if past else command

    # Strings.

    def set(self):
        """SET with options that fit, clash, or are wrong."""
        key, past = self.key(), False
        parts = ["SET", key, self.value()]
        options = []
        if self.maybe(0.35):
            option = self.pick(["EX", "PX", "EXAT", "PXAT"])
            text, past = self.time_of(option)
            options.append([option, text])
        if self.maybe(0.2):
            options.append(["KEEPTTL"])
        if self.maybe(0.3):
            options.append([self.pick(["NX", "XX"])])
        if self.maybe(0.25):
            options.append(["GET"])
        if self.maybe(0.04):
            options.append([self.pick(["NX", "XX", "FOO", "EX", "PX", "PERSIST", "10", ""])])
        self.random.shuffle(options)
        for option in options:
            name = option[0].lower() if self.maybe(0.3) else option[0]
            parts += [name, *option[1:]]
        return self.looked_at(tuple(parts), key, past)

    def set_variant(self):
        """SETNX, GETSET, SETEX, PSETEX."""
        name = self.pick(["SETNX", "GETSET", "SETEX", "PSETEX"])
        if name in ("SETNX", "GETSET"):
            return (name, self.key(), self.value())
        text, _ = self.time_of("EX" if name == "SETEX" else "PX")
        return (name, self.key(), text, self.value())

    def get(self):
        """GET, STRLEN, GETDEL."""
        return (self.pick(["GET", "GET", "GET", "STRLEN", "GETDEL"]), self.key())

    def getex(self):
        """GETEX."""
        key, past = self.key(), False
        parts = ["GETEX", key]
        if self.maybe(0.8):
            option = self.pick(["EX", "PX", "EXAT", "PXAT", "PERSIST", "PERSIST"])
            parts.append(option)
            if option != "PERSIST":
                text, past = self.time_of(option)
                parts.append(text)
        if self.maybe(0.08):
            parts.append(self.pick(["PERSIST", "KEEPTTL", "EX", "NX", "FOO"]))
        return self.looked_at(tuple(parts), key, past)

    def many(self):
        """MGET, MSET, MSETNX."""
        name = self.pick(["MGET", "MGET", "MSET", "MSET", "MSETNX"])
        if name == "MGET":
            return (name, *self.keys(8))
        pairs = []
        for _ in range(self.random.randint(1, 5)):
            pairs += [self.key(), self.value()]
        if self.maybe(0.08):
            pairs.pop()
        return (name, *pairs)

    def range(self):
        """GETRANGE, SUBSTR."""
        return (self.pick(["GETRANGE", "SUBSTR"]), self.key(), self.integer(), self.integer())

    def setrange(self):
        """SETRANGE, also with offsets that are refused."""
        kind = self.random.random()
        if kind < 0.8:
            offset = str(self.random.choice([0, 1, 5, 40, 1000, 9000]))
        else:
            offset = self.pick(["-1", "536870912", "9223372036854775807", "abc", "", "1.0"])
        value = self.pick(["", "x", "hello", self.random.randbytes(20)])
        return ("SETRANGE", self.key(), offset, value)

    def append(self):
        """APPEND."""
        return ("APPEND", self.key(), self.value())

    def counter(self):
        """INCR, DECR, INCRBY, DECRBY, INCRBYFLOAT."""
        name = self.pick(["INCR", "DECR", "INCRBY", "DECRBY", "INCRBYFLOAT"])
        if name in ("INCR", "DECR"):
            return (name, self.key())
        return (name, self.key(), self.float() if name == "INCRBYFLOAT" else self.integer())

    def lcs(self):
        """LCS, with short values of its own."""
        if self.maybe(0.4):
            text = "".join(self.pick("abc") for _ in range(self.random.randint(0, 40)))
            return ("SET", self.pick(LCS_KEYS), text)
        parts = ["LCS", self.pick(LCS_KEYS), self.pick(LCS_KEYS + ["{l}none"])]
        for option in ("LEN", "IDX", "WITHMATCHLEN"):
            if self.maybe(0.4):
                parts.append(option)
        if self.maybe(0.4):
            parts += ["MINMATCHLEN", self.pick(["0", "1", "2", "5", "-1", "abc"])]
        if self.maybe(0.05):
            parts.append(self.pick(["FOO", "MINMATCHLEN", "LEN"]))
        return tuple(parts)

    # Keys of any type.

    def delete(self):
        """DEL, UNLINK, EXISTS, TOUCH."""
        return (self.pick(["DEL", "UNLINK", "EXISTS", "EXISTS", "TOUCH"]), *self.keys())

    def look(self):
        """TYPE, the TTL family, PERSIST, OBJECT."""
        name = self.pick(["TYPE", "TTL", "PTTL", "EXPIRETIME", "PEXPIRETIME", "PERSIST", "OBJECT"])
        if name == "OBJECT":
            what = self.pick(["ENCODING", "encoding", "REFCOUNT", "IDLETIME", "FREQ", "FOO"])
            return (name, what, self.key())
        return (name, self.key())

    def expire(self):
        """The EXPIRE family."""
        name = self.pick(["EXPIRE", "PEXPIRE", "EXPIREAT", "PEXPIREAT"])
        option = {"EXPIRE": "EX", "PEXPIRE": "PX", "EXPIREAT": "EXAT", "PEXPIREAT": "PXAT"}[name]
        text, _ = self.time_of(option)
        parts = [name, self.key(), text]
        if self.maybe(0.4):
            parts.append(self.pick(["NX", "XX", "GT", "LT", "gt", "lt"]))
        if self.maybe(0.06):
            parts.append(self.pick(["NX", "XX", "GT", "LT", "FOO", ""]))
        return tuple(parts)

    def transfer(self):
        """MOVE, COPY to another database, and SWAPDB."""
        if self.maybe(0.1):
            return ("SWAPDB", self.database(), self.database())
        if self.maybe(0.5):
            return ("MOVE", self.key(), self.database())
        parts = ["COPY", self.key(), self.key(), self.pick(["DB", "db"]), self.database()]
        if self.maybe(0.4):
            parts.append(self.pick(["REPLACE", "replace", "FOO"]))
        return tuple(parts)

    def rename(self):
        """RENAME, RENAMENX, COPY."""
        name = self.pick(["RENAME", "RENAMENX", "COPY"])
        parts = [name, self.key(), self.key()]
        if name == "COPY" and self.maybe(0.4):
            parts.append(self.pick(["REPLACE", "REPLACE", "replace", "FOO"]))
        return tuple(parts)

    def database(self):
        """The number of a database."""
        return self.pick(["0", "1", "1", "15", "16", "x"])

    def transaction(self):
        """MULTI to EXEC or DISCARD; some keys watched and changed."""
        commands = []
        pool = self.key_pool
        # Half of them on keys of one hash tag.
        self.key_pool = TAGGED_KEYS if self.maybe(0.5) else pool
        if self.maybe(0.4):
            commands.append(("WATCH", self.key(), self.key()))
            if self.maybe(0.5):
                commands.append(("SET", self.key(), self.value()))
            if self.maybe(0.1):
                commands.append(("UNWATCH",))
        commands.append(("MULTI",))
        makers = [self.set, self.set_variant, self.get, self.many, self.range,
                  self.setrange, self.append, self.counter, self.delete, self.expire, self.rename]
        late = self.maybe(0.3)
        if not late and self.maybe(0.2):
            makers.append(self.transfer)
        # What looks through the keyspace, or concerns the connection, stands anywhere among the others.
        one = self.pick(TAGGED_KEYS)
        if late:
            makers.append(self.lcs)
        asks = [("DBSIZE",), ("KEYS", one), ("CLIENT", "SETNAME", self.pick(["me", "you", ""])),
                ("CLIENT", "GETNAME"), ("MEMORY", "USAGE", "{none}"), ("GET", one),
                ("EVAL", "return redis.call('GET', KEYS[1])", "1", one), ("SCRIPT", "KILL"),
                ("FUNCTION", "LOAD", "REPLACE", LIBRARY), ("FUNCTION", "DELETE", "lib"), ("FUNCTION", "LIST"),
                ("FCALL", "get", "1", one), ("SCRIPT", "EXISTS", "0" * 40)]
        for _ in range(self.random.randint(0, 6)):
            made = self.pick(makers)()
            made = made.commands if isinstance(made, Op) else [made]
            # Rules are for replies as a whole, and there is one for this.
            commands += [command for command in made if command[0] != "INCRBYFLOAT"]
            if late and self.maybe(0.5):
                commands.append(self.pick(asks))
        if late:
            commands += [self.pick(asks) for _ in range(self.random.randint(1, 4))]
        self.key_pool = pool
        if self.maybe(0.2):
            wrong = [("WATCH", "{t}1"), ("MULTI",), ("GET",), ("NOSUCH", "x"), ("PING",)]
            commands.append(self.pick(wrong))
        commands.append(self.pick([("EXEC",), ("EXEC",), ("EXEC",), ("EXEC",), ("DISCARD",)]))
        if self.maybe(0.1):
            commands.append(self.pick([("EXEC",), ("DISCARD",), ("EXEC", "now")]))
        return Op(commands)

    def begun(self):
        """Commands between BEGIN and COMMIT."""
        makers = [self.set, self.set_variant, self.get, self.getex, self.many, self.range, self.setrange,
                  self.append, self.counter, self.lcs, self.delete, self.look, self.expire, self.rename]
        commands = []
        for _ in range(self.random.randint(1, 12)):
            made = self.pick(makers)()
            commands += made.commands if isinstance(made, Op) else [made]
        return Op(commands, begun=True)

    def keyspace(self):
        """KEYS, SCAN to its end, RANDOMKEY, DBSIZE."""
        kind = self.random.random()
        if kind < 0.3:
            return ("KEYS", self.pick(PATTERNS))
        if kind < 0.6:
            options = []
            if self.maybe(0.5):
                options += ["MATCH", self.pick(PATTERNS)]
            if self.maybe(0.5):
                options += ["COUNT", self.pick(["1", "3", "10", "1000"])]
            if self.maybe(0.2):
                options += ["TYPE", self.pick(["string", "list", "STRING", "foo"])]
            return Op(scan=tuple(options))
        if kind < 0.75:
            return Op(random_key=True)
        if kind < 0.85:
            wrong = [("abc",), ("1x",), ("0", "COUNT", "0"), ("0", "COUNT", "x"),
                     ("0", "FOO"), ("0", "MATCH"), ("18446744073709551616",), ("0", "COUNT", "-5")]
            return ("SCAN", *self.pick(wrong))
        return ("DBSIZE",)

    # Connections and the server.

    def connection(self):
        """SELECT, ECHO, PING, HELLO, AUTH, CLIENT, RESET and others."""
        choices = [
            ("SELECT", self.pick(["0", "1", "1", "15"])),
            ("SELECT", self.pick(["16", "-1", "99999"])),
            ("ECHO", self.value()),
            ("PING",),
            ("PING", self.value()),
            ("TIME",),
            ("HELLO",),
            ("HELLO", self.pick(["2", "3"])),
            ("HELLO", self.pick(["1", "4", "abc", "", "-3"])),
            ("HELLO", self.pick(["2", "3"]), "SETNAME", self.pick(["me", "you", "a b", ""])),
            ("HELLO", self.pick(["2", "3"]), "AUTH", self.pick(["default", "foo"]), "pw"),
            ("HELLO", "3", self.pick(["FOO", "AUTH", "SETNAME", "AUTH"])),
            ("AUTH", "pw"),
            ("AUTH", self.pick(["default", "foo"]), "pw"),
            ("CLIENT", "SETNAME", self.pick(["me", "a b", "", "x\ny", "normal-name"])),
            ("CLIENT", "GETNAME"),
            ("CLIENT", "ID"),
            ("CLIENT", "INFO"),
            ("CLIENT", "LIST"),
            ("CLIENT", "NO-EVICT", self.pick(["on", "off", "foo"])),
            ("CLIENT", "FOO"),
            ("CLIENT", "SETINFO", "lib-name", "x"),
            ("CLIENT",),
            ("COMMAND", "COUNT"),
            ("COMMAND", "INFO", "get", "nosuch"),
            ("OBJECT", "HELP") if self.maybe(0.1) else ("OBJECT",),
            ("CONFIG", "GET", self.pick(["maxmemory", "save", "appendonly"])),
            ("INFO",),
            ("INFO", self.pick(["server", "keyspace", "nosuch", "all"])),
            ("RESET",),
        ]
        return self.pick(choices)

    def flush(self):
        """FLUSHDB, FLUSHALL."""
        name = self.pick(["FLUSHDB", "FLUSHDB", "FLUSHALL"])
        return (name, *self.pick([(), (), ("ASYNC",), ("SYNC",), ("FOO",), ("ASYNC", "SYNC")]))

    def reply_mode(self):
        """CLIENT REPLY SKIP and OFF: some commands without replies."""
        if self.maybe(0.5):
            skip = ("CLIENT", "REPLY", "SKIP")
            # Only a reply tells that the SET is done, before another connection goes on.
            return Op([skip, ("SET", self.key(), "1"), ("PING",)], silent=(0, 1))
        off, on = ("CLIENT", "REPLY", "OFF"), ("CLIENT", "REPLY", "ON")
        return Op([off, ("INCR", self.key()), on], silent=(0, 1))

    def arity(self):
        """A known command with too few, too many or senseless arguments."""
        name = self.pick(ARITY_NAMES)
        one_shard = name == "LCS"
        count = self.random.choice([0, 0, 1, 2, 3, 4, 5])
        if name == "LCS" and count > 1:
            return None
        if name in ("EXPIRE", "PEXPIRE", "GETEX", "SETEX", "PSETEX", "SET"):
            # "10" among the junk would be an expiry that may pass during the run.
            return (name, *[self.key() for _ in range(min(count, 2))])
        if one_shard:
            return (name, *[self.tagged() for _ in range(count)])
        return (name, *[self.pick(JUNK + [self.key()]) for _ in range(count)])

    def unknown(self):
        """Unknown commands."""
        args = [self.pick([self.value(), "x", "y" * 200]) for _ in range(self.random.randint(0, 4))]
        return (self.pick(NOT_KNOWN), *args)


ARITY_NAMES = [
    "GET", "SET", "SETNX", "SETEX", "PSETEX", "GETSET", "GETDEL", "GETEX", "MGET", "MSET",
    "MSETNX", "APPEND", "STRLEN", "GETRANGE", "SETRANGE", "SUBSTR", "INCR", "DECR", "INCRBY",
    "DECRBY", "INCRBYFLOAT", "LCS", "DEL", "UNLINK", "EXISTS", "TYPE", "TOUCH", "EXPIRE",
    "PEXPIRE", "TTL", "PTTL", "EXPIRETIME", "PEXPIRETIME", "PERSIST", "KEYS", "RANDOMKEY",
    "OBJECT", "RENAME", "RENAMENX", "COPY", "MOVE", "DBSIZE", "SELECT", "ECHO", "PING", "TIME", "RESET",
]

MAKERS = [
    ("set", 14), ("set_variant", 5), ("get", 12), ("getex", 4), ("many", 7), ("range", 4),
    ("setrange", 4), ("append", 5), ("counter", 12), ("lcs", 4), ("delete", 6), ("look", 8),
    ("expire", 8), ("rename", 5), ("transfer", 2), ("keyspace", 5), ("connection", 6), ("flush", 0.4),
    ("reply_mode", 0.7), ("arity", 4), ("unknown", 1.5), ("transaction", 5),
    ("begun", 5),
]
