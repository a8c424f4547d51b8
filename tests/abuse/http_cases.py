"""Bad input on the HTTP port."""

import random
import socket
import time


def talk(server, data, seconds=5.0):
    """Sends bytes and returns what comes back until the end or until nothing more comes."""
    sock = socket.create_connection((server.host, server.http), timeout=seconds)
    got = b""
    try:
        sock.sendall(data)
        while len(got) < 1 << 20:
            piece = sock.recv(65536)
            if not piece:
                break
            got += piece
            if b"\r\n\r\n" in got:
                break
    except (TimeoutError, ConnectionResetError, BrokenPipeError):
        pass
    finally:
        sock.close()
    return got


def status_of(answer):
    """The status code of an answer, or None."""
    return int(answer.split(b" ", 2)[1]) if answer.startswith(b"HTTP/1.") else None


def refused(server, data):
    """An error status, or no answer at all."""
    status = status_of(talk(server, data))
    assert status is None or 400 <= status < 600, f"{status} for {data[:60]!r}"


def http_serves(server):
    """The good case, so that the bad ones mean something."""
    assert server.request("GET", "/health/live")[0] == 200
    assert server.request("GET", "/health/ready")[0] == 200
    assert server.request("GET", "/metrics")[0] == 200


def http_not_http(server):
    """Other protocols, wrong versions, broken request lines."""
    for data in (b"\r\n" * 100, b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"\x16\x03\x01" * 20,
                 b"*1\r\n$4\r\nPING\r\n\r\n", b"GET /\x00 HTTP/1.1\r\n\r\n"):
        refused(server, data)


def http_huge_headers(server):
    """A header that never ends, and a hundred thousand headers."""
    refused(server, b"GET /health/live HTTP/1.1\r\nhost: x\r\na: " + b"b" * (4 << 20))
    refused(server, b"GET /health/live HTTP/1.1\r\n" + b"a: b\r\n" * 100_000 + b"\r\n")
    refused(server, b"GET /" + b"a" * (1 << 20) + b" HTTP/1.1\r\nhost: x\r\n\r\n")


def http_wrong_lengths(server):
    """Bodies that are declared huge, negative, twice, or not a number."""
    put = b"PUT /v1/kv/0/abuse HTTP/1.1\r\nhost: x\r\n"
    for length in (b"99999999999999", b"-1", b"abc", b"18446744073709551616"):
        refused(server, put + b"content-length: " + length + b"\r\n\r\nabc")
    refused(server, put + b"content-length: 3\r\ncontent-length: 4\r\n\r\nabcd")


def http_unknown(server):
    """Paths and methods that do not exist, JSON that is none."""
    assert server.request("GET", "/nosuch")[0] == 404
    assert server.request("DELETE", "/health/live")[0] in (404, 405)
    assert server.request("GET", "/v1/kv/nosuchkeyspace/key")[0] == 404
    refused(server, b"POST /v1/keyspaces HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\n\r\n{")
    nest = b"[" * 20_000
    head = b"POST /v1/keyspaces HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % len(nest)
    refused(server, head + nest)


def http_transactions(server):
    """Transactions that are invalid, that ask for too much, and that no client ends."""
    for path in ("/v1/txn", "/v1/txn/begin", "/v1/txn/x", "/v1/txn/x/commit"):
        head = b"POST %s HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n" % path.encode()
        for body in (b"", b"{", b"[]", b"7", b'"', b"\xff", b"[" * 20_000, b'{"then":' * 20_000):
            refused(server, head + b"content-length: %d\r\n\r\n" % len(body) + body)
    get = {"get": "abuse"}
    for body in ({"then": [get] * 100_000}, {"then": [{"get": {"base64": "=" * 1000}}]},
                 {"then": [{"increment": {"key": "abuse", "by": 1e300}}]}, {"then": [{}]},
                 {"then": ["get"]}, {"then": [{**get, "delete": "abuse"}]}, {"then": [get] * 1025},
                 {"then": [{"x" * 1_000_000: 1}]}, {"then": [{"range": {"limit": 1 << 40}}]},
                 {"compare": [{"key": "abuse", "exists": True, "value": "x"}]},
                 {"compare": [{"key": "abuse", "version": "9" * 1000}]}):
        assert server.request("POST", "/v1/txn", body)[0] == 400, str(body)[:60]
    # A value that is asked for as often as may be: nobody gets a gigabyte for a few bytes.
    put = {"put": {"key": "abuse", "value": "x" * (1 << 20)}}
    assert server.request("POST", "/v1/txn", {"then": [put]})[0] == 200
    assert server.request("POST", "/v1/txn", {"then": [get] * 1024})[0] == 413
    begun = [server.request("POST", "/v1/txn/begin", {"timeout_ms": 1000})[0] for _ in range(1100)]
    assert set(begun) <= {201, 503}, set(begun)
    assert server.request("POST", "/v1/txn", {"then": [{"delete": "abuse"}]})[0] == 200


