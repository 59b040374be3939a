"""Runs the shell examples of a documentation page and compares the figures that the page shows.

    docs_examples.py YOKE PAGE

The blocks of a page run in order, each with `sh -eu`, all in one temporary directory, with the directory of YOKE first in PATH.
A comment on the line before a block says what to do with it:

    <!-- skip: needs ssh -->        ```sh      do not run it; the reason is required
    <!-- file: my.ini -->           any block  write the text to my.ini instead
    <!-- compare -->                ```text    compare it with the output (stdout and stderr) of the sh block before it
    <!-- compare: 5 % -->                      the same with this tolerance for losses, accuracies and AUCs

A line of a compared block that has figures must occur in the output, in the same order, with the same figures. A figure is a
number with a name that is listed below (COUNTS, SCORES), in a line of text or in a table. Counts are compared exactly.
Scores have a small tolerance, because sums are rounded differently by each instruction set. Times, rates, sizes and paths have
no such name and are not compared.

Exit status: 0 if all blocks pass; 1 otherwise, with PAGE:LINE and the reason on stderr.
"""
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

SECONDS = 120  # timeout of a block; a whole page should take at most 15 s on an idle machine

COUNTS = ["steps", "step", "epochs", "epoch", "examples", "parameters", "columns", "classes", "entries", "records", "workers",
          "batch", "runs"]
SCORES = {  # absolute and relative tolerance
    "train loss": (5e-4, 5e-3), "test loss": (5e-4, 5e-3), "loss": (5e-4, 5e-3),
    "train_loss": (5e-4, 5e-3), "test_loss": (5e-4, 5e-3),
    "test accuracy": (0.15, 0), "accuracy": (0.15, 0), "accuracy %": (0.15, 0), "test_accuracy": (0.0015, 0),
    "majority class": (0.01, 0), "majority class": (0.01, 0), "majority": (0.01, 0),
    "test AUC": (1e-3, 0), "AUC": (1e-3, 0), "test_auc": (1e-3, 0), "best possible": (1e-3, 0),
}
NUMBER = r"(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?"
# after a word; not part of another number, a rate ("12 examples/s") or a rounded value ("4.6 M")
NAMES = "|".join(re.escape(n) for n in sorted(list(SCORES) + COUNTS, key=len, reverse=True))
FIGURE = re.compile(rf"(?<![\w/-])(?P<name>{NAMES})\"?(?:[:,]? |:|  +)\s*(?P<number>{NUMBER})(?![\w.]*\d| ?[kMG]\b)")
COUNT = re.compile(rf"(?<![\w.,])(?P<number>{NUMBER}) (?P<name>{'|'.join(COUNTS)})(?![\w/])")
FENCE = re.compile(r"^(?P<fence>```+|~~~+)\s*(?P<language>\S*)")
COMMENT = re.compile(r"^<!--\s*(?P<word>skip|file|compare)\b:?\s*(?P<rest>.*?)\s*-->\s*$")


class Wrong(Exception):
    def __init__(self, line, text):
        super().__init__(text)
        self.line = line


def blocks(text):
    """The fenced blocks of a page: (line, language, word, rest, lines)."""
    found, inside, comment = [], None, (None, "")
    for number, line in enumerate(text.splitlines(), 1):
        if inside:
            if line.strip() == inside["fence"]:
                found.append((inside["line"], inside["language"], *inside["comment"], inside["lines"]))
                inside, comment = None, (None, "")
            else:
                inside["lines"].append(line)
            continue
        match = FENCE.match(line)
        if match:
            inside = dict(fence=match["fence"], language=match["language"], line=number, comment=comment, lines=[])
            continue
        if comment[0]:
            raise Wrong(number - 1, f"<!-- {comment[0]} --> belongs on the line before a block")
        match = COMMENT.match(line)
        comment = (match["word"], match["rest"]) if match else (None, "")
        if re.match(r"^ {4}(\$ |yoke |mpirun )", line):
            raise Wrong(number, "an example without a fence: use ```sh")
    if inside:
        raise Wrong(inside["line"], "the block has no end")
    return found


def value(text):
    return float(text.replace(",", ""))


def columns(line):
    return re.split(r" {2,}|\t", line.strip())


