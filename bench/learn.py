"""Compares what many workers learn with what one learns: the test loss after equal examples, and the time to one worker's loss.

    ./dev bench learn                            60 cells, 20 minutes on 16 cores
    ./dev bench learn --quick                    12 cells, a few minutes on 2 cores
    ./dev bench learn --cells 'lenet5.*server'   those whose line matches
    ./dev bench learn --against ../old/yoke      also the same jobs of another yoke

The cells are in learn.cells, which explains its columns. A cell fails if its job diverges, ends above an untrained model, or ends
above its limit; and, with at least 16 cores, if it is too slow to the loss of one worker. Fewer cores show less harm: a cell that is
worse there is worse, one that is ok must be measured with 16 cores.

Loss: the worst of two runs without evaluations before the end, because these merge copies. Time to loss: seconds of training until
the first evaluation, every 0.1 epoch, at or below 1.01 times one worker's loss after N epochs, within 4 N epochs; median of three
runs, or one run if the cell has no limit for it. A run that takes longer than 10 s is not repeated. In one process, workers pause
during an evaluation, and that time does not count. The processes of a job keep training, on fewer cores. So a job is timed in a second
run, which is evaluated only at the step at which the first one reached the loss.

Needs a yoke (--yoke) and Python 3. MNIST is in $YK_DATA/mnist (else generated digits are used), Fashion-MNIST in
$YK_DATA/fashion-mnist or where Debian's dataset-fashion-mnist has it.
"""
import argparse
import json
import math
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

from harness import CORES, HERE, Skip, machine

FULL = 16  # cores that judge times
SLACK = 0.9  # of a required speed
CLOSE = 1.01  # "at or below 1.01 times one worker's loss"
MIN_STEPS = 200
TOO_LONG, LONG = 900, 10  # seconds of a run: until it is killed; if it is not repeated
EVALUATION = re.compile(r"step (\d+), epoch [\d.]+: .*test loss ([\d.]+),")
JOINED = "a worker has joined"
FASHION = "/usr/share/datasets/fashion-mnist"


# ---- the cells

class Cell:
    def __init__(self, line, words, known):
        limit, model, data, rate, job, batch, epochs, *marks = words
        self.text = " ".join(words[1:7])
        self.must, self.goal = known["limit"][limit].split()
        self.model = known["model"].get(model, model)
        self.examples, self.classes, self.data = known["data"][data].split()
        self.examples, self.classes, self.epochs, self.batch = int(self.examples), int(self.classes), int(epochs), int(batch)
        self.rate = [] if rate == "default" else known["rate"][rate].split()
        self.job = known["job"][job].split()
        self.joins = "--join" in self.job
        self.job = [word for word in self.job if word != "--join"]
        self.sync = "async" not in self.job and "--staleness" not in self.job
        servers = 0 if self.option("--servers") in (None, "all") else self.number("--servers")
        self.workers = self.number("--workers") * (self.number("--launch") - servers)
        speeds = [mark[1:].split("/") for mark in marks if mark.startswith("x")]
        self.speed = float(speeds[0][0]) if speeds else None
        self.marks = marks
        steps = self.examples * self.epochs / self.workers / self.batch
        if steps < MIN_STEPS:
            raise ValueError(f"learn.cells:{line}: {steps:.0f} steps per worker, fewer than {MIN_STEPS}")

    def option(self, name):
        return self.job[self.job.index(name) + 1] if name in self.job else None

    def number(self, name):
        return int(self.option(name) or 1)

    def one_batch(self):
        return self.batch * (self.workers if self.sync else 1)

    def untrained(self):
        return math.log(self.classes)

    def allowed(self, one, text):
        """The loss that a limit allows."""
        if text == "half":
            return 0.5 * (one + self.untrained())
        return one + float(text) if text.startswith("+") else one * float(text) + 1e-5  # rounding


def read_cells(path):
    known, cells = {word: {} for word in ("limit", "model", "data", "rate", "job")}, []
    with open(path, encoding="utf-8") as f:
        for number, line in enumerate(f, 1):
            words = re.sub(r"(^|\s)#.*", "", line).split(None, 2)
            if not words:
                continue
            if words[0] == "cell":
                cells.append(Cell(number, re.sub(r"\s#.*", "", line).split()[1:], known))
            elif words[0] in known:
                known[words[0]][words[1]] = words[2].strip()
            else:
                raise ValueError(f"learn.cells:{number}: unknown word {words[0]}")
    return cells


