"""What COMMAND tells of the commands that both servers have, compared field by field.

Arity, flags, categories, key places and tips are equal, in any order where Redis has none. Of COMMAND DOCS, group,
version and what stands in a command's place are equal; summaries and complexities are each server's own. What Carillon
leaves out of Redis's subcommands it refuses by name.
"""

from harness import resp

DOCS = (b"since", b"group", b"doc_flags", b"deprecated_since", b"replaced_by")
# Calls of COMMAND whose replies are equal byte for byte.
CALLS = [
    "INFO nosuch", "INFO get nosuch set", "INFO client|id", "INFO get|x", "INFO client|nosuch", "INFO nosuch|x",
    "LIST FILTERBY ACLCAT nosuch", "LIST FILTERBY MODULE x", "LIST FILTERBY PATTERN nosuch*", "LIST FILTERBY",
    "LIST FILTERBY PATTERN", "LIST FILTERBY x y", "LIST x", "DOCS nosuch", "COUNT x", "GETKEYS", "GETKEYS PING",
    "GETKEYS PING x", "GETKEYS nosuch a", "GETKEYS get", "GETKEYS get a b", "GETKEYS client id", "GETKEYS client nosuch",
    "GETKEYS mset a 1 b 2", "GETKEYS mset a 1 b", "GETKEYS object encoding k", "GETKEYS memory usage k",
    "GETKEYS memory usage k samples 3", "GETKEYS copy a b DB 3", "GETKEYS lcs a b", "GETKEYS del a b c a",
    "GETKEYS watch a b", "GETKEYS rename a b", "GETKEYS slowlog get 1", "GETKEYS multi x", "GETKEYS set k v NX",
    "GETKEYSANDFLAGS set k v", "GETKEYSANDFLAGS set k v GET", "GETKEYSANDFLAGS mset a 1 b 2", "GETKEYSANDFLAGS ping x",
    "GETKEYSANDFLAGS getex k", "GETKEYSANDFLAGS copy a b", "GETKEYSANDFLAGS renamenx a b", "GETKEYSANDFLAGS exists a b",
    "GETKEYSANDFLAGS memory usage k", "GETKEYSANDFLAGS get",
]


def check(reference, target, protocol, name):
    """Fails at the first difference; which command, and what of it."""
    links = [server.connect() for server in (reference, target)]
    for link in links:
        link.call("HELLO", protocol)
    try:
        if name == "calls":
            return calls(*links)
        return (infos if name == "info" else docs)(*[told(link, name) for link in links])
    finally:
        for link in links:
            link.close()


def told(link, name):
    """What is told of each command and subcommand, by its name."""
    found = {}
    if name == "info":
        for info in link.call("COMMAND"):
            for each in (info, *info[9]):
                found[each[0]] = [unordered(part) for part in each[:9]]
        listed = link.call("COMMAND", "LIST")
        assert sorted(listed) == sorted(found), "COMMAND and COMMAND LIST differ"
        assert link.call("COMMAND", "COUNT") == sum(b"|" not in name for name in found), "COUNT"
        return found
    for name, doc in pairs(link.call("COMMAND", "DOCS")).items():
        found[name] = pairs(doc)
        for sub, doc in pairs(found[name].get(b"subcommands", [])).items():
            found[sub] = pairs(doc)
    return found


def pairs(told_as):
    """A map, which RESP2 gives as a list."""
    return told_as if isinstance(told_as, dict) else dict(zip(told_as[::2], told_as[1::2]))


def unordered(part):
    """Lists of flags have no order."""
    return sorted(map(repr, part)) if isinstance(part, (list, set, tuple)) else part


def infos(redis, target):
    """COMMAND."""
    both = sorted(redis.keys() & target.keys())
    assert len(both) > 120, both
    for name in both:
        same(name, redis[name], target[name])


def docs(redis, target):
    """COMMAND DOCS."""
    for name in sorted(redis.keys() & target.keys()):
        same(name, *({field: each[name].get(field) for field in DOCS} for each in (redis, target)))
        # A few of Redis's have no complexity.
        for field in [b"summary", *({b"complexity"} & redis[name].keys())]:
            assert target[name][field], (name, field)


def calls(redis, target):
    """Everything else, byte for byte."""
    for line in CALLS:
        replies = []
        for link in (redis, target):
            link.send(resp.encode(["COMMAND", *line.split()]))
            replies.append(link.read()[0])
        same(line, *replies)


def same(what, expected, actual):
    """Fails unless both are equal."""
    assert expected == actual, f"{what}: redis {expected!r:.600}, target {actual!r:.600}"
