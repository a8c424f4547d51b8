"""Bad input on the native port: 3-byte operation, u32 key length, u32 value length (big-endian),
key, value."""

import random
import socket
import struct
import time
import urllib.error
import urllib.request


def link(server):
    """A socket to the native port."""
    return socket.create_connection((server.host, server.native), timeout=10)


def frame(op, key, value=b""):
    """A frame of the native protocol."""
    return op + struct.pack(">II", len(key), len(value)) + key + value


def receive(sock):
    """One whole frame: (operation, key, value)."""
    head = exactly(sock, 11)
    key_bytes, value_bytes = struct.unpack(">II", head[3:])
    body = exactly(sock, key_bytes + value_bytes)
    return head[:3], body[:key_bytes], body[key_bytes:]


def exactly(sock, count):
    """So many bytes."""
    data = b""
    while len(data) < count:
        piece = sock.recv(count - len(data))
        assert piece, f"closed after {len(data)} of {count} bytes"
        data += piece
    return data


def refused(server, data):
    """The server answers with an error frame, closes, or both; it never answers a success."""
    sock = link(server)
    try:
        sock.sendall(data)
        sock.shutdown(socket.SHUT_WR)
        got = sock.recv(3)
        assert got in (b"", b"GER", b"PER", b"DER"), f"answered {got!r} to {data[:40]!r}"
    except (ConnectionResetError, BrokenPipeError):
        pass
    finally:
        sock.close()


def native_serves(server):
    """The good case, so that the bad ones mean something."""
    sock = link(server)
    sock.sendall(frame(b"PUT", b"native", b"value") + frame(b"GET", b"native"))
    assert receive(sock)[0] == b"POK"
    op, _, value = receive(sock)
    assert (op, value) == (b"GOK", b"value"), (op, value)
    sock.sendall(frame(b"DEL", b"native") + frame(b"GET", b"native"))
    assert receive(sock)[0] == b"DOK"
    # An error's value is empty unless the node is configured to give reasons.
    assert exactly(sock, 17) == frame(b"GER", b"native")
    sock.close()


def native_huge_lengths(server):
    """Lengths of four gigabytes."""
    for op in (b"GET", b"PUT", b"DEL"):
        refused(server, op + b"\xff" * 8 + b"abc")
        refused(server, op + struct.pack(">II", 3, 0xFFFFFFFF) + b"abc")


def native_unknown_operation(server):
    """Operations that do not exist, and bytes of other protocols."""
    for data in (frame(b"XXX", b"a"), b"\x00" * 40, b"GET / HTTP/1.1\r\n\r\n", b"*1\r\n$4\r\nPING\r\n"):
        refused(server, data)


def native_half_frames(server):
    """Frames cut at every byte and left hanging."""
    whole = frame(b"PUT", b"native:half", b"value")
    held = []
    for cut in range(1, len(whole)):
        sock = link(server)
        sock.sendall(whole[:cut])
        held.append(sock)
    time.sleep(0.2)
    check = link(server)
    check.sendall(frame(b"GET", b"native:half"))
    assert receive(check)[0] == b"GER", "half a frame was carried out"
    for sock in [*held, check]:
        sock.close()


def native_replies_nobody_reads(server):
    """A client that only asks."""
    writer = link(server)
    writer.sendall(frame(b"PUT", b"unread", b"x" * (1 << 20)))
    assert receive(writer)[0] == b"POK"
    deaf = link(server)
    deaf.setblocking(False)
    end = time.monotonic() + 2
    while time.monotonic() < end:
        try:
            deaf.send(frame(b"GET", b"unread") * 100)
        except BlockingIOError:
            time.sleep(0.01)
        except OSError:
            break
    writer.sendall(frame(b"DEL", b"unread"))
    assert receive(writer)[0] == b"DOK"
    deaf.close()
    writer.close()


def native_garbage(server):
    """Random bytes."""
    rng = random.Random(3)
    for _ in range(200):
        sock = link(server)
        try:
            sock.sendall(rng.choice([b"GET", b"PUT", b""]) + rng.randbytes(rng.choice([1, 8, 500])))
        except OSError:
            pass
        sock.close()


def native_makes_its_keyspace(server):
    """Keyspace 0 is dropped: every protocol makes it again on use."""
    base = f"http://{server.host}:{server.http}/v1"
    sock = link(server)
    for use in ("native", "http", "read"):
        drop = urllib.request.Request(f"{base}/keyspaces/0", method="DELETE")
        assert urllib.request.urlopen(drop, timeout=10).status == 204
        if use == "native":
            sock.sendall(frame(b"PUT", b"again", b"native") * 2 + frame(b"GET", b"again"))
            got = [receive(sock) for _ in range(3)]
            assert [op for op, _, _ in got] == [b"POK", b"POK", b"GOK"], got
        elif use == "http":
            put = urllib.request.Request(f"{base}/kv/0/again", b"http", method="PUT")
            assert urllib.request.urlopen(put, timeout=10).status in (200, 201, 204)
            sock.sendall(frame(b"GET", b"again"))
            assert receive(sock) == (b"GOK", b"again", b"http")
        else:
            sock.sendall(frame(b"GET", b"again"))
            assert receive(sock)[0] == b"GER"
    sock.close()


def numbers_no_client_could_select(server):
    """A keyspace named by a number above 15 is refused, with the reason."""
    body = b'{"name": "2026"}'
    create = urllib.request.Request(
        f"http://{server.host}:{server.http}/v1/keyspaces",
        body,
        {"content-type": "application/json"},
        method="POST",
    )
    try:
        urllib.request.urlopen(create, timeout=10)
        raise AssertionError("it was created")
    except urllib.error.HTTPError as error:
        assert error.code == 400 and b"0 to 15" in error.read()


CASES = [
    (native_makes_its_keyspace, 32),
    (numbers_no_client_could_select, 16),
    (native_serves, 16),
    (native_huge_lengths, 32),
    (native_unknown_operation, 16),
    (native_half_frames, 16),
    (native_replies_nobody_reads, 800),
    (native_garbage, 32),
]