# ---- runs

class Run:
    """yoke train: its evaluations, and its summary; None: it diverged. done(evaluations) ends it early."""

    def __init__(self, learn, program, options, done=None, joins_at=None):
        self.evaluations = []  # (step, loss)
        self.joined = None  # the number of evaluations before a worker joined
        self.messages = []
        self.out = tempfile.mkdtemp(dir=learn.directory) if joins_at else "none"
        began = time.monotonic()
        command = [program, "train", *options, "--seed", "1", "--json", "--out", os.path.join(self.out, "run") if joins_at else "none"]
        with tempfile.TemporaryFile("w+") as stdout:
            self.process = subprocess.Popen(command, stdout=stdout, stderr=subprocess.PIPE, text=True, cwd=learn.directory,
                                            env=learn.environment)
            watchdog = threading.Timer(TOO_LONG, self.process.kill)
            watchdog.start()
            joiner = None
            for line in self.process.stderr:
                found = EVALUATION.search(line)
                if not found:
                    self.messages.append(line)
                    self.joined = len(self.evaluations) if JOINED in line else self.joined
                    continue
                self.evaluations.append((int(found[1]), float(found[2])))
                if joins_at and not joiner and self.evaluations[-1][0] >= joins_at:
                    joiner = subprocess.Popen([program, "train", "--join", os.path.join(self.out, "run"), "--quiet"], cwd=learn.directory,
                                              env=learn.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                if done and done(self.evaluations):
                    done = None
                    self.process.send_signal(signal.SIGTERM)
            code = self.process.wait()
            watchdog.cancel()
            self.wall = time.monotonic() - began
            if joiner:
                joiner.wait()
            stdout.seek(0)
            printed = stdout.read()
        if joins_at:
            shutil.rmtree(self.out)
        said = "".join(self.messages)
        if code and "diverged" not in said:
            raise RuntimeError(f"{' '.join(command)}\nended with {code}: {said.strip()[-2000:]}")
        self.summary = None if code else json.loads(printed.splitlines()[-1])

    def loss(self):
        return self.summary["test_loss"] if self.summary else math.inf

    def step_of(self, target):
        """The step of the first evaluation at or below `target`; None: never."""
        return next((step for step, loss in self.evaluations if loss <= target), None) if self.summary else None

    def seconds_to(self, target, step_examples):
        """Seconds of training until the first evaluation at or below `target`; infinite: never."""
        step = self.step_of(target)
        return self.summary["train_seconds"] * min(1.0, step * step_examples / self.summary["examples"]) if step else math.inf


def repeat(times, run):
    runs = [run()]
    while len(runs) < times and runs[0].wall < LONG:
        runs.append(run())
    return runs


class Learn:
    def __init__(self, options, directory):
        self.options, self.directory = options, directory
        self.made, self.one = {}, {}
        self.environment = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}

    def data(self, cell):
        """--data, and --test for clicks, which are generated once and read from files."""
        held = os.path.abspath(os.environ.get("YK_DATA", "none"))
        if cell.data == "$DIGITS":
            at = os.path.join(held, "mnist")
            return ["--data", f"idx:{at}" if os.path.isdir(at) else "synth:digits"]
        if cell.data == "$FASHION":
            for at in (os.path.join(held, "fashion-mnist"), FASHION):
                if os.path.isdir(at):
                    return ["--data", f"idx:{at}"]
            raise Skip("no Fashion-MNIST (Debian: dataset-fashion-mnist)")
        if not cell.data.startswith("synth:ctr"):
            return ["--data", cell.data]
        if cell.data not in self.made:
            paths = [os.path.join(self.directory, f"{len(self.made)}-{split}.cache") for split in ("train", "test")]
            for path, split in zip(paths, ("train", "test")):
                subprocess.run([self.options.yoke, "data", "gen", cell.data, "--split", split, "--out", path, "--quiet"], check=True,
                               stdout=subprocess.DEVNULL)
            self.made[cell.data] = ["--data", f"cache:{paths[0]}", "--test", f"cache:{paths[1]}"]
        return self.made[cell.data]

    def command(self, cell, epochs, every, job=()):
        """every: steps between evaluations; None: only at the end. job: options of many workers; those of a synchronous job divide
        the batch of the one worker."""
        batch = ["--global-batch" if job and cell.sync else "--batch", str(cell.one_batch())]
        return ["--model", cell.model, *self.data(cell), *cell.rate, *batch, "--epochs", str(epochs), "--eval-every",
                str(every or 10**12), *job]

    def one_worker(self, cell):
        """Its loss after N epochs, and its seconds to 1.01 times that, for this model, data and batch. Measured once."""
        batch = cell.one_batch()
        every = max(1, cell.examples // batch // 10)
        command = self.command(cell, cell.epochs, None if self.options.no_time else every)
        if str(command) not in self.one:
            runs = repeat(1 if self.options.no_time else self.options.times, lambda: Run(self, self.options.yoke, command))
            if not runs[0].summary:
                raise RuntimeError(f"one worker diverged: {' '.join(command)}")
            loss = runs[0].loss()
            seconds = statistics.median(run.seconds_to(CLOSE * loss, batch) for run in runs)
            self.one[str(command)] = loss, math.nan if self.options.no_time else seconds
        return self.one[str(command)]

    def job(self, cell, program, one):
        """The worst loss of the job, and its seconds to the loss of one worker; nan: not measured."""
        step = cell.one_batch()  # examples of a step of the job, too
        plain = self.command(cell, cell.epochs, None, cell.job)
        worst = max(run.loss() for run in repeat(self.options.losses, lambda: Run(self, program, plain)))
        if self.options.no_time:
            return worst, math.nan
        target, times = CLOSE * one, self.options.times if cell.speed or self.options.rounds else 1

        def run_until(loss, every):
            return Run(self, program, self.command(cell, 4 * cell.epochs, every, cell.job),
                       lambda evaluations: evaluations[-1][1] <= loss)

        def reach():
            run = run_until(target, max(1, cell.examples // step // 10))
            reached = run.step_of(target)
            run.seconds = run.seconds_to(target, step)
            if reached and "--launch" in cell.job:
                run.seconds = run_until(math.inf, reached).seconds_to(math.inf, step)
            return run

        return worst, statistics.median(run.seconds for run in repeat(times, reach))

    def joining(self, cell, program):
        """The worst loss after a worker has joined half way, and that of a job that had it from the start."""
        every = max(1, cell.examples // cell.batch // 10)
        half = cell.examples * cell.epochs // cell.batch // 2
        command = self.command(cell, cell.epochs, every, cell.job)
        run = Run(self, program, command, joins_at=half)
        if run.summary and (run.joined is None or run.joined == len(run.evaluations)):
            raise Skip("the job ended before the worker had joined, or this MPI has no name server")
        after = run.evaluations[run.joined][0] if run.summary else half
        more = ["--launch", str(cell.number("--launch") + 1)]
        start = Run(self, program, command + more)
        worst = max((loss for step, loss in run.evaluations if step >= after), default=math.inf) if run.summary else math.inf
        return worst, max((loss for step, loss in start.evaluations if step >= after), default=math.nan)


# ---- the table

COLUMNS = (("cell", 52), ("one", 8), ("job", 8), ("ratio", 8), ("must", 7), ("one s", 7), ("job s", 7), ("faster", 7), ("must", 5))


def text(x, form, infinite):
    return "" if x != x else infinite if x == math.inf else form % x


def measure(learn, cell, program, one, one_seconds):
    """What the job of one program does, and whether its loss and its time are allowed."""
    seconds = math.nan
    if cell.joins:
        loss, one = learn.joining(cell, program)
    else:
        loss, seconds = learn.job(cell, program, one)
    found = {"one_loss": one, "loss": loss, "ratio": loss / one, "one_seconds": one_seconds, "seconds": seconds,
             "faster": one_seconds / seconds}
    found["loss_ok"] = loss <= cell.allowed(one, cell.must) and loss < cell.untrained()
    found["goal"] = loss <= cell.allowed(one, cell.goal)
    found["time_ok"] = found["faster"] >= SLACK * cell.speed if cell.speed and CORES >= FULL and seconds == seconds else None
    return found


def show(cell, found, other):
    plus = cell.must.startswith("+")
    differs = found["loss"] - found["one_loss"]
    texts = [cell.text, text(found["one_loss"], "%.4f", ""), text(found["loss"], "%.4f", "diverged"),
             text(differs if plus else found["ratio"], "%+.4f" if plus else "%.3f", ""), cell.must,
             text(found["one_seconds"], "%.2f", ""), text(found["seconds"], "%.2f", "never"), text(found["faster"], "%.2f", ""),
             f"{cell.speed:g}" if cell.speed else ""]
    marks = [] if found["loss_ok"] else ["WORSE"]
    marks += ["SLOW"] if found["time_ok"] is False else []
    line = "  ".join(f"{shown:<{width}}" for shown, (_, width) in zip(texts, COLUMNS))
    line += "  " + (" ".join(marks) or ("goal" if found["goal"] else "ok"))
    if other:
        line += f"  other: {text(other['loss'], '%.4f', 'diverged')}, this {text(found['loss'] / other['loss'], '%.3f', '')} x"
        line += f"; {text(other['seconds'], '%.2f s', 'never')}, this {text(other['seconds'] / found['seconds'], '%.2f', '')} x faster" \
            if other["seconds"] == other["seconds"] else ""
    print(line, flush=True)
    return not marks


def parse():
    parser = argparse.ArgumentParser(prog="./dev bench learn", description=__doc__.split("\n\n", maxsplit=1)[0])
    built = os.path.join(HERE, "..", "build", "yoke")
    parser.add_argument("--yoke", default=built if os.access(built, os.X_OK) else shutil.which("yoke"), help="the program (build/yoke)")
    parser.add_argument("--list", action="store_true", help="print the cells")
    parser.add_argument("--quick", action="store_true", help="12 cells, one run of each kind")
    parser.add_argument("--test", action="store_true", help="the 3 cells of ./dev test")
    parser.add_argument("--cells", metavar="PATTERN", default="", help="only cells whose line matches this regular expression")
    parser.add_argument("--rounds", type=int, metavar="N", help="runs of each kind (2 for a loss, 3 for a time)")
    parser.add_argument("--no-time", action="store_true", help="measure only losses")
    parser.add_argument("--against", metavar="PROGRAM", help="another yoke that runs the same jobs")
    parser.add_argument("--json", metavar="FILE", help="write the figures there as well")
    options = parser.parse_args()
    few = options.quick or options.test
    options.losses, options.times = options.rounds or (1 if few else 2), options.rounds or (1 if few else 3)
    for program in (options.yoke, *([options.against] if options.against else [])):
        if not program or not os.access(program, os.X_OK):
            parser.error(f"{program} is not a program; --yoke names the yoke to measure")
    options.yoke = os.path.abspath(options.yoke)
    return options


def chosen(options):
    mark = "quick" if options.quick else "test" if options.test else None
    return [cell for cell in read_cells(os.path.join(HERE, "learn.cells"))
            if (not mark or mark in cell.marks) and re.search(options.cells, cell.text)]


def measure_cell(learn, cell):
    """Whether the cell is ok (None: skipped), and its figures."""
    options, other = learn.options, None
    try:
        one, seconds = (math.nan, math.nan) if cell.joins else learn.one_worker(cell)
        found = measure(learn, cell, options.yoke, one, seconds)
        if options.against:
            other = measure(learn, cell, os.path.abspath(options.against), one, seconds)
    except Skip as why:
        print(f"{cell.text:<52}  skipped: {why}", flush=True)
        return None, {"cell": cell.text, "skipped": str(why)}
    except (RuntimeError, ValueError, KeyError, OSError, subprocess.CalledProcessError) as broken:
        print(f"{cell.text:<52}  FAILED: {broken}", flush=True)
        return False, {"cell": cell.text, "failed": str(broken)}
    return show(cell, found, other), {"cell": cell.text, "must": cell.must, "speed": cell.speed, **found, "other": other}


def main():
    options = parse()
    cells = chosen(options)
    if options.list:
        print("\n".join(f"{cell.text:<52}  {' '.join(cell.marks)}" for cell in cells))
        return 0
    began, about = time.time(), machine()
    print(about + ("" if CORES >= FULL else f": times are not judged with fewer than {FULL}"))
    print("  ".join(f"{title:<{width}}" for title, width in COLUMNS))
    with tempfile.TemporaryDirectory(prefix="yoke-learn-") as directory:
        learn = Learn(options, directory)
        results = [measure_cell(learn, cell) for cell in cells]
    verdicts = [ok for ok, _ in results]
    print(f"{verdicts.count(True)} ok, {verdicts.count(False)} worse, {verdicts.count(None)} skipped, {time.time() - began:.0f} s")
    if options.json:
        figures = {"machine": about, "cells": [found for _, found in results]}
        with open(options.json, "w", encoding="utf-8") as f:
            json.dump(json.loads(json.dumps(figures), parse_constant=lambda _: None), f, indent=1)  # inf and nan: null
    return 1 if False in verdicts else 0


if __name__ == "__main__":
    sys.exit(main())
