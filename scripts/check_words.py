#!/usr/bin/env python3
"""Do code and documents use the words that were agreed on, and can a reader follow them?

`scripts/words.txt` is the list; its first lines say how it is written. Checked are

- words: phrases and names that were given up, in documents, Rust, TypeScript and Python;
- length: lines over 120 columns and paragraphs over 120 words in documents;
- docs: public Rust items without documentation, by the compiler's lint `missing_docs`: this check
  sees to it that the lint is on, for every crate;
- numbers: rules G…, invariants R…, sections and decisions that are cited and lead nowhere.

Links, anchors, quotes and paths are checked by scripts/check_docs.py.

`--planned` lists the places of what is still to be replaced; `--tighten` lets no document be longer
again than it is; `--self-test` tries each check on an example of what it finds.
"""

import re
import sys
import tempfile
from bisect import bisect
from collections import Counter
from pathlib import Path

from check_docs import FENCE, ROOT, documents, sources

COLUMNS_MAX = 120
WORDS_MAX = 120
LIST = "scripts/words.txt"
# They hold the words that they look for. The changelog names what was renamed.
EXEMPT = {LIST, "scripts/check_words.py", "CHANGELOG.md"}
SCOPES = {
    "docs": lambda name: name.endswith(".md"),
    "code": lambda name: not name.endswith(".md"),
    # Decisions tell of what was there before.
    "live": lambda name: not name.startswith("docs/decisions/"),
    "type": lambda name: name.endswith(".rs"),
    "all": lambda name: True,
}
ITEM = re.compile(r"^\s*(?:[-*+]|\d+\.)\s+")


class BadList(Exception):
    """The list of words cannot be read."""


class Words:
    """The list: what was given up, what is planned to be, and documents that are still too long."""

    def __init__(self, text):
        self.given_up, self.planned, self.lengths = [], [], {}
        section = None
        for number, line in enumerate(text.splitlines(), 1):
            line = line.strip()
            if not line or line.startswith("#"):
                continue
            try:
                if line.startswith("["):
                    section = {
                        "[given up]": self.given_up,
                        "[planned]": self.planned,
                        "[length]": self.lengths,
                    }[line]
                elif section is self.lengths:
                    path, lines, paragraphs = line.rsplit(maxsplit=2)
                    section[path] = (int(lines), int(paragraphs))
                else:
                    section.append(Phrase(line))
            except (KeyError, ValueError, AttributeError, re.error) as error:
                raise BadList(f"{LIST}:{number}: {line!r}: {error}") from error


class Phrase:
    """What is not to be written, and what is written instead."""

    def __init__(self, line):
        what, self.instead = (part.strip() for part in line.split("→"))
        first, _, rest = what.partition(": ")
        self.scope, what = (first, rest.strip()) if first in SCOPES else ("all", what)
        self.what = what if self.scope == "all" else f"{self.scope}: {what}"
        self.rarest = None
        if what.startswith("/") and what.endswith("/"):
            self.regex = re.compile(what[1:-1])
            return
        words = what.split()
        # A phrase in lower case is found in any; a name with a capital is that name alone.
        self.ignores_case = what == what.lower()
        self.rarest = max(words, key=len)
        self.reach = len(what) + 100
        declares = "|".join(rf"(?<=\b{kind} )" for kind in ("struct", "enum", "trait", "type"))
        before = f"(?:{declares})" if self.scope == "type" else r"(?<!\w)"
        self.regex = re.compile(before + r"\s+".join(map(re.escape, words)) + r"(?!\w)")

    def found_in(self, file):
        """Where in a file the phrase begins."""
        if not SCOPES[self.scope](file.name):
            return []
        if not self.rarest:
            return [match.start() for match in self.regex.finditer(file.text)]
        # The expression is slow, and most files do not even have the word.
        text = file.lower if self.ignores_case else file.text
        found, at = set(), text.find(self.rarest)
        while at >= 0:
            begin, end = max(0, at - self.reach), at + self.reach
            near = self.regex.finditer(text, begin, end)
            # One that ends where we stop looking may be the beginning of a longer word.
            found.update(m.start() for m in near if m.end() < end or end >= len(text))
            at = text.find(self.rarest, at + 1)
        return sorted(found)


