#!/usr/bin/env python3
"""Programs and libraries that use scripts and client-side caches of Redis, against three nodes, over a kill -9.

  run.py                        all programs, in mode any, then those with a cluster client in mode
                                cluster
  run.py --brief                one program for each mechanism, in mode any: what `make test` runs
  run.py limits redlock         these alone
  run.py --server redis-aof     a lone redis-server, killed and started again: tries the tests
  run.py --server apart         three of them that share nothing: every program must notice

Each program works for some seconds through all nodes; in the middle the node that leads most is
killed with -9, and started again soon after. shared.py says what a program prints.
"""

import argparse
import subprocess
import sys
import threading
import time
from collections import namedtuple
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE.parent))

from harness.cluster import Cluster  # noqa: E402
from harness.report import Report  # noqa: E402
from harness.server import Server  # noqa: E402

LOAD_SECONDS = 6
BEFORE_KILL_SECONDS = 1.5
DOWN_SECONDS = 2
# Of a program as a whole; one that hangs is killed then.
PROGRAM_SECONDS_MAX = 90

Program = namedtuple("Program", "name mechanism command brief modes")


def python(script):
    """A Python program."""
    return [ROOT / "target/programs/venv/bin/python", HERE / script]


def node(script):
    """A program of Node.js."""
    return ["node", HERE / "node" / script]


def go(word):
    """A part of the Go program."""
    return [ROOT / "target/programs/go", word]


ANY, BOTH = ("any",), ("any", "cluster")
PROGRAMS = [
    Program("limits", "rate limiter", python("use_limits.py"), True, BOTH),
    Program("redis-py Lock", "lock", python("use_lock.py"), True, BOTH),
    Program("redlock", "redlock", node("redlock.js"), True, ANY),
    Program("django-redis", "cache", python("use_django_redis.py"), True, ANY),
    Program("Flask-Limiter", "rate limiter", python("use_flask_limiter.py"), False, BOTH),
    Program("rate-limiter-flexible", "rate limiter", node("rate_limiter_flexible.js"), False, BOTH),
    Program("redis_rate", "rate limiter", go("redis_rate"), False, BOTH),
    Program("redlock-py", "redlock", python("use_redlock_py.py"), False, ANY),
    Program("redsync", "redlock", go("redsync"), False, BOTH),
    Program("aiocache", "cache", python("use_aiocache.py"), False, ANY),
    Program("rueidis", "client-side cache", go("rueidis"), True, ANY),
    Program("node-redis", "client-side cache", node("node_redis.js"), False, ANY),
    Program("socket.io", "publish and subscribe", node("socketio.js"), False, ANY),
]


class Redis:
    """redis-server in the place of three nodes: a lone one, or three that share nothing."""

    def __init__(self, count):
        self.servers = [Server("redis-aof") for _ in range(count)]
        addresses = [f"{server.host}:{server.resp}" for server in self.servers]
        self.addresses = ",".join((addresses * 3)[:3])

    def __enter__(self):
        for server in self.servers:
            server.start()
        return self

    def __exit__(self, *_):
        for server in self.servers:
            server.clean()

    def leader(self):
        """The one that is killed."""
        return self.servers[0]

    def until_whole(self):
        """Waits until it serves again."""
        self.servers[0].wait_ready()


class Three(Cluster):
    """Three nodes of Carillon."""

    def until_whole(self):
        """Waits until every node knows three holders of everything."""
        self.until("cluster after the kill", self.is_whole)


def servers_for(word, mode):
    """What --server names."""
    if word == "carillon":
        return Three(flags=f"--resp-mode {mode}")
    return Redis(3 if word == "apart" else 1)


def run(program, servers, mode, report):
    """One program over one kill."""
    words = [str(word) for word in [*program.command, servers.addresses, LOAD_SECONDS, mode]]
    process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True)
    watch = threading.Timer(PROGRAM_SECONDS_MAX, process.kill)
    watch.start()
    passed = failed = 0
    kill = None
    try:
        for line in process.stdout:
            line = line.rstrip()
            if line == "loading":
                kill = threading.Thread(target=kill_and_start, args=(servers,))
                kill.start()
                continue
            print("  " + line, flush=True)
            passed += line.startswith("ok ")
            failed += line.startswith("FAIL ")
        code = process.wait()
    finally:
        watch.cancel()
        process.kill()
        if kill:
            kill.join()
    if (code or kill is None) and not failed:
        print(f"  FAIL {program.name} ended with {code}", flush=True)
        failed += 1
    report.passed += passed
    if kill:
        servers.until_whole()
    assert not failed, f"{failed} checks failed"


def kill_and_start(servers):
    """kill -9 for the node that leads most, in the middle of the load."""
    time.sleep(BEFORE_KILL_SECONDS)
    victim = servers.leader()
    victim.kill()
    time.sleep(DOWN_SECONDS)
    victim.spawn()


def main():
    """All chosen programs, one after the other."""
    parser = argparse.ArgumentParser(description="programs that use Redis")
    parser.add_argument("names", nargs="*", help="programs; all, if none is named")
    parser.add_argument("--brief", action="store_true", help="one program for each mechanism")
    parser.add_argument("--mode", choices=BOTH, help="this mode alone")
    parser.add_argument("--server", default="carillon", choices=("carillon", "redis-aof", "apart"))
    options = parser.parse_args()
    unknown = set(options.names) - {program.name for program in PROGRAMS}
    if unknown:
        parser.error(f"no such program: {', '.join(sorted(unknown))}")
    chosen = [program for program in PROGRAMS
              if (program.name in options.names or not options.names)
              and (program.brief or not options.brief)]
    report = Report("programs")
    modes = [options.mode] if options.mode else ["any"] if options.brief else BOTH
    for mode in modes:
        programs = [program for program in chosen if mode in program.modes]
        if not programs or (mode == "cluster" and options.server != "carillon"):
            continue
        with servers_for(options.server, mode) as servers:
            for program in programs:
                report.run(f"{program.name} ({program.mechanism}, mode {mode})",
                           run, program, servers, mode, report)
    report.finish()


if __name__ == "__main__":
    main()
