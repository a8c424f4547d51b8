"""Redis Commander, a console for Redis in the browser, on a node: what its page asks its server."""

import json
import subprocess
import time
import urllib.parse
import urllib.request
from pathlib import Path

from harness.server import free_ports

PROGRAM = (Path(__file__).resolve().parent
           / "commander/node_modules/redis-commander/bin/redis-commander.js")


class Commander:
    """The running program."""

    def __init__(self, server):
        (port,) = free_ports(1)
        self.url = f"http://127.0.0.1:{port}"
        self.link = urllib.parse.quote(f"R:{server.host}:{server.resp}:0", safe="")
        self.headers = {"content-type": "application/json"}
        words = ["node", PROGRAM, "--redis-host", server.host, "--redis-port", str(server.resp),
                 "--port", str(port), "--address", "127.0.0.1", "--noload", "--nosave"]
        self.process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def ask(self, method, path, body=None):
        """What it answers: JSON, or a word."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, self.headers, method=method)
        with urllib.request.urlopen(request, timeout=20) as answer:
            said = answer.read()
            return json.loads(said) if said[:1] in (b"{", b"[") else said

    def sign_in(self):
        """Waits until it serves, and gets a token."""
        deadline = time.monotonic() + 30
        while True:
            try:
                token = self.ask("POST", "/signin", {})["bearerToken"]
                break
            except OSError:
                assert time.monotonic() < deadline, "Redis Commander does not serve"
                time.sleep(0.2)
        self.headers["authorization"] = f"Bearer {token}"


def browses(server):
    """It shows the server and its keys, changes one, renames it, deletes it, and runs a command."""
    if not PROGRAM.exists():
        print("  left out: Redis Commander could not be installed here")
        return
    link = server.connect()
    for key in ("tower:1", "tower:2"):
        link.call("SET", key, "bell")
    commander = Commander(server)
    try:
        commander.sign_in()
        at = commander.link
        (shown,) = commander.ask("GET", f"/apiv2/server/{at}/info")["data"]
        facts = {each["key"]: each["value"] for each in shown["info"]}
        assert facts["Redis version"] == "7.0.15" and "Used memory human" in facts, facts
        tree = commander.ask("GET", f"/apiv2/keystree/{at}/")["data"]
        assert any(each["text"] == "tower:* (2)" for each in tree), tree
        keys = commander.ask("GET", f"/apiv2/keys/{at}/tower*")["data"]
        assert sorted(keys) == ["tower:1", "tower:2"], keys
        shown = commander.ask("GET", f"/apiv2/key/{at}/tower:1")
        assert (shown["type"], shown["value"], shown["ttl"]) == ("string", "bell", -1), shown
        commander.ask("POST", f"/apiv2/key/{at}/tower:1?action=add",
                      {"keyType": "string", "stringValue": "gong"})
        assert link.call("GET", "tower:1") == b"gong"
        commander.ask("POST", f"/apiv2/key/{at}/tower:2?action=delete", {})
        assert link.call("EXISTS", "tower:2") == 0
    finally:
        commander.process.terminate()
        commander.process.wait(20)
        link.close()