class Source:
    """A file's text, and which line a place in it is on."""

    def __init__(self, root, path):
        self.name = str(path.relative_to(root))
        self.text = path.read_text(errors="replace")
        self.lower = self.text.lower()
        self._ends = None

    def line(self, place):
        if self._ends is None:
            self._ends = [match.start() for match in re.finditer("\n", self.text)]
        return bisect(self._ends, place - 1) + 1


def read_all(root):
    paths = [*documents(root), *sources(root)]
    return [Source(root, each) for each in paths if str(each.relative_to(root)) not in EXEMPT]


def wrong_words(words, files):
    for phrase in words.given_up:
        for file in files:
            for place in phrase.found_in(file):
                where = f"{file.name}:{file.line(place)}"
                yield f"{where}: {phrase.what!r} was given up: {phrase.instead}"


def paragraphs(text):
    """First line and text of each paragraph of prose; an item of a list is one."""
    at, lines = 0, []
    for number, line in enumerate([*text.splitlines(), ""], 1):
        ends = not line.strip() or line.startswith(("|", "#", "<!--"))
        if lines and (ends or ITEM.match(line)):
            yield at, " ".join(lines)
            lines = []
        if not ends:
            at = at if lines else number
            lines.append(line)


def too_long(text):
    """Lines, then paragraphs, of a document that are too long. Not tables: they cannot be broken."""
    prose = FENCE.sub(lambda fence: "\n" * fence[0].count("\n"), text)
    lines = [
        number
        for number, line in enumerate(text.splitlines(), 1)
        if len(line) > COLUMNS_MAX
        and not line.startswith("|")
        # Nor what is one word, as a link can be.
        and len(ITEM.sub("", line).split()) > 1
    ]
    return lines, [at for at, words in paragraphs(prose) if len(words.split()) > WORDS_MAX]


def wrong_lengths(words, files):
    for file in (each for each in files if each.name.endswith(".md")):
        allowed = words.lengths.get(file.name, (0, 0))
        kinds = (f"lines over {COLUMNS_MAX} columns", f"paragraphs over {WORDS_MAX} words")
        for kind, most, found in zip(kinds, allowed, too_long(file.text)):
            if len(found) > most:
                where = ", ".join(map(str, found[:8])) + (", …" if len(found) > 8 else "")
                yield f"{file.name}: {len(found)} {kind}, at most {most}: lines {where}"


def shorter(words, files):
    """What documents have by now, where that is less than they may."""
    found = {each.name: tuple(map(len, too_long(each.text))) for each in files}
    for name, allowed in words.lengths.items():
        now = tuple(map(min, found.get(name, (0, 0)), allowed))
        if now != allowed:
            yield name, now


def tighten(root):
    """Lets documents be no longer than they are."""
    text = (root / LIST).read_text()
    words, files = Words(text), read_all(root)
    for name, (lines, paragraphs) in shorter(words, files):
        line = f"{name} {lines} {paragraphs}\n" if lines or paragraphs else ""
        text = re.sub(rf"^{re.escape(name)} \d+ \d+\n", line, text, flags=re.MULTILINE)
    (root / LIST).write_text(text)


def wrong_lints(root):
    """Whether the compiler sees to the documentation of everything public."""
    manifest = root / "Cargo.toml"
    lint = re.search(r'^missing_docs = "(\w+)"', manifest.read_text(), re.MULTILINE)
    if not lint or lint[1] not in ("warn", "deny", "forbid"):
        yield "Cargo.toml: the lint missing_docs is not on"
    for path in sorted(root.glob("crates/*/Cargo.toml")):
        if not re.search(r"^\[lints\]\nworkspace = true", path.read_text(), re.MULTILINE):
            yield f"{path.relative_to(root)}: does not take the lints of the workspace"
    for path in sources(root):
        name = str(path.relative_to(root))
        # What nobody uses from outside need not be documented: tests, examples, benches.
        if name.startswith("crates/") and "/src/" in name and path.suffix == ".rs":
            if re.search(r"allow\([^)]*missing_docs", path.read_text(errors="replace")):
                yield f"{name}: switches the lint missing_docs off"


