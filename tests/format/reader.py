"""Reads a node's data directory by docs/format.md alone.

Written from the document, section by section, without a look at the code: if it reads what a node
wrote, the document is complete. Whatever the document does not allow is an error.
"""

import binascii
import struct
import zlib
from pathlib import Path

VALUE_BYTES_MAX = 512 << 20
SLOTS = 16384


class Damage(Exception):
    """Bytes that are not what the document says."""


def check(holds, what):
    if not holds:
        raise Damage(what)


def crc(seed, data):
    return zlib.crc32(data, seed)


def slot(key):
    """Which slot a key lies in: CRC16 (XMODEM) of its hash tag."""
    opened = key.find(b"{")
    closed = key.find(b"}", opened + 1)
    if opened >= 0 and closed > opened + 1:
        key = key[opened + 1 : closed]
    return binascii.crc_hqx(key, 0) % SLOTS


def turned(key):
    """A key's number as the eight bytes of an end: SipHash-1-3 without a key, its bits reversed."""
    mask = (1 << 64) - 1
    v = [0x736F6D6570736575, 0x646F72616E646F6D, 0x6C7967656E657261, 0x7465646279746573]

    def rotate(x, by):
        return (x << by | x >> (64 - by)) & mask

    def turn():
        v[0] = (v[0] + v[1]) & mask
        v[1] = rotate(v[1], 13) ^ v[0]
        v[0] = rotate(v[0], 32)
        v[2] = (v[2] + v[3]) & mask
        v[3] = rotate(v[3], 16) ^ v[2]
        v[0] = (v[0] + v[3]) & mask
        v[3] = rotate(v[3], 21) ^ v[0]
        v[2] = (v[2] + v[1]) & mask
        v[1] = rotate(v[1], 17) ^ v[2]
        v[2] = rotate(v[2], 32)

    whole = key + bytes(-(len(key) + 1) % 8) + bytes([len(key) & 255])
    for (word,) in struct.iter_unpack("<Q", whole):
        v[3] ^= word
        turn()
        v[0] ^= word
    v[2] ^= 255
    for _ in range(3):
        turn()
    number = v[0] ^ v[1] ^ v[2] ^ v[3]
    return int(f"{number:064b}"[::-1], 2).to_bytes(8, "big")


def is_number(place):
    """Whether an end, or a place of a cut, is a number: no key of a cut has eight bytes."""
    return isinstance(place, bytes) and len(place) == 8 and any(place)


def is_from(place, key):
    """Whether a key lies at or behind a slot, number or key."""
    if isinstance(place, int):
        return slot(key) >= place
    return (turned(key) if is_number(place) else key) >= place


def u64s(*numbers):
    return struct.pack(f"<{len(numbers)}Q", *numbers)


