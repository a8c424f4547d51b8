"""Playing one stream of operations to two servers and comparing every reply.

A stream is a list of `Op`. Operations go out pipelined, cut into random pieces that pay no heed
to where commands end; both servers get the same pieces. Replies are compared as they come.
"""

import random
import select
import socket
import time
from dataclasses import dataclass, field

from harness import resp

BATCH_BYTES_MAX = 48 << 10
REPLY_SECONDS_MAX = 20.0


@dataclass
class Op:
    """What one client does next.

    `commands` go out together (the shrinker never parts them). A command with no reply (CLIENT
    REPLY SKIP and the one after it) is marked in `silent`. `scan` iterates SCAN to its end with
    these options and compares the keys found; `random_key` checks that RANDOMKEY's key exists.
    What is `begun` stands between BEGIN and COMMIT, where the target knows them.
    """

    commands: list = field(default_factory=list)
    connection: int = 0
    silent: tuple = ()
    scan: tuple = None
    random_key: bool = False
    begun: bool = False

    def lines(self):
        """The operation as redis-cli lines."""
        if self.scan is not None:
            return [" ".join(["SCAN 0"] + [resp.quoted(a) for a in self.scan]) + "  # to the end"]
        if self.random_key:
            return ["RANDOMKEY"]
        lines = [" ".join(resp.quoted(a) for a in command) for command in self.commands]
        return ["BEGIN", *lines, "COMMIT"] if self.begun else lines


class Difference(Exception):
    """A reply that is not as it should be."""

    def __init__(self, op, args, why, expected, actual):
        self.op = op
        self.args_text = " ".join(resp.quoted(a) for a in args)
        self.why, self.expected, self.actual = why, expected, actual
        super().__init__(f"{self.args_text}: {why}")

    def report(self):
        """Both replies, cut to a readable length."""
        return (
            f"  {self.args_text[:400]}\n  {self.why}\n"
            f"    redis:  {shorten(self.expected)}\n    target: {shorten(self.actual)}"
        )


def shorten(raw):
    """Bytes for a human."""
    text = repr(raw)
    return text if len(text) <= 400 else f"{text[:200]} … {text[-120:]} ({len(raw)} bytes)"


