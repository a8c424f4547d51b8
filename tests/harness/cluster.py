"""Three nodes that form one store, on free ports of this machine."""

import shlex
import time

from .server import CARILLON, Server, free_ports
from .started import Started

FORM_SECONDS_MAX = 60.0
# Leads that have not moved for so long stay where they are.
REST_SECONDS = 2.0


class Cluster(Started):
    """Nodes in directories of their own. The first founds the cluster, the others join it."""

    def __init__(self, count=3, flags="", replicas=False, tls=False):
        # All at once, so that they differ.
        ports = free_ports(5 * count)
        # Where clients that ask for replicas connect, if they can.
        self.replicas = [ports.pop() for _ in range(count)] if replicas else []
        # Where clients connect by TLS, if they can.
        self.tls = [ports.pop() for _ in range(count)] if tls else []
        self.peers, pairs = ports[:count], ports[count : 3 * count]
        self.clients = list(zip(pairs[::2], pairs[1::2]))
        self.nodes = [self.node(number, flags) for number in range(count)]

    def node(self, number, flags):
        """A node that is not started yet."""
        others = ",".join(f"127.0.0.1:{port}" for port in self.peers if port != self.peers[number])
        join = f"--join {others}" if number else ""
        if self.replicas:
            flags += f" --resp-replica 127.0.0.1:{self.replicas[number]}"
        if self.tls:
            flags += f" --resp-tls 127.0.0.1:{self.tls[number]}"
        server = Server(
            f"{shlex.quote(CARILLON)} start --dir {{dir}} --name n{number + 1} "
            f"--resp 127.0.0.1:{{resp}} --native off --http 127.0.0.1:{{http}} "
            f"--peer 127.0.0.1:{self.peers[number]} {join} --peer-secret-file {{dir}}/../secret "
            f"--memory-max 512MiB {flags}"
        )
        server.resp, server.http = self.clients[number]
        server.ports |= {"resp": server.resp, "http": server.http}
        return server

    @property
    def addresses(self):
        """Where Redis clients connect: HOST:PORT, with commas between."""
        return ",".join(f"{node.host}:{node.resp}" for node in self.nodes)

    def start(self):
        """Starts all nodes, and waits until every one knows three holders of everything, and that
        each of them leads some of it."""
        for node in self.nodes:
            secret = node.directory / "secret"
            secret.write_text("0123456789abcdef0123456789abcdef\n")
            secret.chmod(0o600)
            node.spawn()
        for node in self.nodes:
            node.wait_ready()
        # Made on first use.
        self.nodes[0].connect().call("SET", "first", "1")
        self.until("a cluster", lambda node: self.is_whole(node))
        self.until("leader everywhere", lambda node: self.leaders(node) == len(self.nodes))
        self.rest()
        return self

    def leaders(self, node):
        """How many nodes lead something, as a node knows."""
        return len({port for _, port in self.leads(node)})

    def leads(self, node):
        """The first slot of each slot range and its leader's port, as this node knows them."""
        link = node.connect()
        leads = [(entry[0], entry[2][1]) for entry in link.call("CLUSTER", "SLOTS")]
        link.close()
        return leads

    def rest(self):
        """Waits until leads have stopped moving, as they do when there are new nodes."""
        deadline = time.monotonic() + FORM_SECONDS_MAX
        before, since = None, time.monotonic()
        while time.monotonic() - since < REST_SECONDS:
            leads = [self.leads(node) for node in self.nodes]
            if leads != before:
                before, since = leads, time.monotonic()
            if time.monotonic() > deadline:
                raise RuntimeError(f"leads do not come to rest: {leads}")
            time.sleep(0.1)

    def is_whole(self, node):
        """Whether a node knows each slot's leader, and all other nodes as holders."""
        link = node.connect()
        shards = link.call("CLUSTER", "SHARDS")
        fine = b"cluster_state:ok" in link.call("CLUSTER", "INFO")
        holders = [shard[3] for shard in shards]
        link.close()
        online = [all(b"online" in holder for holder in each) for each in holders]
        return fine and all(online) and all(len(each) == len(self.nodes) for each in holders)

    def leader(self, key=None):
        """The node that leads most slots, or that of a key."""
        link = self.nodes[0].connect()
        slot = None if key is None else link.call("CLUSTER", "KEYSLOT", key)
        slots = {}
        for entry in link.call("CLUSTER", "SLOTS"):
            first, last, leader = entry[:3]
            if slot is None or first <= slot <= last:
                slots[leader[1]] = slots.get(leader[1], 0) + last - first + 1
        link.close()
        port = max(slots, key=slots.get)
        return next(node for node in self.nodes if node.resp == port)

    def until(self, what, done):
        """Waits until every node is so."""
        deadline = time.monotonic() + FORM_SECONDS_MAX
        for node in self.nodes:
            while not fulfilled(done, node):
                if time.monotonic() > deadline:
                    raise RuntimeError(f"no {what} in time:\n{node.output_tail()}")
                time.sleep(0.05)

    def clean(self):
        """Kills what runs, and removes the directories."""
        for node in self.nodes:
            node.clean()


def fulfilled(done, node):
    """What `done` says of a node; no, if it does not answer."""
    try:
        return done(node)
    except Exception:  # pylint: disable=broad-except
        return False
