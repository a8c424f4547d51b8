"""Bad input on the RESP port. Each case is a function and the MiB its server may grow by."""

import random
import select
import socket
import time

from harness import resp

KEY_BYTES_MAX = 64 << 10
VALUE_BYTES_MAX = 64 << 20
IDLE_CONNECTIONS = 10_000
# One connection's unread replies: Carillon's output_bytes_max is 256 MiB; a buffer that grows by
# doubling holds it up to three times over for a moment.
UNREAD_MIB_MAX = 800


def ends_with_error(server, data, seconds=5.0):
    """Sends bytes; the server must answer with an error, close the connection, or both."""
    connection = server.connect(timeout_s=seconds)
    try:
        connection.send(data)
        _, value = connection.read()
        assert isinstance(value, resp.Error), f"answered {value!r:.200} to {data[:60]!r}"
    except (resp.Closed, ConnectionResetError, BrokenPipeError):
        pass
    finally:
        connection.close()


def huge_declared_bulk(server):
    """An absurd bulk length."""
    for length in (b"536870913", b"99999999999", b"9223372036854775807", b"9" * 30):
        ends_with_error(server, b"*2\r\n$3\r\nGET\r\n$" + length + b"\r\n")


def huge_declared_array(server):
    """An absurd array length."""
    for length in (b"2147483648", b"99999999999", b"9" * 30):
        ends_with_error(server, b"*" + length + b"\r\n")


def allowed_lengths_never_filled(server):
    """Lengths that are allowed, declared on many connections, and nothing after them."""
    held = []
    for index in range(200):
        connection = server.connect()
        if index % 2:
            connection.send(b"*1000000\r\n")
        else:
            connection.send(b"*3\r\n$3\r\nSET\r\n$1\r\nx\r\n$%d\r\nabc" % VALUE_BYTES_MAX)
        held.append(connection)
    time.sleep(0.5)
    close_all(held)


def nested(server):
    """Arrays within arrays, ten thousand deep."""
    ends_with_error(server, b"*1\r\n" * 10_000)


def endless_line(server):
    """A line that never ends."""
    connection = server.connect(timeout_s=5)
    try:
        for _ in range(64):
            connection.send(b"a" * 65536)
        connection.read()
    except (OSError, resp.Closed):
        pass
    connection.close()


def half_frames(server):
    """Commands cut at every byte, left hanging or closed."""
    whole = resp.encode(("SET", "half", "v" * 30))
    held = []
    for cut in range(1, len(whole)):
        connection = server.connect()
        connection.send(whole[:cut])
        if cut % 2:
            connection.close()
        else:
            held.append(connection)
    time.sleep(0.2)
    check = server.connect()
    assert check.call("EXISTS", "half") == 0, "half a command was carried out"
    check.close()
    for cut, connection in zip(range(2, len(whole), 2), held):
        connection.send(whole[cut:])
        assert connection.read()[1] == b"OK"
    close_all(held)


def slow_writer(server):
    """A command that arrives byte by byte."""
    connection = server.connect()
    for byte in resp.encode(("SET", "slow", "value")) + resp.encode(("GET", "slow")):
        connection.send(bytes([byte]))
        time.sleep(0.005)
    assert connection.read()[1] == b"OK"
    assert connection.read()[1] == b"value"
    connection.close()


def slow_reader(server):
    """A big reply that is read a little at a time, and arrives whole."""
    # More than the buffers of both sockets hold.
    value = bytes(range(256)) * (32 << 12)
    writer = server.connect()
    assert writer.call("SET", "slow:big", value) == b"OK"
    reader = server.connect()
    reader.send(resp.encode(("GET", "slow:big")))
    got = bytearray()
    for _ in range(100):
        got += reader.socket.recv(4096)
        time.sleep(0.01)
    size = len(value) + len(b"$%d\r\n\r\n" % len(value))
    while len(got) < size:
        piece = reader.socket.recv(1 << 20)
        assert piece, "closed before the reply was whole"
        got += piece
    assert bytes(got[-len(value) - 2 : -2]) == value, "the reply is damaged"
    assert writer.call("DEL", "slow:big") == 1
    close_all([reader, writer])


