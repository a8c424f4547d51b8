"""A small client of a volume: simple replies of the network block device protocol."""

import socket
import struct

OPTION = 0x49484156454F5054
REQUEST = 0x25609513
EPERM = 1


class Disk:
    """A connection to an export."""

    def __init__(self, port, export):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=20)
        self.take(18)
        name = export.encode()
        data = struct.pack(">I", len(name)) + name + struct.pack(">H", 0)
        self.socket.sendall(struct.pack(">IQII", 3, OPTION, 7, len(data)) + data)
        kind = 3
        while kind == 3:
            _, _, kind, length = struct.unpack(">QIII", self.take(20))
            said = self.take(length)
        assert kind == 1, (export, kind, said)

    def take(self, count):
        """So many bytes."""
        data = b""
        while len(data) < count:
            piece = self.socket.recv(count - len(data))
            assert piece, "the node has closed the connection"
            data += piece
        return data

    def ask(self, kind, offset, length, data=b""):
        """The error of a request, 0 if it was done."""
        head = struct.pack(">IHHQQI", REQUEST, 0, kind, 7, offset, length)
        self.socket.sendall(head + data)
        _, error, _ = struct.unpack(">IIQ", self.take(16))
        return error

    def write(self, offset, data):
        """Writes whole blocks."""
        return self.ask(1, offset, len(data), data)

    def trim(self, offset, length):
        """Makes blocks zeroes."""
        return self.ask(4, offset, length)

    def close(self):
        """Goes."""
        self.socket.close()
