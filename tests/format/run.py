#!/usr/bin/env python3
"""What a node has written is read by a reader made from docs/format.md alone.

A node with a small log takes random commands through several checkpoints and kills; each time its
files are read by `reader.py`, and every key is compared with what the node itself answers after its
next start.
"""

import json
import random
import re
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
sys.path.insert(0, str(HERE))

import reader  # noqa: E402
from disk import EPERM, Disk  # noqa: E402
from harness import resp  # noqa: E402
from harness.report import Report  # noqa: E402
from harness.server import COMMANDS, Server, free_ports  # noqa: E402

SEED = 1
ROUNDS = 4
# Drawn apart, so that the rest of a run stays as it was.
BESIDE = random.Random(7)
COMMANDS_PER_ROUND = 6000
LIBRARIES = random.Random(9)
BLOCKS = random.Random(11)
BLOCK, VOLUME_BLOCKS = 4096, 200
SMALL = " --segment-bytes 1MiB --checkpoint-log-bytes 1MiB --durability memory --value-bytes-max 1500"


def command(rng):
    """A random command on few keys, so that they meet."""
    key = f"{{t{rng.randrange(40)}}}{rng.randrange(10)}"
    other = key[: key.index("}") + 1] + str(rng.randrange(10))
    text = rng.randbytes(rng.randrange(300)).hex()
    later = int(time.time() * 1000) + rng.choice([-5000, 3_600_000, 7_200_000])
    return rng.choice(
        [
            ("SET", key, text),
            ("SET", key, text, "NX"),
            ("SET", key, text, "XX", "KEEPTTL"),
            ("SET", key, str(rng.randrange(1000)), "PXAT", abs(later)),
            ("DEL", key),
            ("GETDEL", key),
            ("GETEX", key, "PXAT", later),
            ("GETEX", key, "PERSIST"),
            ("APPEND", key, text),
            ("SETRANGE", key, rng.randrange(600), text),
            ("INCRBY", key, rng.randrange(-50, 50)),
            ("PEXPIREAT", key, later, rng.choice(["NX", "XX", "GT", "LT"])),
            ("PEXPIREAT", key, later),
            ("PERSIST", key),
            ("MSETNX", key, text, other, "1"),
            ("RENAME", key, other),
            ("RENAMENX", key, other),
            ("COPY", key, other),
            ("COPY", key, other, "REPLACE"),
        ]
        + ([("FLUSHDB",)] if rng.randrange(300) == 0 else [])
    )


def transaction(one):
    """A command, or it and others of its hash tag as one, or some over several shards."""
    if one[0] == "FLUSHDB" or BESIDE.randrange(8):
        return [one]
    if BESIDE.randrange(2):
        apart = [f"{{t{BESIDE.randrange(40)}}}{BESIDE.randrange(10)}" for _ in range(3)]
        wide = [
            ("MSET", apart[0], "m", apart[1], "n", apart[2], "o"),
            ("DEL", *apart),
            ("MSETNX", apart[0], "x", apart[1], "y"),
            ("RENAME", *apart[:2]),
            ("COPY", *apart[:2], "REPLACE"),
        ]
        more = [("APPEND", apart[0], "+"), ("INCRBY", apart[1], 3), ("GET", apart[2])]
        return [BESIDE.choice(wide), ("MULTI",), *more, ("EXEC",)]
    key = one[1]
    other = key[: key.index("}") + 1] + str(BESIDE.randrange(10))
    more = [("GET", key), ("APPEND", other, "+"), ("MGET", key, other), ("PTTL", other)]
    more += [("INCRBY", other, 1), ("GETRANGE", key, 0, 3), ("EXISTS", key), ("DEL", other, key)]
    return [("MULTI",), one, *BESIDE.sample(more, BESIDE.randrange(1, 4)), ("EXEC",)]


def library(name, functions, padding):
    code = f"#!lua name={name}\n" + "-- more\n" * padding
    return code + "".join(
        f"redis.register_function{{function_name='{function}', callback=function() end, "
        "flags={'no-writes'}, description='d'}\n"
        for function in functions
    )


