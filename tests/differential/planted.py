"""Faults planted between the suite and a server: the suite must find each and shrink it."""

import socket
import threading
from types import SimpleNamespace

import generate
import play
from harness import resp
from rules import Rules

FAULTS = [
    ("an error text changed", b"value is not an integer", b"value is not a number"),
    ("a nil turned into an empty string", b"$-1\r\n", b"$0\r\n\r\n"),
    ("one more", b":7\r\n", b":8\r\n"),
]
# A number may be counted up to by as many.
OPS_MAX = 8


def check(reference, target, report):
    """Each fault is found within a few seeds, and shrunk to a few operations."""
    for name, old, new in FAULTS:
        report.run(f"finds planted: {name}", find, reference, target, old, new)


def find(reference, target, old, new):
    """Plays streams through a faulty proxy until one fails; shrinks it."""
    proxy = Proxy(target.resp, old, new)
    faulty = SimpleNamespace(is_carillon=False, connect=lambda: resp.Connection("127.0.0.1", proxy.port))
    player = play.Player(reference, faulty, Rules())

    def fails(ops):
        try:
            player.play(ops, seed)
        except play.Difference:
            return True
        return False

    try:
        for seed in range(50):
            ops = generate.Generator(seed).stream(200)
            if fails(ops):
                small = play.shrink(ops, fails)
                assert len(small) <= OPS_MAX, f"shrunk only to {len(small)} operations"
                return
        raise AssertionError("not found in 50 streams")
    finally:
        proxy.close()


class Proxy:
    """Passes bytes on, and replaces some in what the server says."""

    def __init__(self, port, old, new):
        self.server_port, self.old, self.new = port, old, new
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        """Takes connections until the listener is closed."""
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self.server_port))
            threading.Thread(target=pump, args=(client, server), daemon=True).start()
            change = (self.old, self.new)
            threading.Thread(target=pump, args=(server, client, change), daemon=True).start()

    def close(self):
        """Takes no more connections."""
        self.listener.close()


def pump(source, sink, change=None):
    """Copies until either end closes."""
    try:
        while data := source.recv(1 << 16):
            sink.sendall(data.replace(*change) if change else data)
    except OSError:
        pass
    for each in (source, sink):
        try:
            each.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        each.close()
