"""Lookups that a request names, through three nodes: LOOKUP, EXPLAIN ROUTE, ?lookup=, /v1/route."""

import http.client
import json
import time
import urllib.parse

from harness.resp import Error, encode

KINDS = ("full", "chord", "chord-sharp", "linear")
FORMS = ("iterative", "recursive", "semi-recursive")
FIELDS = ("lookup", "form", "images", "shard", "leader", "hops", "messages", "micros", "failure",
          "steps")


def same(expected, actual):
    """Fails unless both are equal."""
    assert expected == actual, f"expected {expected!r}, got {actual!r}"


def refused(said, text):
    """Fails unless a command was refused so."""
    assert isinstance(said, Error) and said.startswith(text), f"{said!r}, not {text!r}"


def pairs(flat):
    """A map as RESP2 has it."""
    return {name.decode(): value for name, value in zip(flat[::2], flat[1::2])}


def ways(said):
    """The ways of a reply to EXPLAIN ROUTE or LOOKUP LAST."""
    found = [pairs(way) for way in said]
    assert all(tuple(way) == FIELDS for way in found), found
    return found


def words(cluster):
    """What LOOKUP takes, and what it refuses."""
    link = cluster.nodes[0].connect()
    first = {"lookup": b"full", "form": b"iterative", "images": b"on", "route": b"off"}
    same(first, pairs(link.call("LOOKUP")))
    same(b"OK", link.call("lookup", "Chord", "RECURSIVE", "noimages"))
    chosen = {"lookup": b"chord", "form": b"recursive", "images": b"off", "route": b"off"}
    same(chosen, pairs(link.call("LOOKUP")))
    for wrong in (["kademlia"], ["chord", "sideways"], ["chord", ""], ["x" * 5000]):
        refused(link.pipeline([["LOOKUP", *wrong]])[0], "ERR ")
    refused(link.pipeline([["LOOKUP", "chord", "ROUTE"]])[0], "ERR replies carry routes in RESP3")
    refused(link.pipeline([["EXPLAIN", "ROUTE"]])[0], "ERR wrong number")
    refused(link.pipeline([["EXPLAIN", "ROUTE", "k", "all", "up"]])[0], "ERR ")
    refused(link.pipeline([["EXPLAIN", "PLAN", "k"]])[0], "ERR ")
    # A request that names two lookups is refused: it cannot mean one of them.
    for twice in (["chord", "linear"], ["chord", "recursive", "iterative"], ["noimages", "images"]):
        refused(link.pipeline([["LOOKUP", *twice]])[0], "ERR ")
    refused(link.pipeline([["EXPLAIN", "ROUTE", "k", "all", "chord"]])[0], "ERR ")
    refused(link.pipeline([["EXPLAIN", "ROUTE", "k", "alllinear"]])[0], "ERR ")
    # A refusal changes nothing.
    same(chosen, pairs(link.call("LOOKUP")))
    same(b"OK", link.call("MULTI"))
    refused(link.pipeline([["LOOKUP", "full"]])[0], "ERR LOOKUP is not allowed in transactions")
    link.call("DISCARD")
    same(b"OK", link.call("LOOKUP", "DEFAULT"))
    same(first, pairs(link.call("LOOKUP")))
    link.call("LOOKUP", "linear")
    link.call("GET", "words")
    same(1, len(link.call("LOOKUP", "LAST")))
    same(b"RESET", link.call("RESET"))
    same(first, pairs(link.call("LOOKUP")))
    same([], link.call("LOOKUP", "LAST"))
    link.close()


def commands(cluster):
    """Every kind of command does the same whatever lookup is named."""
    for number, node in enumerate(cluster.nodes):
        link = node.connect()
        for kind in (*KINDS, "lh"):
            for form in FORMS:
                for images in ("images", "noimages"):
                    same(b"OK", link.call("LOOKUP", kind, form, images))
                    some_commands(link, f"l{number}")
        link.close()


