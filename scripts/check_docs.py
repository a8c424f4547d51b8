#!/usr/bin/env python3
"""Do the documents say what is there?

A block of code behind `<!-- from PATH -->` must stand in that file, spaces and line breaks aside.
A link to a file, and to a heading in one, must lead somewhere; so must a page of `docs/`,
or a heading in one, that code cites, and a path in backticks from the root in a document.
`--self-test` tries each check.
"""

import re
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
QUOTE = re.compile(r"<!-- from (\S+) -->\n```\w*\n(.*?)```", re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
CITED = re.compile(r"(?<![\w/.-])(docs/[\w/.-]+\.md)(?:#([\w-]+))?")
PATH = re.compile(r"`((?:crates|docs|fuzz|scripts|tests)/[\w/.-]+)`")
CODE = ("crates/**/*.rs", "fuzz/**/*.rs", "scripts/*", "tests/**/*.py", "console/**/*.ts")
# They make pages to try themselves on.
EXEMPT = {"check_docs.py", "check_words.py"}
ELSEWHERE = re.compile(r"(^|/)(target|node_modules|\.git)/")


def documents(root=ROOT):
    """All of the project's own."""
    return sorted([*root.glob("*.md"), *root.glob("docs/**/*.md")])


def sources(root=ROOT):
    """All code of the project's own, scripts and tests included."""
    found = {path for pattern in CODE for path in root.glob(pattern) if path.is_file()}
    return sorted(each for each in found if not ELSEWHERE.search(str(each.relative_to(root))))


def squeezed(code):
    """Code without what a formatter may change."""
    return re.sub(r",(?=[)\]}]|$)", "", re.sub(r"\s+", "", code))


def anchors(path):
    """What a document can be linked by: its headings, and names given with `<a id="…">`."""
    text = FENCE.sub("", path.read_text())
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    given = re.findall(r'^<a id="([\w-]+)"></a>$', text, re.MULTILINE)
    slugs = {re.sub(r"[^\w\- ]", "", each.lower()).replace(" ", "-") for each in headings}
    return slugs.union(given)


def wrong_quotes(path, text, root=ROOT):
    for source, code in QUOTE.findall(text):
        file = root / source
        if not file.is_file():
            yield f"{path}: quotes {source}, which is not there"
        elif squeezed(code) not in squeezed(file.read_text()):
            yield f"{path}: quotes {source}, which does not hold:\n{code}"


def wrong_links(path, text):
    for link in LINK.findall(FENCE.sub("", text)):
        if re.match(r"[a-z]+:", link):
            continue
        name, _, anchor = link.partition("#")
        target = (path.parent / name) if name else path
        if not target.exists():
            yield f"{path}: links to {link}, which is not there"
        elif anchor and anchor not in anchors(target):
            yield f"{path}: links to {link}, and there is no such heading"


def wrong_paths(path, text, root=ROOT):
    """Paths in a document that are not there."""
    for name in PATH.findall(FENCE.sub("", text)):
        if not (root / name).exists():
            yield f"{path}: names {name}, which is not there"


def wrong_citations(path, text, root=ROOT):
    """Documents, and headings in them, that code names."""
    for name, anchor in CITED.findall(text):
        if not (root / name).is_file():
            yield f"{path}: cites {name}, which is not there"
        elif anchor and anchor not in anchors(root / name):
            yield f"{path}: cites {name}#{anchor}, and there is no such heading"


def self_test():
    """Each finding, in pages made for it."""
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        (root / "docs").mkdir()
        page, code = root / "docs/a.md", root / "a.rs"
        page.write_text("# One two\n\n```\n# No heading\n```\n")
        code.write_text("fn a() {}\n")
        quote = "<!-- from {} -->\n```rust\n{}\n```"
        examples = [
            (wrong_links(page, "[a](a.md#one-two), [b](#one-two), [c](https://a.b)"), 0),
            (wrong_links(page, "[a](b.md)"), 1),
            (wrong_links(page, "[a](a.md#no-heading)"), 1),
            (wrong_paths(page, "`docs/a.md`, `docs::a`, ```\n", root), 0),
            (wrong_paths(page, "`docs/b.md`", root), 1),
            (wrong_citations(code, "// docs/a.md#one-two, docs/a.md.", root), 0),
            (wrong_citations(code, "// docs/b.md", root), 1),
            (wrong_citations(code, "// docs/a.md#three", root), 1),
            (wrong_quotes(page, quote.format("b.rs", "fn a()"), root), 1),
            (wrong_quotes(page, quote.format("a.rs", "fn b()"), root), 1),
            (wrong_quotes(page, quote.format("a.rs", "fn a(\n)"), root), 0),
        ]
        failed = 0
        for number, (found, expected) in enumerate(examples, 1):
            found = list(found)
            if len(found) != expected:
                failed += 1
                print(f"example {number}: {found}")
    print(f"docs self-test: {len(examples) - failed} passed, {failed} failed")
    return bool(failed)


def main():
    if "--self-test" in sys.argv[1:]:
        return self_test()
    checked, wrong = 0, []
    for path in documents():
        text = path.read_text()
        prose = FENCE.sub("", text)
        checked += len(QUOTE.findall(text)) + len(LINK.findall(prose)) + len(PATH.findall(prose))
        wrong += [*wrong_quotes(path, text), *wrong_links(path, text), *wrong_paths(path, text)]
    for path in (each for each in sources() if each.name not in EXEMPT):
        text = path.read_text(errors="replace")
        checked += len(CITED.findall(text))
        wrong += wrong_citations(path, text)
    print("\n".join(wrong), end="\n" if wrong else "")
    print(f"docs: {checked - len(wrong)} passed, {len(wrong)} failed")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
