"""What one writer did, and what may therefore be found after a crash.

All writes to a key go over one connection, in order. So after a crash the key holds its last
acknowledged value, or that of any of the writes sent after it: the value after some prefix of the
unanswered ones. Anything else is lost or invented.
"""

import random
from collections import deque
from dataclasses import dataclass

VALUE_BYTES_MAX = 3000
RECENT_KEYS = 200


@dataclass
class Write:
    """A command, its key, and the key's value after it."""

    command: tuple
    key: str
    after: bytes
    reply: object


class Model:
    """A writer's keys. `certain` holds the acknowledged values, `unanswered` the rest."""

    def __init__(self, keyspace, name, seed):
        self.keyspace, self.name = keyspace, name
        self.random = random.Random(seed)
        self.certain = {}
        self.expected = {}
        self.unanswered = {}
        self.recent = deque(maxlen=RECENT_KEYS)
        self.sequence = 0
        self.acknowledged = 0
        self.trouble = None

    def next(self):
        """The next write, which is about to be sent: its command and what must be answered."""
        write = self.choose()
        self.expected[write.key] = write.after
        self.unanswered.setdefault(write.key, deque()).append(write.after)
        return write

    def choose(self):
        """A random write."""
        self.sequence += 1
        kind = self.random.random()
        if kind < 0.3:
            key = f"counter:{self.name}"
            value = int(self.expected.get(key) or 0) + 1
            return Write(("INCR", key), key, b"%d" % value, value)
        if kind < 0.7 or not self.recent:
            key = f"new:{self.name}:{self.sequence}"
            self.recent.append(key)
            return self.set(key)
        key = self.random.choice(self.recent)
        old = self.expected.get(key)
        if kind < 0.8:
            return self.set(key)
        if kind < 0.9:
            more = b"+%d" % self.sequence
            value = (old or b"") + more
            return Write(("APPEND", key, more), key, value, len(value))
        return Write(("DEL", key), key, None, 0 if old is None else 1)

    def set(self, key):
        """A SET with a value that no other client writes."""
        size = self.random.choice([0, 10, 100, 100, self.random.randint(0, VALUE_BYTES_MAX)])
        value = b"%s:%d:" % (self.name.encode(), self.sequence) + b"v" * size
        return Write(("SET", key, value), key, value, b"OK")

    def answered(self, write, reply):
        """The server answered: from now on the write must be found."""
        assert reply == write.reply, f"{write.command[:2]}: {reply!r}, expected {write.reply!r}"
        waiting = self.unanswered[write.key]
        self.certain[write.key] = waiting.popleft()
        if not waiting:
            del self.unanswered[write.key]
        self.acknowledged += 1

    def keys(self):
        """All keys ever written."""
        return self.certain.keys() | self.unanswered.keys()

    def live(self):
        """How many keys exist (after every key was found)."""
        return sum(value is not None for value in self.certain.values())

    def flushed(self):
        """Nothing exists any more, and every write so far is answered."""
        self.certain.clear()
        self.expected.clear()
        self.recent.clear()

    def found(self, key, value):
        """After a crash: the value must be possible, and is certain from now on."""
        acknowledged = self.certain.get(key)
        possible = [acknowledged, *self.unanswered.get(key, ())]
        assert value in possible, (
            f"keyspace {self.keyspace} {key}: found {shorten(value)}, acknowledged "
            f"{shorten(acknowledged)}, then sent {[shorten(v) for v in possible[1:6]]}"
        )
        self.certain[key] = self.expected[key] = value
        self.unanswered.pop(key, None)


def shorten(value):
    """A value for a human."""
    return value if value is None else value[:40]