def figures_of(lines):
    """The figures in each line: a list of (name, value) per line."""
    found, head = [], None
    for line in lines:
        line = re.sub(r"^\[\d+\] ", "", line)
        cells = columns(line)
        if len(cells) > 2 and sum(cell in SCORES or cell in COUNTS for cell in cells) >= 2 and not re.search(r"\d", line):
            head = cells
            found.append([])
        elif head and len(cells) == len(head):
            figures = []
            for name, cell in zip(head, cells):
                match = re.match(rf"({NUMBER})(?: %| ± \S+)?$", cell)
                if match and (name in SCORES or name in COUNTS):
                    figures.append((name, value(match[1])))
            found.append(figures)
        else:
            head = None
            figures = [(m["name"], value(m["number"])) for m in FIGURE.finditer(line)]
            figures += [(m["name"], value(m["number"])) for m in COUNT.finditer(line)]
            found.append(figures)
    return found


def agrees(wanted, got, share):
    for name, number in wanted:
        absolute, relative = SCORES.get(name, (0, 0))
        if name in SCORES and share is not None:
            relative = share
        if not any(n == name and abs(g - number) <= max(absolute, relative * abs(number)) + 1e-9 for n, g in got):
            return False
    return True


def say(figures):
    return ", ".join(f"{name} {number:g}" for name, number in figures)


def compare(line, lines, output, rest):
    match = re.match(r"^([\d.]+) ?%$", rest)
    if rest and not match:
        raise Wrong(line - 1, f"<!-- compare: {rest} -->: use a tolerance such as 5 %")
    share = float(match[1]) / 100 if match else None
    got, at = figures_of(output), 0
    compared = 0
    for i, wanted in enumerate(figures_of(lines), 1):
        if not wanted:
            continue
        compared += 1
        here = next((k for k in range(at, len(got)) if agrees(wanted, got[k], share)), None)
        if here is None:
            names = {name for name, _ in wanted}
            near = [f for f in got[at:] if names <= {name for name, _ in f}]
            raise Wrong(line + i, f"the page has {say(wanted)}; the program prints "
                        + ("; or ".join(say([f for f in n if f[0] in names]) for n in near[:3]) or "nothing of that") + "\n"
                        + "\n".join(output))
        at = here + 1
    if not compared:
        raise Wrong(line, "nothing to compare: no line has a loss, an accuracy, an AUC or a count")


def execute(line, lines, directory, environment):
    """Runs a block and returns the lines of its output."""
    process = subprocess.Popen(["sh", "-eu"], cwd=directory, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=True)
    try:
        output, _ = process.communicate("\n".join(lines) + "\n", timeout=SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
        raise Wrong(line, f"timeout after {SECONDS} s:\n{output}") from None
    if process.returncode:
        raise Wrong(line, f"exit status {process.returncode}:\n{output}")
    return output.splitlines()


def check(page, directory, environment):
    with open(page, encoding="utf-8") as file:
        text = file.read()
    output, took = None, 0
    for line, language, word, rest, lines in blocks(text):
        if word == "file":
            if not re.match(r"^[\w.-]+$", rest):
                raise Wrong(line - 1, "<!-- file: NAME -->: a plain file name is required")
            with open(os.path.join(directory, rest), "w", encoding="utf-8") as file:
                file.write("\n".join(lines) + "\n")
        elif word == "compare":
            if language != "text" or output is None:
                raise Wrong(line, "<!-- compare --> needs a text block after an sh block that is run")
            compare(line, lines, output, rest)
        elif word == "skip":
            if language != "sh" or not rest:
                raise Wrong(line - 1, "<!-- skip: REASON --> needs a reason and an sh block")
            output = None
        elif language == "sh":
            if any(each.startswith("$ ") for each in lines):
                raise Wrong(line, "no '$ ' before the commands of an sh block")
            began = time.monotonic()
            output = execute(line, lines, directory, environment)
            print(f"{page}:{line}: {time.monotonic() - began:.1f} s")
            took += time.monotonic() - began
        elif language in ("", "bash", "shell", "console", "shell-session"):
            raise Wrong(line, "a block needs a language: sh for commands, text for output")
    print(f"{page}: {took:.1f} s")


def main():
    yoke, page = sys.argv[1:]
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("YK_", "BATS_", "OMPI_", "PMI"))}
    environment["PATH"] = os.path.dirname(os.path.realpath(yoke)) + ":" + environment["PATH"]
    with tempfile.TemporaryDirectory() as directory:
        try:
            check(page, directory, environment)
        except Wrong as wrong:
            print(f"{page}:{wrong.line}: {wrong}", file=sys.stderr)
            return 1
    return 0


sys.exit(main())