def change_libraries(connection):
    """Operations on libraries, of which some are refused."""
    dumps = [connection.call("FUNCTION", "DUMP")]
    for _ in range(60):
        name, functions = LIBRARIES.choice("abc"), LIBRARIES.sample(["f", "g", "G", "h", "i"], 2)
        padding = LIBRARIES.choice([0, 1, 9])
        done = LIBRARIES.choice(
            [
                ("FUNCTION", "LOAD", library(name, functions, padding)),
                ("FUNCTION", "LOAD", "REPLACE", library(name, functions, padding)),
                ("FUNCTION", "DELETE", name),
                ("FUNCTION", "RESTORE", dumps[-1], LIBRARIES.choice(["APPEND", "REPLACE", "FLUSH"])),
                ("FUNCTION", "FLUSH") if LIBRARIES.randrange(5) == 0 else ("SCRIPT", "FLUSH"),
            ]
        )
        try:
            connection.call(*done)
        except resp.ReplyError:
            continue
        if LIBRARIES.randrange(4) == 0:
            dumps.append(connection.call("FUNCTION", "DUMP"))


def write_blocks(port, named, refused):
    """One session writes blocks, then another; the first, which goes on, is refused."""
    sessions = [Disk(port, "disk@session=a" if named else "disk"), Disk(port, "disk@session=b")]
    for disk in sessions:
        for _ in range(60):
            block, count = BLOCKS.randrange(VOLUME_BLOCKS), BLOCKS.randrange(1, 4)
            at = min(block, VOLUME_BLOCKS - count) * BLOCK
            if BLOCKS.randrange(4):
                assert disk.write(at, BLOCKS.randbytes(count * BLOCK)) == 0
            else:
                assert disk.trim(at, count * BLOCK) == 0
    refused.append(sessions[0].write(0, b"x" * BLOCK))
    for disk in sessions:
        disk.close()


