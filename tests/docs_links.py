"""Checks the links in README.md and docs/*.md of a checkout: files and headings must exist.

    docs_links.py ROOT

Exit status: 0 all is well; 1 some links are broken: PAGE:LINE: LINK, on stdout. Links to other sites are not checked.
"""
import glob
import os
import re
import sys


def text_of(path):
    """The lines of a page, with fenced blocks replaced by empty lines."""
    inside, lines = False, []
    for line in open(path, encoding="utf-8"):
        fence = line.startswith(("```", "~~~"))
        inside ^= fence
        lines.append("" if inside or fence else line.rstrip("\n"))
    return lines


def headings(path):
    """The anchors that GitHub generates for the headings."""
    found = set()
    for line in text_of(path):
        match = re.match(r"^#+ +(.*?) *$", line)
        if match:
            name = re.sub(r"[^\w\- ]", "", match[1].lower()).replace(" ", "-")
            number = 1
            anchor = name
            while anchor in found:
                anchor = f"{name}-{number}"
                number += 1
            found.add(anchor)
    return found


def main():
    root, bad, count = sys.argv[1], 0, 0
    for page in [f"{root}/README.md"] + sorted(glob.glob(f"{root}/docs/*.md")):
        for number, line in enumerate(text_of(page), 1):
            for link in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`]*`", "", line)):
                if re.match(r"^[a-z]+:", link):
                    continue
                count += 1
                path, _, anchor = link.partition("#")
                target = os.path.join(os.path.dirname(page), path) if path else page
                if not os.path.exists(target) or (anchor and anchor not in headings(target)):
                    print(f"{page}:{number}: {link}")
                    bad += 1
    print(count, "links,", bad, "broken")
    return 1 if bad or not count else 0


sys.exit(main())
