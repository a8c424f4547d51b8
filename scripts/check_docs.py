#!/usr/bin/env python3
"""Do the documents say what is there?

A block of code behind `<!-- from PATH -->` must stand in that file, spaces and line breaks aside.
A link to a file, and to a heading in one, must lead somewhere.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
QUOTE = re.compile(r"<!-- from (\S+) -->\n```\w*\n(.*?)```", re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)


def documents():
    """All of the project's own."""
    return sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])


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


def wrong_quotes(path, text):
    for source, code in QUOTE.findall(text):
        file = ROOT / source
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


def main():
    checked, wrong = 0, []
    for path in documents():
        text = path.read_text()
        checked += len(QUOTE.findall(text)) + len(LINK.findall(FENCE.sub("", text)))
        wrong += [*wrong_quotes(path, text), *wrong_links(path, text)]
    print("\n".join(wrong), end="\n" if wrong else "")
    print(f"docs: {checked - len(wrong)} passed, {len(wrong)} failed")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
