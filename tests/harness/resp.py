"""RESP2 and RESP3 as bytes: encoding commands, splitting a byte stream into replies.

The parser is deliberately independent of Carillon's own: it is the second opinion. It keeps the
raw bytes of each reply, since suites compare bytes, and gives a Python value beside them.
"""

import socket
import time


class Incomplete(Exception):
    """The buffer ends within a reply."""


class ReplyError(Exception):
    """An error reply of the server, as text."""


class Closed(Exception):
    """The server closed the connection before the reply was whole."""


class Error(str):
    """An error reply as a value."""


def encode(args):
    """One command as a RESP array of bulk strings."""
    parts = [b"*%d\r\n" % len(args)]
    for arg in args:
        arg = to_bytes(arg)
        parts.append(b"$%d\r\n%s\r\n" % (len(arg), arg))
    return b"".join(parts)


def to_bytes(value):
    """Bytes of a command's argument."""
    if isinstance(value, bytes):
        return value
    return str(value).encode()


def parse(buffer, start):
    """The reply that begins at `start`: (value, end). Raises Incomplete."""
    line_end = buffer.find(b"\r\n", start)
    if line_end < 0:
        raise Incomplete
    kind = buffer[start : start + 1]
    line = bytes(buffer[start + 1 : line_end])
    end = line_end + 2
    if kind == b"+":
        return line, end
    if kind == b"-":
        return Error(line.decode("latin-1")), end
    if kind in (b":", b"("):
        return int(line), end
    if kind == b"_":
        return None, end
    if kind == b"#":
        return line == b"t", end
    if kind == b",":
        return float(line), end
    if kind in (b"$", b"=", b"!"):
        size = int(line)
        if size < 0:
            return None, end
        if len(buffer) < end + size + 2:
            raise Incomplete
        body = bytes(buffer[end : end + size])
        if buffer[end + size : end + size + 2] != b"\r\n":
            raise ValueError(f"bulk of {size} bytes is not followed by CR LF")
        value = Error(body.decode("latin-1")) if kind == b"!" else body
        return value, end + size + 2
    if kind in (b"*", b"~", b">", b"%", b"|"):
        count = int(line)
        if count < 0:
            return None, end
        items = []
        for _ in range(count * 2 if kind in (b"%", b"|") else count):
            item, end = parse(buffer, end)
            items.append(item)
        if kind == b"|":
            return parse(buffer, end)
        return items, end
    raise ValueError(f"not a reply: {bytes(buffer[start:start + 40])!r}")


class Connection:
    """One socket to a server, with a reply buffer."""

    def __init__(self, host, port, timeout_s=20.0):
        self.socket = socket.create_connection((host, port), timeout=timeout_s)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = bytearray()
        self.start = 0

    def send(self, data):
        """Sends bytes as they are."""
        self.socket.sendall(data)

    def take(self):
        """The next whole reply in the buffer as (raw, value), or None."""
        if self.start == len(self.buffer):
            return None
        try:
            value, end = parse(self.buffer, self.start)
        except Incomplete:
            return None
        raw = bytes(self.buffer[self.start : end])
        self.start = end
        if self.start > 1 << 16:
            del self.buffer[: self.start]
            self.start = 0
        return raw, value

    def feed(self, data):
        """Bytes that came from the server."""
        self.buffer += data

    def read(self):
        """Waits for the next reply: (raw, value). Raises Closed or socket.timeout."""
        while True:
            reply = self.take()
            if reply is not None:
                return reply
            data = self.socket.recv(1 << 16)
            if not data:
                raise Closed
            self.feed(data)

    def read_to_end(self):
        """All bytes until the server closes the connection, and whether it did so by a reset."""
        data = bytes(self.buffer[self.start :])
        while True:
            try:
                piece = self.socket.recv(1 << 16)
            except ConnectionResetError:
                return data, True
            if not piece:
                return data, False
            data += piece

    def call(self, *args):
        """Sends one command and returns its value; an error reply is raised."""
        self.send(encode(args))
        value = self.read()[1]
        if isinstance(value, Error):
            raise ReplyError(value)
        return value

    def pipeline(self, commands):
        """Sends all commands at once and returns their values, errors as values."""
        self.send(b"".join(encode(c) for c in commands))
        return [self.read()[1] for _ in commands]

    def close(self):
        """Closes the socket."""
        self.socket.close()


def connect_when_up(host, port, seconds=30.0):
    """A connection to a server that is just starting and answers PING with PONG."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            connection = Connection(host, port, timeout_s=5.0)
            if connection.call("PING") == b"PONG":
                connection.socket.settimeout(20.0)
                return connection
        except (OSError, ReplyError, Closed) as error:
            last = error
        if time.monotonic() > deadline:
            raise TimeoutError(f"no PONG from {host}:{port} within {seconds} s: {last}")
        time.sleep(0.02)


def quoted(arg):
    """An argument as redis-cli reads it."""
    arg = to_bytes(arg)
    plain = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.:{}*+"
    if arg and all(byte in plain for byte in arg):
        return arg.decode()
    out = []
    for byte in arg:
        char = chr(byte)
        if char in '"\\':
            out.append("\\" + char)
        elif 32 <= byte < 127:
            out.append(char)
        else:
            out.append(f"\\x{byte:02x}")
    return '"' + "".join(out) + '"'