class Reader:
    """Words of section 5.1 from the front of some bytes."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, count):
        piece = self.data[self.at : self.at + count]
        check(len(piece) == count, "short")
        self.at += count
        return piece

    def number(self, form):
        return struct.unpack("<" + form, self.take(struct.calcsize("<" + form)))[0]

    def varint(self):
        value, shift = 0, 0
        while True:
            byte = self.number("B")
            value |= (byte & 127) << shift
            if byte < 128:
                check(byte or not shift, "a varint that is too long")
                return value
            shift += 7

    def list(self):
        """A count and that many `bytes`."""
        return [self.counted() for _ in range(self.varint())]

    def counted(self):
        return self.take(self.varint())

    def place(self):
        """A slot, a key, or a number as its eight bytes, as a split names it."""
        slot = self.varint()
        check(slot <= SLOTS + 2, "a slot")
        if slot == SLOTS + 2:
            number = self.number("Q")
            check(number, "a number of a cut")
            return number.to_bytes(8, "big")
        key = self.counted() if slot == SLOTS + 1 else slot
        check(not is_number(key), "a key of a cut")
        return key

    def rest(self):
        return self.take(len(self.data) - self.at)

    def end(self):
        check(self.at == len(self.data), "bytes are left over")


class Manifest:
    """Section 4."""

    def __init__(self, data):
        check(data[:8] == b"CARIMANI", "magic of the manifest")
        version, self_crc, size, count = struct.unpack_from("<4I", data, 8)
        check(version == 2 and size == len(data), "manifest")
        check(self_crc == crc(0, data[:12] + data[16:]), "checksum of the manifest")
        self.cluster, self.node = struct.unpack_from("<2Q", data, 24)
        self.log_start, self.salt = struct.unpack_from("<2Q", data, 56)
        self.joined_at, self.origin, reserved = struct.unpack_from("<Q2I", data, 72)
        check(self.origin in (1, 2) and reserved == 0, "origin of the node")
        pairs = [struct.unpack_from("<2Q", data, 88 + 16 * n) for n in range(count)]
        self.checkpoints = dict(pairs)
        check(len(data) == 88 + 16 * count, "size of the manifest")


def read_log(directory, manifest):
    """Section 2: the records (shard, kind, payload) from log_start on, and whether a tail is torn."""
    seed = crc(crc(0, u64s(manifest.cluster)), u64s(manifest.salt))
    files = {int(p.name[4:20], 16): p for p in directory.glob("log-*.seg")}
    start = max(s for s in files if s <= manifest.log_start)
    position = max(manifest.log_start, start + 64)
    incarnation = 0
    while True:
        data = files[start].read_bytes()
        magic, version, zero, cluster, salt, own, capacity = struct.unpack_from("<8sII4Q", data)
        check(magic == b"CARILOG\0" and version == 1 and zero == 0, "segment header")
        check((cluster, salt, own) == (manifest.cluster, manifest.salt, start), "segment header")
        check(struct.unpack_from("<I", data, 60)[0] == crc(0, data[:60]), "segment checksum")
        check(len(data) == capacity, "length of a segment")
        while True:
            at = position - start
            head = data[at : at + 48]
            if len(head) < 48 or head[:4] != b"CGRP":
                return
            header_crc, own, durable, inc, flags, size, count, payload_crc, _zero = (
                struct.unpack_from("<IQQ6I", head, 4)
            )
            payload = data[at + 48 : at + 48 + size]
            valid = header_crc == crc(seed, head[8:]) and own == position and durable <= own
            if not valid or inc < incarnation or payload_crc != crc(seed, payload):
                return
            incarnation = inc
            reader = Reader(payload)
            for _ in range(count):
                shard, length, kind = reader.number("Q"), reader.number("I"), reader.number("B")
                yield shard, kind, reader.take(length)
            reader.end()
            position += 48 + (size + 7) // 8 * 8
            if flags & 1:
                break
        start += capacity
        position = start + 64


def read_checkpoint(path, cluster, shard, index):
    """Section 3: meta and blocks."""
    data = path.read_bytes()
    seed = crc(0, u64s(cluster, shard, index))
    magic, version, meta_bytes, *ids, meta_crc, head_crc = struct.unpack_from("<8sII3Q2I", data)
    check(magic == b"CARICKPT" and version == 4, "checkpoint header")
    check(ids == [cluster, shard, index], "checkpoint ids")
    meta, at = data[48 : 48 + meta_bytes], 48 + meta_bytes
    check(head_crc == crc(0, data[:44]) and meta_crc == crc(seed, meta), "checkpoint header")
    blocks = []
    while True:
        length, block_crc = struct.unpack_from("<2I", data, at)
        block_seed = crc(seed, u64s(len(blocks)))
        if length == 0xFFFFFFFF:
            footer = data[at + 8 :]
            check(block_crc == crc(block_seed, footer), "footer")
            check(footer == u64s(len(blocks), sum(map(len, blocks))), "footer")
            return meta, blocks
        block = data[at + 8 : at + 8 + length]
        check(block_crc == crc(block_seed, block), "block")
        blocks.append(block)
        at += 8 + length


def read_descriptor(reader):
    """Section 5.6."""
    check(reader.number("B") == 1, "version of a descriptor")
    found = {"shard": reader.varint(), "generation": reader.varint(), "keyspace": reader.varint()}
    found["start"], found["end"] = reader.counted(), reader.counted()
    reader.varint()
    for _ in range(reader.varint()):
        reader.varint()
        reader.number("Q")
    return found


def writer_of(reader):
    """Section 5.4: epoch and session."""
    return reader.number("Q"), reader.number("Q")


def joined(one, other):
    """Section 5.4: the fence of two shards that become one."""
    earlier, later = sorted([one, other])
    refused = earlier[2] if earlier[1] == later[1] else earlier[0]
    return (*later[:2], max(later[2], refused))


def read_options(reader):
    options = [reader.number("B"), reader.number("B"), reader.varint(), reader.number("B")]
    volume = [reader.varint(), reader.varint()] if options[1] & 64 else None
    check(volume or not options[1] & 32, "who may write to a keyspace that is no volume")
    if options[1] & 16:
        check(volume, "an origin of no volume")
        # A clone, of a volume and a time; or one that has had all since a time.
        tag = reader.number("B")
        check(tag in (1, 2), "the origin of a volume")
        volume += [reader.varint(), reader.number("Q")] if tag == 1 else [None, reader.number("Q")]
    return [options[0], options[1] & 3, options[2], options[3], volume]


class Catalogue:
    """Section 5.5: keyspaces by name, each with id, options and shards; admin states."""

    def __init__(self):
        self.next_keyspace = self.next_shard = 1
        self.keyspaces = {}
        self.files = {}
        self.admin_states = {}
        self.cluster_version = 1
        self.script_epoch, self.libraries = 0, {}

    def set_standing(self, reader):
        node, standing = reader.number("Q"), reader.number("B")
        among = [reader.number("Q") for _ in range(reader.varint())]
        reader.end()
        check(among == sorted(set(among)) and standing in (0, 1, 2, 3), "operation on a node")
        before = self.admin_states.get(node, 0)
        if before == standing or before == 3 or (standing == 3 and before != 2):
            return
        if standing in (1, 2) and before == 0 and node in among:
            left = [other for other in among if other != node and not self.admin_states.get(other)]
            if len(left) < max([1] + [options[3] for _, options, _ in self.keyspaces.values()]):
                return
        self.admin_states.pop(node, None)
        if standing:
            self.admin_states[node] = standing

    def read_file(self, reader):
        """How large the file of a keyspace of linear hashing is."""
        buckets, turn, step = reader.varint(), reader.varint(), reader.number("B")
        check(1 <= buckets + (0, 1, -1)[step] <= 65536 and 1 <= buckets <= 65536, "file")
        return [buckets, turn, step]

    def act(self, reader):
        """An operation on such a file."""
        keyspace, turn, act = reader.varint(), reader.varint(), reader.number("B")
        reader.end()
        check(act < 4, "operation on a file")
        file = self.files.get(keyspace)
        if file is None or file[1] != turn or (act < 2) != (file[2] == 0):
            return
        buckets = file[0] + (0, 1, -1)[file[2] if act == 3 else act + 1 if act < 2 else 0]
        if act == 2:
            self.next_shard += file[2] == 1
        elif 1 <= buckets <= 65536:
            self.files[keyspace] = [buckets, turn + 1, 0] if act == 3 else [file[0], turn + 1, act + 1]

    def read(self, reader):
        version = reader.number("B")
        check(version in (2, 3, 4, 5), "version of the catalogue")
        self.next_keyspace, self.next_shard = reader.varint(), reader.varint()
        for _ in range(reader.varint()):
            name, number, options = reader.counted(), reader.varint(), read_options(reader)
            shards = [reader.varint() for _ in range(reader.varint())]
            for _ in range(reader.number("B")):
                reader.number("Q")
            self.keyspaces[name] = (number, options, shards)
            if options[0] == 2:
                self.files[number] = self.read_file(reader)
        for _ in range(reader.varint() if version >= 3 else 0):
            node, standing = reader.number("Q"), reader.number("B")
            check(standing in (1, 2, 3), "standing")
            self.admin_states[node] = standing
        check(version != 3 or self.admin_states, "admin_states")
        if version >= 4:
            self.cluster_version = reader.number("B")
            check(self.cluster_version >= 2, "cluster version")
        if version == 5:
            self.script_epoch = reader.varint()
            self.libraries = read_libraries(reader)
            check(self.script_epoch or self.libraries, "version 5 without libraries")

    def change_libraries(self, reader):
        """Operation 8."""
        what, before = reader.number("B"), dict(self.libraries)
        check(self.cluster_version >= 2, "libraries above the cluster version")
        if what == 1:
            replace = reader.number("B")
            name, library = read_library(reader)
            if name in self.libraries and not replace:
                return reader.end()
            self.libraries[name] = library
        elif what == 2:
            self.libraries.pop(reader.counted(), None)
        elif what == 3:
            self.libraries = {}
        elif what == 4:
            policy, restored = reader.number("B"), read_libraries(reader)
            check(policy in (0, 1, 2), "restore policy")
            kept = {} if policy == 2 else self.libraries
            if policy == 1 or not kept.keys() & restored.keys():
                self.libraries = {**kept, **restored}
        else:
            check(what == 5, "operation on libraries")
            self.script_epoch += 1
        reader.end()
        # A function of two libraries, or too many bytes: nothing is changed.
        names = [set(map(bytes.lower, functions)) for _, functions in self.libraries.values()]
        size = sum(size for size, _ in self.libraries.values())
        if len(set().union(*names)) < sum(map(len, names)) or size > 1 << 20:
            self.libraries = before

    def apply(self, reader):
        op = reader.number("B")
        if op == 4:
            self.set_standing(reader)
            return
        if op == 5:
            reader.varint()
            reader.end()
            self.next_shard += 1
            return
        if op == 6:
            version = reader.number("B")
            reader.end()
            check(version > 0, "cluster version")
            if version == self.cluster_version + 1:
                self.cluster_version = version
            return
        if op == 7:
            self.act(reader)
            return
        if op == 8:
            self.change_libraries(reader)
            return
        name = reader.counted()
        if op == 1:
            options = read_options(reader)
            check(options[0] < 2 or self.cluster_version >= 2, "placement above the cluster version")
            if name not in self.keyspaces:
                if options[0] == 2:
                    self.files[self.next_keyspace] = [1, 0, 0]
                count = 1 if options[0] else 8
                shards = list(range(self.next_shard, self.next_shard + count))
                self.keyspaces[name] = (self.next_keyspace, options, shards)
                self.next_keyspace += 1
                self.next_shard += count
        elif op == 2:
            flags = reader.number("B")
            durability = reader.number("B") if flags & 1 else None
            retention = reader.varint() if flags & 2 else None
            replicas = reader.number("B") if flags & 4 else None
            if flags & 8:
                reader.number("B")
            volume_bytes = reader.varint() if flags & 16 else None
            flattened_at = reader.number("Q") if flags & 32 else None
            if name in self.keyspaces:
                options = self.keyspaces[name][1]
                options[1] = options[1] if durability is None else durability
                options[2] = options[2] if retention is None else retention
                options[3] = options[3] if replicas is None else replicas
                if volume_bytes is not None and options[4]:
                    options[4][0] = volume_bytes
                if flattened_at is not None and options[4]:
                    options[4][2:] = [None, flattened_at]
        else:
            check(op == 3, "catalogue operation")
            self.files.pop(self.keyspaces.pop(name, (0,))[0], None)
        reader.end()


def read_library(reader):
    """Section 5.5: its name, its size and the names of its functions."""
    name, size, functions = reader.counted(), 0, []
    size = len(name) + len(reader.counted())
    for _ in range(reader.varint()):
        functions.append(reader.counted())
        check(reader.number("B") < 32, "flags of a function")
        described = reader.number("B")
        check(described in (0, 1), "description of a function")
        size += len(functions[-1]) + (len(reader.counted()) if described else 0) + 4
    check(functions and functions == sorted(set(functions)), "functions of a library")
    return name, (size, functions)


def read_libraries(reader):
    """A count, and libraries by rising name."""
    all_of_them = [read_library(reader) for _ in range(reader.varint())]
    names = [name for name, _ in all_of_them]
    check(names == sorted(set(names)), "order of libraries")
    return dict(all_of_them)


class Shard:
    """One shard's newest values: key to (value, expiry)."""

    def __init__(self, birth):
        reader = Reader(birth)
        self.placement = reader.number("B")
        self.descriptor = read_descriptor(reader)
        reader.end()
        self.index, self.last = 1, 0
        self.values = {}
        self.sessions = {}
        self.catalogue = Catalogue()
        self.halves = {}
        self.merging = None
        self.fence = (0, 0, 0)
        self.times, self.stamp = {}, 0
        self.locks, self.records, self.marks, self.floors = {}, {}, set(), {}

    @classmethod
    def from_checkpoint(cls, meta, blocks):
        """Section 6."""
        reader = Reader(meta)
        shard = cls(reader.counted())
        numbers = [reader.number("Q") for _ in range(9)]
        for _ in range(4):
            for _ in range(reader.varint()):
                reader.varint()
        newest, going = reader.varint(), [reader.varint() for _ in range(reader.varint())]
        check(newest > 0 and all(replica <= newest for replica in going), "who will go")
        check(reader.number("B") in (0, 1), "whether a change is settled")
        tag = reader.number("B") if reader.at < len(meta) else 0
        if tag == 4:
            pins = [reader.number("Q") for _ in range(reader.varint())]
            check(pins and pins == sorted(set(pins)), "pins")
            tag = reader.number("B") if reader.at < len(meta) else 0
        if tag == 5:
            shard.fence = tuple(reader.number("Q") for _ in range(3))
            check(shard.fence[0] > shard.fence[2], "a fence above its floor")
            tag = reader.number("B") if reader.at < len(meta) else 0
        if tag:
            check(tag in (1, 2, 3), "state of a merge")
            shard.merging = (tag, *(reader.varint() for _ in range(6 if tag == 3 else 2)))
        reader.end()
        shard.index, shard.last = numbers[0], numbers[3]
        if shard.placement != 2:
            shard.read_first_block(Reader(blocks.pop(0)))
        for block in blocks:
            reader = Reader(block)
            if shard.placement == 2:
                shard.catalogue.read(reader)
                for _ in range(reader.varint()):
                    reader.varint()
                    reader.number("Q")
            else:
                while reader.at < len(block):
                    shard.version(Reader(reader.take(reader.number("I"))))
            reader.end()
        return shard

    def read_first_block(self, reader):
        """Section 6.2: which batches were applied, and what transactions have locked."""
        for _ in range(reader.varint()):
            number, following = reader.number("Q"), reader.varint()
            reader.varint()
            self.sessions[number] = [following, reader.varint()]
            for _ in range(reader.varint()):
                reader.varint()
                if reader.number("B"):
                    reader.counted()
        if reader.at < len(reader.data):
            self.read_locks(reader)
        reader.end()

    def read_locks(self, reader):
        for _ in range(reader.varint()):
            key, name = reader.counted(), read_id(reader)
            reader.counted(), reader.number("Q")
            intent = reader.number("B")
            if intent == 1:
                expiry = reader.number("Q")
                intent = (reader.counted(), expiry)
            reach = reader.number("B")
            if reach & 4:
                reader.number("Q")
            reach &= 3
            end = {0: key, 1: None, 2: b""}[reach]
            end = reader.counted() if end is None else end
            skip_answers(reader)
            self.locks[key] = (name, intent, end)
        for _ in range(reader.varint()):
            name, key = read_id(reader), reader.counted()
            outcome, keys = read_outcome(reader), reader.list()
            self.records[name] = [key, outcome, keys]
        for _ in range(reader.varint()):
            name, key = read_id(reader), reader.counted()
            if reader.number("B"):
                reader.number("Q"), reader.number("Q")
                skip_answers(reader)
            self.marks.add((name, key))
        for _ in range(reader.varint() if reader.at < len(reader.data) else 0):
            by = reader.number("Q")
            self.floors[by] = reader.number("Q")

    def is_due(self, reader, now):
        """Section 5.3, kind 7: whether a batch is to be applied."""
        number, sequence, _, sent = (reader.number("Q") for _ in range(4))
        self.sessions = {n: s for n, s in self.sessions.items() if s[1] + 60_000 > now}
        following, newest = self.sessions.get(number, [1, 0])
        if sent + 60_000 <= now or sent > now + 500 or sequence != following:
            return False
        self.sessions[number] = [following + 1, max(newest, sent)]
        return True

    def version(self, reader):
        kind, timestamp = reader.number("B"), reader.number("Q")
        check(timestamp <= self.last, "a version after the checkpoint")
        if kind == 1:
            expiry, key_bytes = reader.number("Q"), reader.number("I")
            key = reader.take(key_bytes)
            self.values[key], self.times[key] = (reader.rest(), expiry), timestamp
        elif kind == 2:
            self.values.pop(reader.rest(), None)
        else:
            check(kind == 3, "kind of a version")
            reader.end()
            self.values.clear()

    def entry(self, payload, shards):
        """Section 5.3. Which shard ends with it, if one does."""
        reader = Reader(payload)
        index, term = reader.number("Q"), reader.number("Q")
        if index <= self.index:
            return
        check(index == self.index + 1, f"a gap before entry {index}")
        self.index = index
        if reader.at == len(payload):
            return
        kind, timestamp = reader.number("B"), reader.number("Q")
        proposer, count = reader.number("Q"), reader.number("I")
        if proposer != term:
            return
        check(timestamp > self.last, "timestamps rise")
        self.last = self.stamp = timestamp
        if kind == 11:
            return self.merge(reader, shards)
        if self.merging and self.merging[0] == 3:
            return
        if kind == 1 or (kind == 7 and self.is_due(reader, timestamp >> 16)):
            for _ in range(count):
                self.command(reader, timestamp >> 16)
            reader.end()
        elif kind == 4:
            self.catalogue.apply(reader)
        elif kind == 12:
            for _ in range(count):
                self.step(reader, timestamp)
            reader.end()
        else:
            check(kind == 7 or (kind in (2, 3, 5, 8, 9, 10) and count == 1), "kind of an entry")
            if kind == 10:
                self.split(reader)

    def slots(self):
        """The slots of a hashed shard's arc."""
        first, end = (int.from_bytes(self.descriptor[at], "big") for at in ("start", "end"))
        return range(first, end or SLOTS)

    def split(self, reader):
        """Section 5.3, kind 10; replicas of a node alone never change."""
        number, generation, at = reader.varint(), reader.varint(), reader.place()
        key = at if isinstance(at, bytes) else None
        reader.end()
        if self.placement == 0:
            fits = key is None and at in self.slots()[1:]
            start, is_right = at.to_bytes(2, "big"), lambda other: slot(other) >= at
        elif self.placement == 3:
            fits = key is not None and key == self.middle()
            start, is_right = key, lambda other: turned(other) >= key
        else:
            fits = key is not None and key != self.descriptor["start"] and self.owns(key)
            start, is_right = key, lambda other: other >= key
        if generation != self.descriptor["generation"] or not fits or self.merging:
            return
        right = object.__new__(Shard)
        right.merging, right.fence = None, self.fence
        right.placement, right.index, right.last = self.placement, 1, self.last
        right.sessions, right.catalogue, right.halves = {}, Catalogue(), {}
        self.descriptor["generation"] = generation + 1
        right.descriptor = {**self.descriptor, "shard": number, "start": start}
        self.descriptor["end"] = start
        right.values = {k: v for k, v in self.values.items() if is_right(k)}
        self.values = {k: v for k, v in self.values.items() if not is_right(k)}
        right.times, right.stamp = self.times, 0
        right.locks = {k: v for k, v in self.locks.items() if is_right(k)}
        for low, (name, intent, high) in list(self.locks.items()):
            if not is_right(low) and lies_in(start, [(low, high)] if low != high else []):
                right.locks[start] = (name, right.locks.get(start, (0, 0))[1], high)
                self.locks[low] = (name, intent, start)
        right.records = {n: r for n, r in self.records.items() if is_right(r[0])}
        right.marks = {mark for mark in self.marks if is_right(mark[1])}
        right.floors = dict(self.floors)
        self.halves[number] = right

    def middle(self):
        """Where a shard of linear hashing is cut: its arc's width is a power of two."""
        first, end = (int.from_bytes(self.descriptor[at], "big") for at in ("start", "end"))
        return ((first + (end or 1 << 64)) // 2).to_bytes(8, "big")

    def merge(self, reader, shards):
        """Section 5.3, kind 11; with one node all that is needed is at hand."""
        step, first = reader.number("B"), reader.varint()
        rest = [reader.varint() for _ in range([2, 2, 3, 0, 0, 0][step])]
        reader.end()
        ours = self.descriptor["generation"]
        state = self.merging[0] if self.merging else 0
        if step == 0 and rest[1] == ours and state == 0:
            self.merging = (1, first, rest[0])
        elif step == 1 and rest[1] == ours and state == 0:
            self.merging = (3, first, rest[0], self.index)
        elif step == 2 and rest[2] == ours and state == 1 and self.merging[1] == first:
            right = shards[first]
            check(right.merging[0] == 3 and right.merging[3] == rest[0], "what is taken in")
            check(self.descriptor["end"] == right.descriptor["start"], "neighbours")
            self.descriptor["end"] = right.descriptor["end"]
            self.descriptor["generation"] = max(ours, right.descriptor["generation"]) + 1
            self.values.update(right.values)
            self.sessions.update(right.sessions)
            self.times = {**right.times, **self.times}
            self.times.update({key: right.times.get(key) for key in right.values})
            self.locks.update(right.locks)
            self.records.update(right.records)
            self.marks |= right.marks
            self.floors |= {by: max(time, self.floors.get(by, 0)) for by, time in right.floors.items()}
            self.halves.update(right.halves)
            self.fence = joined(self.fence, right.fence)
            self.merging = None
            return first
        elif step == 3 and first == ours and state == 1:
            self.merging = (2, *self.merging[1:])
            self.descriptor["generation"] += 1
        elif step == 4 and first == ours:
            self.merging = None if state == 3 else self.merging
            self.descriptor["generation"] += 1
        elif step == 5 and state == 2:
            self.merging = None

    def owns(self, *keys):
        """Section 5.4: a command on keys of another shard does nothing."""
        if self.placement == 0:
            return all(slot(key) in self.slots() for key in keys)
        start, end = self.descriptor["start"], self.descriptor["end"]
        if self.placement == 3:
            keys = [turned(key) for key in keys]
        return all(start <= key and (not end or key < end) for key in keys)

    def get(self, key, now):
        value, expiry = self.values.get(key, (None, 0))
        return (None, 0) if expiry and expiry <= now else (value, expiry)

    def put(self, key, value, expiry, now):
        if not self.owns(key):
            return
        if expiry and expiry <= now:
            self.values.pop(key, None)
        else:
            self.values[key], self.times[key] = (value, expiry), self.stamp

    def command(self, reader, now):
        """Section 5.4."""
        op = reader.number("B")
        if op in (14, 15, 16):
            first = reader.place() if op == 16 else None
            end = reader.place() if op > 14 else None
            check(first != SLOTS and end != 0, "ends of a flush")
            self.flush(first, end)
        elif op == 1:
            self.set(reader, now)
        elif op == 11:
            pairs = [(reader.counted(), reader.counted()) for _ in range(reader.varint())]
            are_here = self.owns(*(key for key, _ in pairs))
            if are_here and all(self.get(key, now)[0] is None for key, _ in pairs):
                for key, value in pairs:
                    self.put(key, value, 0, now)
        elif op in (12, 13):
            flag, source, target = reader.number("B"), reader.counted(), reader.counted()
            if self.owns(source, target):
                self.move(op == 13, flag, source, target, now)
        elif op in (2, 3):
            self.values.pop(reader.counted(), None)
        elif op == 17:
            self.transaction(reader, now)
        elif op == 19:
            self.block(reader, now)
        elif op == 20:
            self.raise_fence(reader)
        else:
            flags = reader.number("B") if op in (4, 9) else None
            key = reader.counted()
            value, expiry = self.get(key, now)
            self.change(op, flags, reader, key, value, expiry, now)

    def block(self, reader, now):
        """Section 5.4, op 19."""
        epoch, session, key = *writer_of(reader), reader.counted()
        value = reader.counted() if reader.number("B") else None
        if self.owns(key) and session == self.fence[1] and epoch > self.fence[2]:
            if value is not None:
                self.put(key, value, 0, now)
            else:
                self.values.pop(key, None)

    def raise_fence(self, reader):
        """Section 5.4, op 20."""
        epoch, session = writer_of(reader)
        first, end = reader.place(), reader.place()
        check(first != SLOTS and end != 0, "ends of a fence")
        before, its, floor = self.fence
        if not self.begins(first):
            return
        if session == its and epoch > floor:
            self.fence = (max(epoch, before), session, floor)
        elif session != its and epoch > before:
            self.fence = (epoch, session, before)

    def transaction(self, reader, now):
        """Section 5.4, op 17."""
        if reader.varint():
            raise Damage("a transaction that watches keys is not read here")
        steps = [(reader.at, keys_of_step(reader)) for _ in range(reader.varint())]
        check(ranges_of(reader) == [], "ranges of a command")
        if self.owns(*(key for _, keys in steps for key in keys)):
            for at, _ in steps:
                if reader.data[at] < 64:
                    again = Reader(reader.data)
                    again.at = at
                    self.command(again, now)

    def step(self, reader, timestamp):
        """Section 5.3, kind 12."""
        tag, name = reader.number("B"), read_id(reader)
        now = timestamp >> 16
        if tag == 1:
            self.prepare(reader, name, timestamp)
        elif tag in (2, 5, 6, 7, 8):
            record = reader.counted()
            outcome = read_outcome(reader) if tag in (2, 8) else None
            others = range(reader.varint()) if tag in (5, 7) else ()
            all_of_them = [(name, record)] + [(read_id(reader), reader.counted()) for _ in others]
            by, floor = (reader.number("Q"), reader.number("Q")) if tag == 7 else (0, 0)
            if not self.owns(*(key for _, key in all_of_them)):
                return
            if tag in (5, 7):
                self.floors[by] = max(floor, self.floors.get(by, 0))
                for one, _ in all_of_them:
                    if self.records.get(one, [0, "staged"])[1] != "staged":
                        self.records[one][2] = []
            elif name not in self.records:
                if tag == 6 or outcome == "aborted":
                    self.records[name] = [record, "aborted", []]
            elif tag in (2, 8):
                if self.records[name][1] == "staged":
                    self.records[name][1] = outcome
                _, outcome, keys = self.records[name]
                for key in keys:
                    if self.owns(key):
                        self.resolve(name, key, outcome)
        elif tag == 3:
            outcome, keys = read_outcome(reader), reader.list()
            if self.owns(*keys):
                for key in keys:
                    self.resolve(name, key, outcome)
        else:
            check(tag == 4, "step of a transaction")
            keys = reader.list()
            if self.owns(*keys):
                self.marks |= {(name, key) for key in keys if self.locks.get(key, (0,))[0] != name}

    def prepare(self, reader, name, stamp):
        now = stamp >> 16
        flags = reader.number("B")
        check(flags <= 15, "order of a lock")
        commits, is_late = flags & 2, False
        if commits:
            check(reader.number("Q") < stamp, "a time that its entry's is above")
            is_late = flags & 8 and reader.number("Q") <= now
        if flags & 4:
            reader.number("Q")
        record, promised = reader.counted(), reader.list()
        places = [reader.varint() for _ in range(reader.varint())]
        seen = []
        for _ in range(reader.varint()):
            seen.append((reader.counted(), reader.number("B"), reader.number("Q")))
        steps = [(reader.at, keys_of_step(reader)) for _ in range(reader.varint())]
        check(len(places) == len(steps), "places of commands")
        ranges = ranges_of(reader)
        keys = {key for key, _, _ in seen} | {key for _, keys in steps for key in keys}
        keys |= {low for low, _ in ranges}
        begins = bool(promised or commits)
        is_known = name in self.records and begins or any((name, key) in self.marks for key in keys)
        if not self.owns(*keys) or (name[0] >> 16) + 10_000 <= now or is_known or is_late:
            return
        if name[0] < self.floors.get(name[1], 0):
            return
        end = self.descriptor["end"]
        if any(end and (not high or high > end) for _, high in ranges):
            return
        reaches = [(low, high) for low, (_, _, high) in self.locks.items() if low != high]
        if any(key in self.locks or lies_in(key, reaches) for key in keys):
            return
        if any(lies_in(key, ranges) for key in self.locks):
            return
        watched = {key for key, _, _ in seen}
        there = [key for key in self.values if lies_in(key, ranges) and key not in watched]
        if any(self.get(key, now)[0] is not None for key in there):
            return
        for key, kind, time in seen:
            is_there = self.get(key, now)[0] is not None
            if is_there != (kind == 1) or (kind == 1 and self.times.get(key) != time):
                return
        if commits:
            self.stamp = stamp
            for at, _ in steps:
                if reader.data[at] < 64:
                    again = Reader(reader.data)
                    again.at = at
                    self.command(again, now)
            self.marks |= {(name, key) for key in keys}
            self.records[name] = [record, stamp, promised]
            return
        copy = object.__new__(Shard)
        copy.__dict__.update(self.__dict__)
        copy.values, copy.times = dict(self.values), {}
        for at, _ in steps:
            if reader.data[at] < 64:
                again = Reader(reader.data)
                again.at = at
                copy.command(again, now)
        for key in keys:
            before, after = self.get(key, now)[0], copy.get(key, now)
            intent = after if key in copy.times and after[0] is not None else 0
            is_gone = (before is not None or key in copy.times) and after[0] is None
            intent = 2 if is_gone else intent
            self.locks[key] = (name, intent, dict(ranges).get(key, key))
        if promised:
            self.records[name] = [record, "staged", promised]

    def resolve(self, name, key, outcome):
        if self.locks.get(key, (0,))[0] == name:
            intent = self.locks.pop(key)[1]
            if outcome != "aborted" and intent == 2:
                self.values.pop(key, None)
            elif outcome != "aborted" and intent:
                self.stamp = outcome
                self.put(key, *intent, outcome >> 16)
        self.marks.add((name, key))

    def flush(self, first, end):
        if first is None:
            self.values.clear()
        elif self.begins(first):
            meant = [key for key in self.values if is_from(first, key) and not is_from(end, key)]
            for key in meant:
                del self.values[key]

    def begins(self, first):
        """Whether the shard's arc has the first place of a flush."""
        if self.placement == 0:
            return first in self.slots()
        start, end = self.descriptor["start"], self.descriptor["end"]
        first = first or b""
        return start <= first and (not end or first < end)

    def set(self, reader, now):
        flags, key_bytes, value_bytes = reader.number("B"), reader.varint(), reader.varint()
        at = reader.number("Q") if flags & 3 == 2 else 0
        key, value = reader.take(key_bytes), reader.take(value_bytes)
        old, old_expiry = self.get(key, now)
        when = flags >> 2 & 3
        if when == 0 or (when == 1) == (old is None):
            self.put(key, value, old_expiry if flags & 3 == 1 else at, now)

    def move(self, keeps, flag, source, target, now):
        value, expiry = self.get(source, now)
        taken = self.get(target, now)[0] is not None
        may = (flag == 1 or not taken) if keeps else not (flag == 1 and taken)
        if value is not None and may and source != target:
            if not keeps:
                self.values.pop(source)
            self.put(target, value, expiry, now)

    def change(self, op, flags, reader, key, value, expiry, now):
        if op == 4:
            at = reader.number("Q") if flags == 2 else 0
            if value is not None and at != expiry:
                self.put(key, value, at, now)
        elif op in (5, 18):
            more = reader.counted()
            bytes_max = reader.varint() if op == 18 else VALUE_BYTES_MAX
            check(op == 5 or bytes_max < VALUE_BYTES_MAX, "longest result of an append")
            if len(value or b"") + len(more) <= bytes_max or value is None:
                self.put(key, (value or b"") + more, expiry, now)
        elif op == 6:
            offset, piece = reader.varint(), reader.counted()
            if piece and offset + len(piece) <= VALUE_BYTES_MAX:
                old = (value or b"").ljust(offset, b"\0")
                self.put(key, old[:offset] + piece + old[offset + len(piece) :], expiry, now)
        elif op == 7:
            by = reader.number("q")
            try:
                total = int(b"0" if value is None else value) + by
            except ValueError:
                return
            if -(1 << 63) <= total < 1 << 63:
                self.put(key, b"%d" % total, expiry, now)
        elif op == 9:
            at, has = reader.number("q"), bool(expiry)
            refused = (
                flags & 1 and has
                or flags & 2 and not has
                or flags & 4 and (not has or at <= expiry)
                or flags & 8 and has and at >= expiry
            )
            if value is not None and not refused:
                self.put(key, value, max(at, 1), now)
        elif op == 10:
            if value is not None and expiry:
                self.put(key, value, 0, now)
        else:
            raise Damage(f"command {op} is not read here")


def read_id(reader):
    """Names an attempt at a transaction."""
    return (reader.number("Q"), reader.number("Q"), reader.varint())


def read_outcome(reader):
    tag = reader.number("B")
    check(tag in (0, 1, 2), "outcome")
    return reader.number("Q") if tag == 1 else ["staged", None, "aborted"][tag]


def ranges_of(reader):
    """Section 5.4, op 17: where each begins and ends; nothing for one without an end."""
    lows = []
    for _ in range(reader.varint()):
        low = reader.counted()
        lows.append((low, reader.counted() if reader.number("B") else b""))
    return lows


def lies_in(key, ranges):
    return any(low <= key and (not high or key < high) for low, high in ranges)


def skip_answers(reader):
    for _ in range(reader.varint()):
        reader.varint(), reader.counted()


def keys_of_step(reader):
    """The keys that a step of a transaction names."""
    op = reader.number("B")
    if op == 1:
        flags, key_bytes, value_bytes = reader.number("B"), reader.varint(), reader.varint()
        reader.take(8 if flags & 3 == 2 else 0)
        key = reader.take(key_bytes)
        reader.take(value_bytes)
        return [key]
    if op in (11, 65, 68):
        fields = [reader.counted() for _ in range(reader.varint() * (2 if op == 11 else 1))]
        return fields[:: 2 if op == 11 else 1]
    flags = reader.number("B") if op in (4, 9, 12, 13, 70) else None
    keys = [reader.counted() for _ in range(2 if op in (12, 13) else 1)]
    if op == 6:
        reader.varint()
    if op in (5, 6, 8, 18):
        reader.counted()
    if op == 18:
        reader.varint()
    reader.take({4: 8 if flags == 2 else 0, 7: 8, 9: 8, 66: 16}.get(op, 0))
    return keys


def read_addresses(path, cluster):
    """Section 4.1: node to (name, address)."""
    data = path.read_bytes()
    check(len(data) >= 32 and data[:8] == b"CARIADDR", "magic of the addresses")
    version, checksum, length, count, own = struct.unpack_from("<IIIIQ", data, 8)
    check(version == 1 and length == len(data) and own == cluster, "head of the addresses")
    check(checksum == crc(crc(0, data[:12]), data[16:]), "checksum of the addresses")
    reader, found = Reader(data[32:]), {}
    for _ in range(count):
        node = reader.number("Q")
        check(not found or node > max(found), "order of the addresses")
        found[node] = tuple(reader.take(reader.number("H")).decode() for _ in range(2))
    check(reader.at == len(reader.data) and count <= 1024, "end of the addresses")
    return found


def read_all(directory):
    """Every keyspace of a directory, name to (options, {key: (value, expiry)}); and the catalogue."""
    directory = Path(directory)
    manifest = Manifest((directory / "MANIFEST").read_bytes())
    if (directory / "ADDRESSES").exists():
        read_addresses(directory / "ADDRESSES", manifest.cluster)
    shards, dropped = {}, set()
    for number, index in manifest.checkpoints.items():
        path = directory / f"ckpt-{number:016x}-{index:016x}.ckpt"
        shards[number] = Shard.from_checkpoint(*read_checkpoint(path, manifest.cluster, number, index))
    for number, kind, payload in read_log(directory, manifest):
        if kind in (4, 8):
            shards.pop(number, None)
            dropped.add(number)
        elif number in dropped:
            continue
        elif number not in shards and kind != 3:
            # Section 5.3, kind 10: its left half has made it.
            left = next((shard for shard in shards.values() if number in shard.halves), None)
            check(left is not None, "a record without a beginning")
            shards[number] = left.halves.pop(number)
        if number in dropped:
            continue
        if kind in (6, 7):
            raise SystemExit("a replica has ended here: ask another node")
        elif kind == 3:
            shards.setdefault(number, Shard(payload))
        elif kind == 2:
            check(len(payload) == 24 and number in shards, "hard state")
        elif kind == 9:
            # Every entry is applied as it is read, so there are none that wait.
            check(len(payload) == 64 and number in shards, "replica recovered")
        else:
            check(kind == 1 and number in shards, "a record without a beginning")
            ended = shards[number].entry(payload, shards)
            if ended is not None:
                del shards[ended]
                dropped.add(ended)
    while halves := {n: s for shard in shards.values() for n, s in shard.halves.items()}:
        for shard in shards.values():
            shard.halves = {}
        shards.update({n: s for n, s in halves.items() if n not in shards and n not in dropped})
    found = {}
    for name, (number, options, members) in shards[0].catalogue.keyspaces.items():
        values = {}
        for shard in members:
            if shard in shards:
                check(shards[shard].descriptor["keyspace"] == number, "shard of another keyspace")
        for shard in shards.values():
            if shard.descriptor["keyspace"] == number:
                values.update(shard.values)
        found[name.decode()] = (options, values)
    return found, shards[0].catalogue
