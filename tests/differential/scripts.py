"""Reading scripted streams and protocol-error cases."""

import re
import socket

from harness import resp
from play import Op

# How often a case is tried in which a reset may have destroyed an answer.
RESET_RETRIES = 10


def read(path, protocol):
    """A script's operations: one redis-cli line each; `#` begins a comment; `SCAN … ALL` drains.

    Under RESP3 the script begins with HELLO 3.
    """
    ops = [Op([("HELLO", protocol)])]
    for line in path.read_text().splitlines():
        args = split(line)
        if not args:
            continue
        if args[0] == b"SCANALL":
            ops.append(Op(scan=tuple(args[1:])))
        else:
            ops.append(Op([tuple(args)]))
    return ops


def split(line):
    """Arguments of a line, with redis-cli's quoting: "\\x00\\n" and 'as it is'."""
    args, place = [], 0
    while place < len(line):
        char = line[place]
        if char.isspace():
            place += 1
        elif char == "#":
            break
        elif char == '"':
            place, arg = unquote(line, place + 1)
            args.append(arg)
        elif char == "'":
            end = line.index("'", place + 1)
            args.append(line[place + 1 : end].encode())
            place = end + 1
        else:
            end = place
            while end < len(line) and not line[end].isspace():
                end += 1
            args.append(line[place:end].encode())
            place = end
    return args


def unquote(line, place):
    """A double-quoted argument from its first character: (place after it, bytes)."""
    out = bytearray()
    short = {"n": b"\n", "r": b"\r", "t": b"\t", "b": b"\b", "a": b"\a"}
    while line[place] != '"':
        if line[place] == "\\" and line[place + 1] == "x":
            out.append(int(line[place + 2 : place + 4], 16))
            place += 4
        elif line[place] == "\\":
            out += short.get(line[place + 1], line[place + 1].encode())
            place += 2
        else:
            out += line[place].encode()
            place += 1
    return place + 1, bytes(out)


def own_answers(server, path):
    """Carillon's own answers, as own.txt has them. Raises at the first that does not match."""
    connection = server.connect()
    lines = [line for line in path.read_text().splitlines() if line and line[0] != "#"]
    for command, wanted in zip(lines[::2], lines[1::2]):
        connection.send(resp.encode(split(command)))
        raw = connection.read()[0].decode("latin-1")
        assert re.fullmatch(wanted[2:], raw), f"{command}: {raw!r:.300} is not {wanted[2:]}"
    connection.close()


def protocol_cases(path):
    """Cases of protocol.txt, lines `NAME | BYTES`, bytes as in Python: (name, bytes to send)."""
    for line in path.read_text().splitlines():
        if not line or line.startswith("#"):
            continue
        name, text = line.split(" | ", 1)
        data = eval(text, {"__builtins__": {}})  # pylint: disable=eval-used
        if not name.startswith("alone:"):
            data += resp.encode(("PING", "still here"))
        yield name.strip(), data


def protocol_case(reference, target, data):
    """Sends bytes on a new connection of each, and no more; compares all bytes until the end."""
    for left in reversed(range(RESET_RETRIES)):
        answers, resets = zip(*[answer(server, data) for server in (reference, target)])
        if answers[0] == answers[1]:
            return
        if not (any(resets) and left):
            expected, actual = answers
            raise AssertionError(f"redis: {expected[:300]!r}, target: {actual[:300]!r}")


def answer(server, data):
    """All bytes that a server answers, and whether it reset the connection.

    A reset (sent because we wrote more than was read) may destroy an answer on its way.
    """
    connection = server.connect(timeout_s=10)
    try:
        connection.send(data)
        connection.socket.shutdown(socket.SHUT_WR)
    except OSError:
        pass
    try:
        return connection.read_to_end()
    finally:
        connection.close()