def http_slow(server):
    """A hundred requests that never end."""
    held = []
    for _ in range(100):
        sock = socket.create_connection((server.host, server.http), timeout=5)
        sock.sendall(b"GET /health/live HTTP/1.1\r\nhost:")
        held.append(sock)
    time.sleep(0.3)
    assert server.request("GET", "/health/live")[0] == 200, "slow clients kept the others out"
    for sock in held:
        sock.close()


def http_unfinished_uploads(server):
    """Uploads that announce much, or nothing, and send a byte: others write on."""
    held = []
    for head in (b"content-length: 67108864", b"transfer-encoding: chunked") * 10:
        sock = socket.create_connection((server.host, server.http), timeout=5)
        sock.sendall(b"PUT /v1/kv/0/abuse HTTP/1.1\r\nhost: localhost\r\n" + head + b"\r\n\r\n1\r\nx")
        held.append(sock)
    time.sleep(0.3)
    begin = time.monotonic()
    assert server.request("POST", "/v1/txn", {"then": [{"get": "abuse"}]})[0] == 200
    name = {"name": "abuse-uploads"}
    assert server.request("POST", "/v1/keyspaces", name)[0] in (201, 409)
    assert time.monotonic() - begin < 10, "unfinished uploads kept the others out"
    for sock in held:
        sock.close()


def http_refused_bodies(server):
    """Bodies that are refused before they have come: their clients still read why."""
    body = b"x" * (20 << 20)
    for line, status in ((b"POST /v1/txn", 413), (b"PUT /nowhere", 404), (b"PUT /v1/kv/0/%zz", 400)):
        head = line + b" HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        head += b"content-length: %d\r\n\r\n" % len(body)
        sock = socket.create_connection((server.host, server.http), timeout=30)
        sock.sendall(head + body)
        got = status_of(sock.recv(65536))
        sock.close()
        assert got == status, f"{got} for {line!r}"


def http_preconditions(server):
    """Preconditions that are none, or long lists."""
    put = b"PUT /v1/kv/0/abuse HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1\r\n"
    for name in (b"if-match: ", b"if-none-match: "):
        for value in (b"", b"x", b'"', b"*,*", b'"a" "b"', b"," * 1000, b"\xff" * 100):
            refused(server, put + name + value + b"\r\n\r\n1")
    many = b",".join(b'"%d"' % number for number in range(5000))
    refused(server, put + b"if-match: " + many + b"\r\n\r\n1")
    refused(server, put + b"content-range: bytes 0-1/10\r\n\r\n1")


def http_garbage(server):
    """Random bytes."""
    rng = random.Random(5)
    for _ in range(100):
        sock = socket.create_connection((server.host, server.http), timeout=5)
        try:
            sock.sendall(rng.randbytes(rng.choice([1, 50, 5000])) + b"\r\n\r\n")
        except OSError:
            pass
        sock.close()


CASES = [
    (http_serves, 16),
    (http_not_http, 16),
    (http_huge_headers, 64),
    (http_wrong_lengths, 32),
    (http_unknown, 32),
    (http_transactions, 64),
    (http_slow, 32),
    (http_unfinished_uploads, 32),
    (http_refused_bodies, 32),
    (http_preconditions, 32),
    (http_garbage, 32),
]