def replies_nobody_reads(server):
    """Many big replies asked for by a client that never reads."""
    writer = server.connect()
    assert writer.call("SET", "unread", b"x" * (1 << 20)) == b"OK"
    deaf = server.connect()
    deaf.socket.setblocking(False)
    request = resp.encode(("GET", "unread")) * 100
    end = time.monotonic() + 4
    asked = bytearray()
    before = server.rss_bytes() or 0
    peak = before
    while time.monotonic() < end:
        _, writable, _ = select.select([], [deaf.socket], [], 0.1)
        try:
            if writable and len(asked) < 20_000 * len(request):
                asked += request[: deaf.socket.send(request)]
        except BlockingIOError:
            pass
        except OSError:
            break
        peak = max(peak, server.rss_bytes() or 0)
        time.sleep(0.001)
    assert peak - before < UNREAD_MIB_MAX << 20, f"memory rose by {(peak - before) >> 20} MiB"
    assert writer.call("DEL", "unread") == 1
    close_all([deaf, writer])


def values_of_writes_nobody_reads(server):
    """Writes of a few bytes whose replies are long values, sent in one go and never read."""
    length = 24 << 20
    deaf = server.connect()
    before = server.rss_bytes() or 0
    asked = [("SETRANGE", "{w}a", str(length - 1), "x"), ("COPY", "{w}a", "{w}b")]
    asked += [("RENAME", "{w}b", "{w}c")]
    asked += [("GETEX", "{w}c", "EX", str(1000 + number)) for number in range(100)]
    deaf.send(b"".join(resp.encode(command) for command in asked))
    end = time.monotonic() + 3
    peak = before
    while time.monotonic() < end:
        peak = max(peak, server.rss_bytes() or 0)
        time.sleep(0.01)
    assert peak - before < 400 << 20, f"memory rose by {(peak - before) >> 20} MiB"
    deaf.close()
    check = server.connect()
    assert check.call("DEL", "{w}a", "{w}c") == 2
    check.close()


def many_small_replies_nobody_reads(server):
    """A flood of PINGs whose replies are never read."""
    deaf = server.connect()
    deaf.socket.setblocking(False)
    flood = resp.encode(("PING", "x" * 100)) * 1000
    end = time.monotonic() + 3
    while time.monotonic() < end:
        _, writable, _ = select.select([], [deaf.socket], [], 0.1)
        try:
            if writable:
                deaf.socket.send(flood)
        except BlockingIOError:
            pass
        except OSError:
            break
    deaf.close()


def idle_connections(server):
    """Ten thousand connections that do nothing; then some of them do."""
    held = []
    try:
        for _ in range(IDLE_CONNECTIONS):
            held.append(server.connect(timeout_s=30))
        for connection in random.Random(1).sample(held, 200):
            assert connection.call("PING") == b"PONG"
        for connection in held[-50:]:
            assert connection.call("ECHO", "last") == b"last"
        idle = server.rss_bytes()
        print(f"  abuse {len(held)} idle connections held at {(idle or 0) >> 20} MiB of memory")
    finally:
        close_all(held)


def garbage(server):
    """Random bytes on many connections."""
    rng = random.Random(7)
    for _ in range(300):
        connection = server.connect(timeout_s=5)
        try:
            connection.send(rng.randbytes(rng.choice([1, 10, 1000, 40_000])))
            if rng.random() < 0.5:
                connection.socket.shutdown(socket.SHUT_WR)
                connection.read_to_end()
        except TimeoutError:
            raise AssertionError("our end of the connection is closed, the server's is not") from None
        except OSError:
            pass
        connection.close()