class Numbers:
    """What rules, invariants, sections and decisions there are."""

    CITED = re.compile(
        r"\b(?:"
        r"(?P<rule>G[1-9]\d?)"
        r"|(?P<invariant>R(?:[1-9]|1\d|2\d))"
        r"|[Dd]ecisions? (?P<decisions>\d{4}(?:(?:, | and | to )\d{4})*)"
        r"|ALGORITHMS(?P<section> \d+(?:\.\d+)?)?"
        r"|(?P<page>SAFETY(?=, | R)|(?:DESIGN|FEATURES|LAYOUT|STYLE|MEASURES)(?= §| \d| [A-Z]\d))"
        r")(?!\w)"
    )

    def __init__(self, root):
        def text(name):
            path = root / name
            return path.read_text() if path.is_file() else ""

        algorithms = text("docs/algorithms.md")
        self.rules = set(re.findall(r"^## (G\d+)\b", text("docs/safety.md"), re.MULTILINE))
        self.invariants = set(re.findall(r"^\| (R\d+) \|", algorithms, re.MULTILINE))
        self.sections = set(re.findall(r"^##+ (\d+(?:\.\d+)?)\.? ", algorithms, re.MULTILINE))
        self.decisions = {path.name[:4] for path in root.glob("docs/decisions/*.md")}

    def wrong(self, match):
        if match["rule"]:
            return match["rule"] not in self.rules and "no such rule in docs/safety.md"
        if match["invariant"]:
            return match["invariant"] not in self.invariants and "none in docs/algorithms.md"
        if match["decisions"]:
            named = re.findall(r"\d{4}", match["decisions"])
            return not self.decisions.issuperset(named) and "no such page in docs/decisions"
        if match["page"]:
            return "names no rule, no section and no page of the repository"
        section = (match["section"] or "").strip()
        return section not in self.sections and "no such section in docs/algorithms.md"


def wrong_numbers(root, files):
    numbers = Numbers(root)
    for file in files:
        for match in numbers.CITED.finditer(file.text):
            if why := numbers.wrong(match):
                yield f"{file.name}:{file.line(match.start())}: {match[0]!r}: {why}"


def check(root):
    """All that is wrong, and how often what is planned to go is still there."""
    words, files = Words((root / LIST).read_text()), read_all(root)
    wrong = [
        *wrong_words(words, files),
        *wrong_lengths(words, files),
        *wrong_lints(root),
        *wrong_numbers(root, files),
    ]
    planned = Counter()
    places = []
    for phrase in words.planned:
        for file in files:
            found = phrase.found_in(file)
            planned[phrase.what] += len(found)
            lines = (f"{file.name}:{file.line(place)}" for place in found)
            places += (f"{line}: {phrase.what!r}: {phrase.instead}" for line in lines)
    notes = [name for name, _ in shorter(words, files)]
    return wrong, planned, places, notes, len(words.given_up) + len(files)


# A small repository in which nothing is wrong.
CLEAN = {
    LIST: "[given up]\nin vain → without success\ncode: Blorp → `Executor`\n"
    r"live: /\bnode::lane\b/ → `node::executor`" "\ntype: Gone → `Unavailable`\n"
    "[planned]\ndocs: whoever → name the actor\n[length]\ndocs/old.md 1 1\n",
    "Cargo.toml": '[workspace.lints.rust]\nmissing_docs = "warn"\n',
    "crates/a/Cargo.toml": "[lints]\nworkspace = true\n",
    "crates/a/src/lib.rs": "//! Cites G1, R2, decision 0001, decisions 0001 and 0002, ALGORITHMS 1.2.\n"
    "// A blorp in lower case is another word, and G1a is no rule.\n"
    "enum Other { Gone }\n",
    "docs/safety.md": "# Rules\n\n## G1. One\n\nBlorp may be said in documents.\n",
    "docs/algorithms.md": "# A\n\n## 1. One\n\n### 1.2 Two\n\n| R2 | held |\n",
    "docs/decisions/0001-one.md": "# 1\n\nThere was a `node::lane`.\n",
    "docs/decisions/0002-two.md": f"# 2\n\n| {'a ' * 90}|\n\n```\n{'in code ' * 8}\n```\n",
    "docs/old.md": f"# Old\n\n{'long ' * 121}\n",
}
# What is found when this stands in the repository besides.
FINDINGS = {
    "a phrase that was given up": ("docs/b.md", "One asked in\nvain.\n", "was given up"),
    "a name that was given up": ("crates/a/src/b.rs", "struct Blorp;\n", "was given up"),
    "a type that was given up": ("crates/a/src/b.rs", "pub enum Gone { A }\n", "was given up"),
    "a path that was given up": ("docs/b.md", "See `node::lane`.\n", "was given up"),
    "a phrase in Python": ("tests/b.py", "# In vain.\n", "was given up"),
    "a phrase in TypeScript": ("console/src/b.ts", "// in vain\n", "was given up"),
    "a line of many columns": ("docs/b.md", f"# B\n\n{'word ' * 25}\n", "lines over"),
    "a long line of code": ("docs/b.md", f"```\n{'word ' * 25}\n```\n", "lines over"),
    "a paragraph of many words": ("docs/b.md", "one two\n" * 61, "paragraphs over"),
    "an item of many words": ("docs/b.md", "- a\n- b\n" + "  one two\n" * 60, "paragraphs over"),
    "a page longer than it was": ("docs/old.md", "one two\n" * 61 + "\n" + "a b\n" * 61, "most 1"),
    "a workspace without the lint": ("Cargo.toml", "[workspace]\n", "missing_docs is not on"),
    "a crate without lints": ("crates/b/Cargo.toml", "[package]\n", "does not take the lints"),
    "a lint that is off": ("crates/a/src/b.rs", "#![allow(missing_docs)]\n", "switches the lint"),
    "a rule that is not there": ("crates/a/src/b.rs", "// G2 holds\n", "no such rule"),
    "an invariant that is not there": ("docs/b.md", "R3 holds.\n", "none in"),
    "a decision that is not there": ("docs/b.md", "By decisions 0001, 0003.\n", "no such page"),
    "a section that is not there": ("crates/a/src/b.rs", "// ALGORITHMS 1.3\n", "no such section"),
    "a page without a section": ("crates/a/src/b.rs", "// ALGORITHMS of old\n", "no such section"),
    "a page that is not there": ("crates/a/src/b.rs", "// (DESIGN §4)\n", "names no rule"),
}