def one_round(node, rng, merges, port, refused):
    """Commands, a kill, and the two accounts of what is there. Returns checkpoints in use."""
    connection = node.connect()
    # Two shards are cut while others are written to: one of the first, one of the others.
    for shard in (rng.randrange(1, 9), rng.randrange(9, 17)):
        status, said = node.request("POST", f"/v1/shards/{shard}/split", {})
        assert status in (202, 404, 409), said
    # And some shard of the ordered keyspace, where its bytes part, or at a key.
    status, listed = node.request("GET", "/v1/shards?keyspace=ranges")
    assert status == 200, listed
    shards = [shard["id"] for shard in json.loads(listed)["shards"]]
    shard = rng.choice(shards)
    body = rng.choice([{}, {"at": f"{{t{rng.randrange(40)}}}"}])
    status, said = node.request("POST", f"/v1/shards/{shard}/split", body)
    assert status in (202, 409), said
    # The files of linear hashing grow or shrink: of all buckets one has its turn.
    buckets = []
    for name in ("file", "disk"):
        status, listed = node.request("GET", f"/v1/shards?keyspace={name}")
        assert status == 200, listed
        buckets.append([shard["id"] for shard in json.loads(listed)["shards"]])
    for what in ("split", "split", "merge")[: rng.randrange(1, 4)]:
        for each in buckets:
            asked = [node.request("POST", f"/v1/shards/{id}/{what}", {})[0] for id in each]
            # One may be gone meanwhile: a file with few keys shrinks by itself.
            assert set(asked) <= {202, 404, 409}, asked
        time.sleep(0.7)
    # … and some take in those behind them.
    for shard in (*rng.sample(range(1, 17), 2), rng.choice(shards)):
        status, said = node.request("POST", f"/v1/shards/{shard}/merge", {})
        assert status in (202, 404, 409), said
        merges.append(status)
    write_blocks(port, rng.randrange(2) == 0, refused)
    for name in ("0", "1", "ranges", "file"):
        connection.call("SELECT", name)
        batch = [command(rng) for _ in range(COMMANDS_PER_ROUND // 4)]
        if name == "1":
            batch = [each for each in batch if each[0] != "FLUSHDB"]
        batch = [each for one in batch for each in transaction(one)]
        for start in range(0, len(batch), 500):
            connection.pipeline(batch[start : start + 500])
    write_blocks(port, True, refused)
    change_libraries(connection)
    time.sleep(0.5)
    connection.call("SET", "after-the-checkpoint", "1")
    node.kill()
    data = node.directory / "data"
    checkpoints = len(reader.Manifest((data / "MANIFEST").read_bytes()).checkpoints)
    found, catalogue = reader.read_all(data)
    node.start()
    compare(node, found)
    compare_libraries(node, catalogue.libraries)
    return checkpoints


def compare(node, found):
    """Every key the reader found, and no other, with value and expiry."""
    status, listed = node.request("GET", "/v1/keyspaces")
    assert status == 200 and all(f'"name":"{name}"' in listed for name in found), listed
    connection = node.connect()
    now = time.time() * 1000
    for name, (options, values) in found.items():
        word = ["sync", "interval", "memory"][options[1]]
        assert f'"durability":"{word}"' in listed, (name, options, listed)
        connection.call("SELECT", name)
        values = {k: v for k, v in values.items() if not v[1] or v[1] > now}
        assert connection.call("DBSIZE") == len(values), (name, len(values))
        keys = sorted(values)
        answers = connection.pipeline([("GET", key) for key in keys])
        expiries = connection.pipeline([("PEXPIRETIME", key) for key in keys])
        for key, value, expiry in zip(keys, answers, expiries):
            assert values[key] == (value, max(expiry, 0)), (name, key, values[key], value, expiry)


def compare_libraries(node, libraries):
    """Every library that the reader found, and no other, with its functions."""
    listed = {}
    for fields in node.connect().call("FUNCTION", "LIST"):
        fields = dict(zip(fields[::2], fields[1::2]))
        listed[fields[b"library_name"]] = [each[1] for each in fields[b"functions"]]
    assert listed == {name: names for name, (_, names) in libraries.items()}, (listed, libraries)


def main():
    report = Report("format")
    rng = random.Random(SEED)
    (port,) = free_ports(1)
    with Server(COMMANDS["carillon"] + SMALL + f" --nbd 127.0.0.1:{port}") as node:
        body = {"name": "ranges", "placement": "ordered"}
        assert node.request("POST", "/v1/keyspaces", body)[0] // 100 == 2
        body = {"name": "file", "placement": "linear-hash"}
        assert node.request("POST", "/v1/keyspaces", body)[0] // 100 == 2
        volume = {"bytes": VOLUME_BLOCKS * BLOCK, "block_bytes": BLOCK}
        body = {"name": "disk", "placement": "linear-hash", "durability": "sync", "volume": volume}
        assert node.request("POST", "/v1/keyspaces", body)[0] // 100 == 2
        seen, merges, refused = [], [], []

        def go():
            seen.append(one_round(node, rng, merges, port, refused))

        for number in range(ROUNDS):
            report.run(f"round {number}", go)
        report.run("checkpoints were read", lambda: check_seen(seen))
        report.run("writers were fenced off", lambda: check_fenced(refused))
        report.run("shards were merged", lambda: check_merged(node, merges))
    report.finish()


def check_fenced(refused):
    assert refused and set(refused) == {EPERM}, refused


def check_merged(node, merges):
    assert 202 in merges, "no shard could take one in"
    status, said = node.request("GET", "/v1/shards")
    ids = [int(number) for number in re.findall(r'"id":(\d+)', said)]
    assert status == 200 and len(ids) < max(ids), f"no shard has ended: {ids}"


def check_seen(seen):
    assert any(seen), "no round met a checkpoint"
    assert max(seen) > 18, "no round met a checkpoint of a shard that was cut off"


if __name__ == "__main__":
    main()