def some_commands(link, name):
    keys = [f"{name}-{n}" for n in range(6)]
    link.call("DEL", *keys)
    same(b"OK", link.call("MSET", keys[0], "1", keys[1], "2"))
    same([b"1", b"2", None], link.call("MGET", *keys[:3]))
    answers = link.pipeline([["INCR", keys[0]], ["GET", keys[0]], ["SET", keys[2], "x"],
                             ["GET", keys[2]], ["APPEND", keys[2], "y"], ["PING"]])
    same([2, b"2", b"OK", b"x", 2, b"PONG"], answers)
    same(b"OK", link.call("WATCH", keys[3]))
    same([b"OK", b"QUEUED", b"QUEUED"],
         link.pipeline([["MULTI"], ["SET", keys[3], "1"], ["INCR", keys[4]]]))
    same([b"OK", 1], link.call("EXEC"))
    same([b"OK", b"1", b"OK", b"OK"],
         link.pipeline([["BEGIN"], ["GET", keys[4]], ["SET", keys[5], "z"], ["COMMIT"]]))
    same(6, link.call("EXISTS", *keys))
    assert link.call("DBSIZE") >= 6


def routes(cluster):
    """All lookups find the same owner, by hops that are what they say."""
    for node in cluster.nodes:
        link = node.connect()
        for key in (f"r{n}" for n in range(20)):
            for form in FORMS:
                said = link.call("EXPLAIN", "ROUTE", key, "ALL", form, "NOIMAGES")
                found = {way["lookup"].decode(): way for way in ways(said)}
                same([*KINDS, "lh"], list(found))
                assert found.pop("lh")["failure"].startswith(b"no file"), "it is hashed"
                same(1, len({way["shard"] for way in found.values()}))
                same(1, len({way["leader"] for way in found.values()}))
                same(0, found.pop("full")["hops"])
                for name, way in found.items():
                    same(None, way["failure"])
                    steps = way["steps"]
                    same(way["hops"], sum(by != b"any node" for _, _, by, _ in steps))
                    assert way["messages"] <= 2 * len(steps) + 1, way
                    if steps:
                        same(way["shard"], steps[-1][0])
                        assert steps[-1][1] == way["leader"], way
                    if form == "iterative":
                        assert all(micros is not None for *_, micros in steps), way
                    if name == "linear":
                        # A node that leads nothing begins at any other.
                        begins = 1 if steps and steps[0][2] == b"any node" else 0
                        assert all(by == b"successor 0" for _, _, by, _ in steps[begins:]), way
        # The way of a command.
        link.call("LOOKUP", "chord", "recursive", "noimages")
        link.call("SET", "r1", "v")
        [way] = ways(link.call("LOOKUP", "LAST"))
        same((b"chord", b"recursive", b"off", None),
             tuple(way[name] for name in ("lookup", "form", "images", "failure")))
        # The node remembers the found owner: the next request asks no other node.
        link.call("LOOKUP", "linear", "images")
        link.call("GET", "r1")
        link.call("GET", "r1")
        [way] = ways(link.call("LOOKUP", "LAST"))
        same(0, way["hops"])
        link.close()


def attributes(cluster):
    """In RESP3 replies carry their routes, if a client wants them, each before its reply."""
    link = cluster.nodes[1].connect()
    link.call("HELLO", 3)
    same(b"OK", link.call("LOOKUP", "chord-sharp", "ROUTE"))
    link.send(encode(["SET", "a1", "x"]) + encode(["GET", "a1"]) + encode(["PING"])
              + encode(["MSET", "a1", "1", "a2", "2", "a3", "3"]) + encode(["LOOKUP", "full"]))
    received = b""
    until = time.monotonic() + 10
    while received.count(b"+OK") < 3 and time.monotonic() < until:
        received += link.socket.recv(1 << 16)
    # One before SET, GET and MSET; none before PING and LOOKUP.
    pieces = received.split(b"|1\r\n$5\r\nroute\r\n")
    same(4, len(pieces))
    same(b"", pieces[0])
    assert pieces[1].endswith(b"+OK\r\n"), pieces[1]
    assert pieces[2].endswith(b"$1\r\nx\r\n+PONG\r\n"), pieces[2]
    assert pieces[3].endswith(b"+OK\r\n+OK\r\n"), pieces[3]
    assert all(piece.startswith(b"*") and b"chord-sharp" in piece for piece in pieces[1:])
    link.close()


