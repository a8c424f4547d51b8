"""Conversations of several connections, which see what the others do: every byte compared."""

import select
import socket
import time

import scripts
from harness import resp

# Nothing more comes from the reference after so long.
QUIET_SECONDS = 0.08
REPLY_SECONDS_MAX = 20.0


def read(path):
    """The conversations of a file: (name, [(connection, arguments)])."""
    found = []
    for line in path.read_text().splitlines():
        if line.startswith("== "):
            found.append((line[3:], []))
        elif line and not line.startswith("#"):
            connection, command = line.split(":", 1)
            found[-1][1].append((int(connection), scripts.split(command)))
    return found


class Side:
    """One server's connections of a conversation."""

    def __init__(self, server, connections, protocol):
        self.sockets = {}
        for number in connections:
            each = socket.create_connection((server.host, server.resp))
            self.sockets[number] = each
            each.sendall(resp.encode(("HELLO", protocol)))
            received = self.receive(each, REPLY_SECONDS_MAX)
            while not received.endswith(b"\r\n") or b"modules" not in received:
                received += self.receive(each, REPLY_SECONDS_MAX)
            self.receive(each, QUIET_SECONDS)

    @staticmethod
    def receive(each, seconds):
        """What comes on a connection within this time; its end is a word of its own."""
        if not select.select([each], [], [], seconds)[0]:
            return b""
        return each.recv(1 << 20) or b"<END>"

    def until_quiet(self):
        """All that came, by connection."""
        got = {number: b"" for number in self.sockets}
        until = time.monotonic() + QUIET_SECONDS
        while time.monotonic() < until:
            for number, each in self.sockets.items():
                if not got[number].endswith(b"<END>"):
                    more = self.receive(each, 0.005)
                    got[number] += more
                    if more:
                        until = time.monotonic() + QUIET_SECONDS
        return got

    def until(self, expected):
        """As much as is expected, and what comes with it."""
        got = {number: b"" for number in self.sockets}
        until = time.monotonic() + REPLY_SECONDS_MAX
        for number, each in self.sockets.items():
            while len(got[number]) < len(expected[number]) and time.monotonic() < until:
                got[number] += self.receive(each, 0.2)
        return got

    def close(self):
        """Closes all connections."""
        for each in self.sockets.values():
            each.close()


def play(reference, target, lines, protocol):
    """Plays one conversation to both servers."""
    connections = sorted({connection for connection, _ in lines})
    sides = [Side(server, connections, protocol) for server in (reference, target)]
    try:
        for connection, args in lines:
            for side in sides:
                side.sockets[connection].sendall(resp.encode(args))
            expected = sides[0].until_quiet()
            actual = sides[1].until(expected)
            for number in connections:
                assert expected[number] == actual[number], (
                    f"after {connection}: {args}: connection {number} got "
                    f"{actual[number]!r:.600}, not {expected[number]!r:.600}"
                )
        late = sides[1].until_quiet()
        assert not any(b.replace(b"<END>", b"") for b in late.values()), f"more came: {late}"
    finally:
        for side in sides:
            side.close()