# Nothing is wrong in these.
QUIET = ("nothing", "what is planned", "a shorter document")


def make(root, files):
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def self_test():
    failed = []
    for title, finding in {**dict.fromkeys(QUIET), **FINDINGS}.items():
        with tempfile.TemporaryDirectory() as directory:
            root = Path(directory)
            make(root, CLEAN)
            if title == "what is planned":
                make(root, {"docs/b.md": "Whoever asks.\n"})
            if finding:
                make(root, {finding[0]: finding[1]})
            wrong, planned, _, notes, _ = check(root)
            is_tight = notes == [] or title not in QUIET
            if title == "a shorter document":
                make(root, {"docs/old.md": "# Old\n"})
                is_tight = check(root)[3] == ["docs/old.md"]
                tighten(root)
                is_tight &= check(root)[3] == [] and "old.md" not in (root / LIST).read_text()
            is_right = is_tight and bool(finding) == bool(wrong)
            if finding:
                is_right &= len(wrong) == 1 and finding[2] in wrong[0]
                is_right &= wrong[0].startswith(finding[0]) if wrong else False
            is_right &= planned["docs: whoever"] == int(title == "what is planned")
            if not is_right:
                failed.append(f"{title}: found {wrong}, planned {dict(planned)}")
    for text in ("in vain → x\n", "[given up]\nno arrow\n", "[given up]\n/(/ → x\n", "[other]\n"):
        try:
            Words(text)
            failed.append(f"the list {text!r} is read")
        except BadList:
            pass
    print("\n".join(failed), end="\n" if failed else "")
    print(f"words self-test: {len(FINDINGS) + len(QUIET) + 4 - len(failed)} passed, {len(failed)} failed")
    return bool(failed)


def main():
    if "--self-test" in sys.argv[1:]:
        return self_test()
    if "--tighten" in sys.argv[1:]:
        tighten(ROOT)
    wrong, planned, places, notes, checked = check(ROOT)
    print("\n".join(wrong), end="\n" if wrong else "")
    if "--planned" in sys.argv[1:]:
        print("\n".join(places))
    most = ", ".join(f"{what!r} {count}" for what, count in planned.most_common(8) if count)
    clean = [what for what, count in planned.items() if not count]
    print(f"still to be replaced: {sum(planned.values())} places of {len(planned)} phrases: {most}")
    if clean:
        print(f"gone by now, so move them up in {LIST}: {', '.join(clean)}")
    if notes:
        print(f"shorter than they may be, so run scripts/check_words.py --tighten: {', '.join(notes)}")
    print(f"words: {checked - len(wrong)} passed, {len(wrong)} failed")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