def ask(node, method, path, body=None):
    """Status, headers and body of an HTTP reply."""
    link = http.client.HTTPConnection(node.host, node.http, timeout=20)
    link.request(method, path, body)
    reply = link.getresponse()
    answer = reply.status, dict(reply.getheaders()), reply.read()
    link.close()
    return answer


def by_http(cluster):
    """A parameter names the lookup, and a header says by which way."""
    for node in cluster.nodes:
        for words in ("chord", "chord-sharp recursive", "linear semi-recursive noimages", "full"):
            query = "?lookup=" + urllib.parse.quote(words)
            for method, body, status in (("PUT", b"v", 204), ("GET", None, 200),
                                         ("DELETE", None, 204), ("GET", None, 404)):
                found, headers, _ = ask(node, method, "/v1/kv/0/h1" + query, body)
                same(status, found)
                route = headers["carillon-route"]
                assert route.startswith(f"lookup={words.split()[0]}; form="), route
                assert "failure" not in route and "shard=" in route, route
        found, headers, _ = ask(node, "GET", "/v1/kv/0/h1")
        assert found == 404 and "carillon-route" not in headers
        found, _, body = ask(node, "GET", "/v1/kv/0/h1?lookup=kademlia")
        assert found == 400 and b"no lookup" in body, body
        found, _, body = ask(node, "GET", "/v1/route/0/h1?lookup=all+noimages")
        same(200, found)
        listed = json.loads(body)
        same(["full", "chord", "chord-sharp", "linear", "lh"], [way["lookup"] for way in listed])
        same(1, len({way["shard"] for way in listed[:4]}))
        for query, count in (("", 5), ("?lookup=", 5), ("?lookup=recursive", 5),
                             ("?lookup=linear+recursive", 1)):
            found, _, body = ask(node, "GET", "/v1/route/0/h1" + query)
            same((200, count), (found, len(json.loads(body))))
        for wrong in ("alllinear", "all+chord", "chord+linear", "kademlia"):
            same(400, ask(node, "GET", "/v1/route/0/h1?lookup=" + wrong)[0])
        same(404, ask(node, "GET", "/v1/route/nowhere/h1")[0])
        _, _, body = ask(node, "GET", "/metrics")
        for name in (b'carillon_lookup_hops_bucket{lookup="chord",form="iterative",le="3"}',
                     b'carillon_lookup_seconds_count{lookup="linear",form="semi-recursive"}',
                     b'carillon_lookup_entries{lookup="chord-sharp"}',
                     b'carillon_lookup_bytes_total{type="ring_ask",direction="sent"}'):
            assert name in body, name


def with_one_dead(cluster):
    """Tables lead to a node that is dead: requests succeed all the same, and soon as before."""
    dead = cluster.leader()
    others = [node for node in cluster.nodes if node is not dead]
    dead.kill()
    links = [node.connect() for node in others]
    try:
        for link in links:
            link.call("LOOKUP", "chord", "recursive", "noimages")
        until = time.monotonic() + 4
        while time.monotonic() < until:
            for number, link in enumerate(links):
                key = f"d{number}-{int(time.monotonic() * 1000) % 97}"
                said = link.pipeline([["SET", key, "v"]])[0]
                assert said == b"OK" or said.startswith(("TRYAGAIN", "UNKNOWN")), said
    finally:
        dead.spawn()
    dead.wait_ready()
    cluster.until("cluster after the kill", cluster.is_whole)
    until = time.monotonic() + 30
    while True:
        found = [way for link in links for n in range(50)
                 for way in ways(link.call("EXPLAIN", "ROUTE", f"d{n}", "chord"))]
        if all(way["failure"] is None for way in found):
            break
        assert time.monotonic() < until, found
        time.sleep(0.5)
    for link in links:
        link.close()