def almost_commands(server):
    """Good commands with some bytes changed."""
    rng = random.Random(11)
    good = b"".join(resp.encode(c) for c in (("SET", "g", "1"), ("INCR", "g"), ("GET", "g")) * 5)
    for _ in range(500):
        data = bytearray(good)
        for _ in range(rng.randint(1, 4)):
            data[rng.randrange(len(data))] = rng.choice(b"\r\n$*0123456789-+:\x00\xffx")
        connection = server.connect(timeout_s=5)
        try:
            connection.send(bytes(data))
            connection.socket.shutdown(socket.SHUT_WR)
            connection.read_to_end()
        except TimeoutError:
            raise AssertionError(f"not closed after {bytes(data)!r}") from None
        except OSError:
            pass
        connection.close()


def churn(server):
    """Connections that come and go, some with a reset."""
    for index in range(3000):
        connection = server.connect()
        if index % 3 == 0:
            connection.send(b"*1\r\n$4\r\nPI")
        if index % 2:
            linger = b"\x01\x00\x00\x00\x00\x00\x00\x00"
            connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        connection.close()


def gone_before_the_reply(server):
    """Big replies to clients that have left."""
    writer = server.connect()
    assert writer.call("SET", "gone", b"x" * (1 << 20)) == b"OK"
    for _ in range(50):
        connection = server.connect()
        connection.send(resp.encode(("GET", "gone")) * 5)
        connection.close()
    assert writer.call("DEL", "gone") == 1
    writer.close()


def refused_growth(server):
    """Values that would grow beyond all bounds."""
    connection = server.connect()
    for command in (("SETRANGE", "grow", "536870911", "xx"), ("SETRANGE", "grow", "-1", "x")):
        try:
            connection.call(*command)
            raise AssertionError(f"{command} was carried out")
        except resp.ReplyError:
            pass
    assert connection.call("EXISTS", "grow") == 0
    connection.close()


def oversize_key(server):
    """A key above the limit is refused, one at the limit is not."""
    ends_with_error(server, resp.encode(("SET", "k" * (KEY_BYTES_MAX + 1), "v")))
    connection = server.connect()
    key = "k" * KEY_BYTES_MAX
    assert connection.call("SET", key, "v") == b"OK"
    assert connection.call("GET", key) == b"v"
    assert connection.call("DEL", key) == 1
    connection.close()


def oversize_value(server):
    """A value above the limit is refused, whether sent or only declared, or grown."""
    ends_with_error(server, b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$%d\r\n" % (VALUE_BYTES_MAX + 1))
    connection = server.connect()
    try:
        connection.call("SETRANGE", "big", str(VALUE_BYTES_MAX), "x")
        raise AssertionError("a value above the limit was made by SETRANGE")
    except resp.ReplyError:
        pass
    connection.close()


def value_at_the_limit(server):
    """A value of exactly the limit goes in and out."""
    connection = server.connect(timeout_s=60)
    value = b"0123456789abcdef" * (VALUE_BYTES_MAX // 16)
    assert connection.call("SET", "limit", value) == b"OK"
    assert connection.call("GET", "limit") == value
    assert connection.call("DEL", "limit") == 1
    connection.close()


def close_all(connections):
    """Closes them."""
    for connection in connections:
        connection.close()


CASES = [
    (huge_declared_bulk, 16),
    (huge_declared_array, 16),
    (allowed_lengths_never_filled, 128),
    (nested, 32),
    (endless_line, 64),
    (half_frames, 16),
    (slow_writer, 16),
    (slow_reader, 300),
    (replies_nobody_reads, UNREAD_MIB_MAX),
    (many_small_replies_nobody_reads, UNREAD_MIB_MAX),
    (idle_connections, 400),
    (garbage, 64),
    (almost_commands, 64),
    (churn, 64),
    (gone_before_the_reply, 256),
    (refused_growth, 16),
]
CARILLON_CASES = [
    (oversize_key, 32),
    (oversize_value, 64),
    (value_at_the_limit, 600),
    (values_of_writes_nobody_reads, 400),
]
