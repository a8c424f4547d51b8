#!/usr/bin/env python3
"""python-socketio's AsyncRedisManager on three nodes, of which one is killed and comes back.

Three servers share rooms, each through a node of its own; a client of each is in one room. What any
server sends to the room must come to all clients whose server's node lives. Needs python-socketio and
aiohttp (requirements-soak.txt).
"""

import asyncio
import sys
from pathlib import Path

import socketio
from aiohttp import web

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from harness.cluster import Cluster  # noqa: E402
from harness.report import Report  # noqa: E402

SECONDS_MAX = 60
COUNT = 60


class Room:
    """Servers and clients; `got` has what came to each client."""

    def __init__(self):
        self.servers, self.clients, self.got = [], [], []

    async def add(self, node):
        """A server through this node, and a client of it in the room."""
        manager = socketio.AsyncRedisManager(f"redis://{node.host}:{node.resp}/0")
        server = socketio.AsyncServer(client_manager=manager, async_mode="aiohttp")

        async def join(sid):
            await server.enter_room(sid, "room")
            return True

        server.on("join", join)
        app = web.Application()
        server.attach(app)
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        port = runner.addresses[0][1]
        client, got = socketio.AsyncClient(), []
        client.on("news", got.append)
        await client.connect(f"http://127.0.0.1:{port}")
        await client.call("join")
        self.servers.append((server, runner))
        self.clients.append(client)
        self.got.append(got)

    async def heard(self, senders, hearers):
        """Tries until messages of all these servers come to all these clients."""
        until = asyncio.get_running_loop().time() + SECONDS_MAX
        while True:
            [got.clear() for got in self.got]
            for number in range(COUNT):
                await self.servers[senders[number % len(senders)]][0].emit("news", number, room="room")
            await asyncio.sleep(1)
            short = [to for to in hearers if sorted(set(self.got[to])) != list(range(COUNT))]
            if not short:
                return
            assert asyncio.get_running_loop().time() < until, f"clients {short} did not hear all"

    async def close(self):
        """Ends all."""
        for client in self.clients:
            await client.disconnect()
        for _, runner in self.servers:
            await runner.cleanup()


async def rooms(cluster, report):
    """All steps, in order."""
    room = Room()
    for node in cluster.nodes:
        await room.add(node)

    async def step(name, senders, hearers):
        try:
            await room.heard(senders, hearers)
            report.ok(name)
        except AssertionError as error:
            report.fail(name, str(error))

    everybody = range(len(cluster.nodes))
    await step("all servers to all clients", everybody, everybody)
    cluster.nodes[2].kill()
    await step("one node is dead: the others go on", [0, 1], [0, 1])
    cluster.nodes[2].spawn()
    await step("it is back: all to all", everybody, everybody)
    await room.close()


def main():
    """Runs it."""
    report = Report("socketio")
    with Cluster() as cluster:
        asyncio.run(rooms(cluster, report))
    report.finish()


main()