class Player:
    """Two servers and the rules by which their replies are compared."""

    def __init__(self, reference, target, rules):
        self.servers = (reference, target)
        self.rules = rules

    def play(self, ops, seed, scripted=False):
        """Plays a stream on empty servers. Raises Difference at the first reply that differs.

        Returns the number of commands compared.
        """
        self.random = random.Random(seed)
        self.scripted = scripted
        self.count = 0
        self.pairs = {}
        try:
            for connection in (self.pair(0)):
                connection.call("FLUSHALL")
            batch, size = [], 0
            for op in ops:
                alone = op.scan is not None or op.random_key or op.begun
                if batch and (alone or op.connection != batch[0].connection):
                    self.exchange(batch)
                    batch, size = [], 0
                if op.scan is not None:
                    self.scan(op)
                elif op.random_key:
                    self.random_key(op)
                elif op.begun:
                    self.begun(op)
                else:
                    batch.append(op)
                    size += sum(len(resp.to_bytes(a)) + 8 for c in op.commands for a in c)
                    if size > BATCH_BYTES_MAX or self.random.random() < 0.03:
                        self.exchange(batch)
                        batch, size = [], 0
            if batch:
                self.exchange(batch)
        finally:
            for pair in self.pairs.values():
                for connection in pair:
                    connection.close()
        return self.count

    def pair(self, index):
        """The connections number `index` to both servers."""
        if index not in self.pairs:
            self.pairs[index] = [server.connect() for server in self.servers]
        return self.pairs[index]

    def exchange(self, batch):
        """Sends a batch to both servers in the same pieces; compares the replies."""
        pair = self.pair(batch[0].connection)
        data = b"".join(resp.encode(c) for op in batch for c in op.commands)
        awaited = [
            (op, args)
            for op in batch
            for place, args in enumerate(op.commands)
            if place not in op.silent
        ]
        pieces = self.cut(data)
        replies = [transfer(connection, pieces, len(awaited)) for connection in pair]
        for place, (op, args) in enumerate(awaited):
            got = [r[place] if place < len(r) else None for r in replies]
            self.compare(op, args, *got)
        for name, got in zip(("redis", "the target"), replies):
            if len(got) > len(awaited):
                extra = got[len(awaited)][0]
                raise Difference(batch[-1], (), f"one reply too many from {name}", b"", extra)

    def begun(self, op):
        """The same commands by themselves, and in a transaction that is gone through."""
        around = [self.servers[1].is_carillon and [word] or [] for word in (("BEGIN",), ("COMMIT",))]
        replies = []
        for connection, (before, after) in zip(self.pair(op.connection), ([[], []], around)):
            commands = before + op.commands + after
            pieces = self.cut(b"".join(resp.encode(c) for c in commands))
            got = transfer(connection, pieces, len(commands))
            for end in (0, -1) if before else ():
                if len(got) < len(commands) or got[end][0] != b"+OK\r\n":
                    raise Difference(op, commands[end], "it is not done", b"", repr(got[end:]).encode())
            replies.append(got[len(before) : len(got) - len(after)])
        for place, args in enumerate(op.commands):
            self.compare(op, args, *[r[place] if place < len(r) else None for r in replies])

    def cut(self, data):
        """Random pieces: most batches whole, some in a few cuts, some nearly byte by byte."""
        style = self.random.random()
        if style < 0.4:
            return [data]
        pieces, start = [], 0
        mean = len(data) / 4 + 1 if style < 0.9 else 24
        while start < len(data):
            if len(pieces) > 60:
                pieces.append(data[start:])
                break
            size = 1 + int(self.random.expovariate(1 / mean))
            pieces.append(data[start : start + size])
            start += size
        return pieces

    def compare(self, op, args, expected, actual):
        """Compares one reply of each; None is a reply that never came."""
        self.count += 1
        if expected is None and actual is None:
            return
        if expected is None or actual is None:
            missing = "the target" if actual is None else "redis"
            shown = [r[0] if r else b"" for r in (expected, actual)]
            raise Difference(op, args, f"no reply from {missing}", *shown)
        why = self.rules.differ(args, expected, actual, self.scripted)
        if why:
            raise Difference(op, args, why, expected[0], actual[0])

    def scan(self, op):
        """Iterates SCAN to its end on both; compares the sets of keys."""
        found = []
        for connection in self.pair(op.connection):
            keys, cursor, turns = set(), b"0", 0
            while True:
                try:
                    cursor, part = connection.call("SCAN", cursor, *op.scan)
                except resp.ReplyError as error:
                    keys = str(error)
                    break
                keys.update(part)
                turns += 1
                assert turns < 100_000, "SCAN does not come to an end"
                if cursor == b"0":
                    break
            found.append(keys)
        self.count += 1
        if found[0] != found[1]:
            texts = [repr(sorted(f) if isinstance(f, set) else f).encode() for f in found]
            raise Difference(op, ("SCAN", "0", *op.scan), "the keys differ", *texts)

    def random_key(self, op):
        """RANDOMKEY: nil on both or on neither; the key exists."""
        got = []
        for connection in self.pair(op.connection):
            key = connection.call("RANDOMKEY")
            got.append(key)
            if key is not None and connection.call("EXISTS", key) != 1:
                raise Difference(op, ("RANDOMKEY",), "a key that does not exist", b"", key)
        self.count += 1
        if (got[0] is None) != (got[1] is None):
            raise Difference(op, ("RANDOMKEY",), "nil on one", *(repr(g).encode() for g in got))


def transfer(connection, pieces, awaited):
    """Sends pieces while reading, until so many replies have come: a list of (raw, value).

    The list is shorter if the server closed the connection or fell silent.
    """
    replies = []
    unsent = list(pieces)
    sock = connection.socket
    deadline = time.monotonic() + REPLY_SECONDS_MAX
    while len(replies) < awaited or unsent:
        wait = max(0.0, deadline - time.monotonic())
        readable, writable, _ = select.select([sock], [sock] if unsent else [], [], wait)
        if not readable and not writable:
            break
        try:
            if writable:
                sent = sock.send(unsent[0], socket.MSG_DONTWAIT)
                unsent[0] = unsent[0][sent:]
                if not unsent[0]:
                    unsent.pop(0)
            if readable:
                data = sock.recv(1 << 18)
                if not data:
                    break
                connection.feed(data)
        except BlockingIOError:
            continue
        except OSError:
            break
        while (reply := connection.take()) is not None:
            replies.append(reply)
    return replies


def shrink(ops, fails, seconds_max=60.0):
    """A minimal list of operations for which `fails(ops)` still holds (ddmin)."""
    deadline = time.monotonic() + seconds_max
    parts = 2
    while len(ops) >= 2 and time.monotonic() < deadline:
        size = max(1, len(ops) // parts)
        for start in range(0, len(ops), size):
            rest = ops[:start] + ops[start + size :]
            if rest and fails(rest):
                ops, parts = rest, max(2, parts - 1)
                break
        else:
            if size == 1:
                break
            parts = min(len(ops), parts * 2)
    return ops
