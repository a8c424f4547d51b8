#!/usr/bin/env python3
"""A program for the driver `exec` of `carillon bench`: lines of JSON in, lines of JSON out.

This one keeps keys in a Redis-like server at HOST:PORT, its argument. To measure another system,
change `Store`.
"""

import json
import socket
import sys


class Store:
    def __init__(self, address):
        host, port = address.rsplit(":", 1)
        self.file = socket.create_connection((host, int(port))).makefile("rwb")

    def command(self, *args):
        words = [word.encode() for word in args]
        self.file.write(b"*%d\r\n" % len(words))
        for word in words:
            self.file.write(b"$%d\r\n%s\r\n" % (len(word), word))
        self.file.flush()
        line = self.file.readline()
        if line[:1] == b"-":
            raise RuntimeError(line[1:].decode().strip())
        if line[:1] == b"$" and line[1:2] != b"-":
            length = int(line[1:])
            return self.file.read(length + 2)[:length].decode()
        return None

    def get(self, key):
        return self.command("GET", key)

    def put(self, key, value):
        self.command("SET", key, value)

    def delete(self, key):
        self.command("DEL", key)


def answer(store, request):
    try:
        if request["op"] == "get":
            return {"value": store.get(request["key"])}
        if request["op"] == "put":
            store.put(request["key"], request["value"])
        elif request["op"] == "delete":
            store.delete(request["key"])
        else:
            store.command(*request["args"])
        return {"ok": True}
    except RuntimeError as error:
        return {"error": str(error)}


store = Store(sys.argv[1])
for line in sys.stdin:
    print(json.dumps(answer(store, json.loads(line))), flush=True)
