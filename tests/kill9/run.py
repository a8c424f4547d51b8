#!/usr/bin/env python3
"""kill -9 in a loop: nothing acknowledged may be missing, nothing may be invented.

Each round, several connections write (counters, new keys, overwrites, appends, deletes, pipelined,
in keyspaces of every durability); at a random moment the process is killed with SIGKILL, sometimes
again while it starts; then everything is read back. A kill loses no page of the operating system's
cache, so this holds at every durability: `memory` and `interval` too.

  run.py                                  a Carillon node, 10 rounds
  run.py --rounds 500 --seed 7
  run.py --server redis-aof               redis-server, to try the test itself
  run.py --server 'prog --port {resp} --dir {dir}'
  run.py --self-test                      data of a server that forgets is found missing
"""

import argparse
import random
import sys
import threading
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from harness import resp  # noqa: E402
from harness.report import Report  # noqa: E402
from harness.server import Server  # noqa: E402
from model import Model  # noqa: E402

# Keyspace by number, and its durability.
LEVELS = {0: "sync", 1: "interval", 2: "memory"}
WRITERS_PER_KEYSPACE = 2
PIPELINE_MAX = 40
KILL_SECONDS_MAX = 1.2
READ_BATCH = 500
# Above this, everything is flushed between two rounds, so that long loops stay quick.
KEYS_MAX = 150_000


def main():
    """Runs the rounds."""
    parser = argparse.ArgumentParser(description="kill -9 loop")
    parser.add_argument("--server", default="carillon", help="carillon, redis-aof or a command")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--self-test", action="store_true")
    options = parser.parse_args()
    report = Report("kill9")
    if options.self_test:
        forgetful = "redis-server --port {resp} --dir {dir} --bind 127.0.0.1 --save ''"
        report.run("finds lost data", finds_loss, forgetful)
        options.server = "redis-aof"
    print(f"  kill9: seed {options.seed}")
    server = Server(options.server)
    try:
        loop(server, options, report)
    finally:
        if report.failed:
            print(server.output_tail())
        server.clean()
    report.finish()


def finds_loss(command):
    """A server without persistence must not pass."""
    server = Server(command)
    try:
        inner = Report("kill9 of a forgetful server", quiet=True)
        rounds(server, inner, random.Random(1), 1)
        assert inner.failed, "a server that lost everything passed"
    finally:
        server.clean()


def loop(server, options, report):
    """All rounds, and an orderly restart at the end."""
    rounds(server, report, random.Random(options.seed), options.rounds, orderly_end=True)


def rounds(server, report, rng, count, orderly_end=False):
    """Kills and checks `count` times."""
    server.start()
    for number, level in LEVELS.items():
        server.set_durability(number, level)
    names = [(k, w) for k in LEVELS for w in range(WRITERS_PER_KEYSPACE)]
    models = [Model(k, f"{k}-{w}", rng.randrange(1 << 32)) for k, w in names]
    for number in range(1, count + 1):
        began = time.monotonic()
        kills = 1
        try:
            if sum(len(model.certain) for model in models) > KEYS_MAX:
                flush(server, models)
            write_until_killed(server, models, rng)
            while rng.random() < 0.35:
                server.spawn()
                time.sleep(rng.random() ** 2 * 0.3)
                server.kill()
                kills += 1
            server.start()
            took = time.monotonic() - began
            checked = sum(verify(server, model) for model in models)
            count_keys(server, models)
        except (AssertionError, RuntimeError, OSError, resp.Closed, resp.ReplyError) as error:
            report.fail(f"round {number}", f"{type(error).__name__}: {str(error)[:2000]}")
            return
        acknowledged = sum(model.acknowledged for model in models)
        report.ok(f"round {number}: {kills} kills, {checked} keys, {acknowledged} writes", took)
    if orderly_end:
        report.run("orderly restart", orderly_restart, server, models)


def flush(server, models):
    """FLUSHALL; what it removed must not come back after the kill that follows."""
    connection = server.connect(timeout_s=60)
    connection.call("FLUSHALL")
    connection.close()
    for model in models:
        model.flushed()


def orderly_restart(server, models):
    """SIGTERM, start: everything is still there and the exit code is 0."""
    code = server.stop()
    assert code == 0, f"exit code {code}"
    server.start()
    for model in models:
        verify(server, model)


def write_until_killed(server, models, rng):
    """Lets all writers write, kills the server in the midst, and waits for the writers' end."""
    stop = threading.Event()
    threads = [threading.Thread(target=write, args=(server, m, stop)) for m in models]
    for thread in threads:
        thread.start()
    time.sleep(0.05 + rng.random() * KILL_SECONDS_MAX)
    server.kill()
    stop.set()
    for thread in threads:
        thread.join()
    for model in models:
        if model.trouble:
            raise AssertionError(f"writer {model.name}: {model.trouble}")


def write(server, model, stop):
    """One connection: pipelines of random writes until the connection breaks."""
    try:
        connection = server.connect()
        connection.call("SELECT", model.keyspace)
        while not stop.is_set():
            batch = [model.next() for _ in range(model.random.randint(1, PIPELINE_MAX))]
            connection.send(b"".join(resp.encode(op.command) for op in batch))
            for op in batch:
                model.answered(op, connection.read()[1])
    except (OSError, resp.Closed):
        pass
    except AssertionError as error:
        model.trouble = str(error)


def verify(server, model):
    """Reads every key of a writer back; whatever was found is the truth from now on."""
    connection = server.connect(timeout_s=60)
    connection.call("SELECT", model.keyspace)
    keys = list(model.keys())
    for start in range(0, len(keys), READ_BATCH):
        part = keys[start : start + READ_BATCH]
        for key, value in zip(part, connection.pipeline([("GET", key) for key in part])):
            assert not isinstance(value, resp.Error), f"GET {key}: {value}"
            model.found(key, value)
    connection.close()
    return len(keys)


def count_keys(server, models):
    """No keyspace holds keys that no client wrote."""
    connection = server.connect()
    for keyspace in LEVELS:
        connection.call("SELECT", keyspace)
        wanted = sum(m.live() for m in models if m.keyspace == keyspace)
        got = connection.call("DBSIZE")
        assert got == wanted, f"keyspace {keyspace} has {got} keys, {wanted} were written"
    connection.close()


if __name__ == "__main__":
    main()
