"""Comparing two replies under the rules of may_differ.toml."""

import tomllib
from pathlib import Path

from harness import resp


class Rules:
    """The rules, looked up by a command's first words."""

    def __init__(self, path=Path(__file__).with_name("may_differ.toml")):
        self.by_words = {}
        for rule in tomllib.loads(path.read_text())["rule"]:
            assert rule["reason"], rule
            if rule["how"] != "absent":
                self.by_words[tuple(rule["command"].split())] = rule

    def of(self, args):
        """The rule of a command, or None: compared byte for byte."""
        words = [resp.to_bytes(a).decode("latin-1").upper() for a in args[:2]]
        return self.by_words.get(tuple(words)) or self.by_words.get(tuple(words[:1]))

    def differ(self, args, expected, actual, scripted):
        """Why two replies (raw, value) differ, or None."""
        if expected[0] == actual[0]:
            return None
        rule = self.of(args)
        if rule is None or (rule["how"] == "scripts" and scripted):
            return "bytes differ"
        if rule["how"] == "any":
            return None
        if rule["how"] == "instead":
            both = zip((expected, actual), (rule["redis"], rule["carillon"]))
            fits = all(reply[0].startswith(tuple(map(str.encode, starts))) for reply, starts in both)
            return None if fits else "bytes differ, and not as the rule says"
        left, right = expected[1], actual[1]
        if isinstance(left, resp.Error) or isinstance(right, resp.Error):
            return "one is an error, or the errors differ"
        if rule["how"] in ("kind", "scripts"):
            return None if expected[0][:1] == actual[0][:1] else "the types differ"
        if rule["how"] == "near":
            close = isinstance(left, int) and isinstance(right, int) and left >= 0 and right >= 0
            if close and abs(left - right) <= rule["tolerance"]:
                return None
            return f"more than {rule['tolerance']} apart"
        assert rule["how"] == "unordered", rule
        lists = isinstance(left, list) and isinstance(right, list)
        return None if lists and sorted(left) == sorted(right) else "the elements differ"
