"""What the benchmarks share: running yoke and its peers, the data, the table. Python's standard library only.

    def threads(b):
        rate = b.train("--model", "logreg", ...)["examples_per_second"]
        return [figure("2 threads", human(rate, "examples/s"), must=">= 1 M", ok=rate >= 1e6)]

    sys.exit(main({"threads": threads}, __doc__))

A row is a function that returns figures, or raises Skip; its docstring describes the work. bench.py, cluster.py, scale.py and convergence.py have the rows.
"""
import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
FEATURES = 33762578
CTR = f"synth:ctr?features={FEATURES}&nnz=39"
CORES = len(os.sched_getaffinity(0))
TCP = ("over TCP",)  # among the options of train(): processes of this host use sockets; an older yoke, MPI's
TCP_ENVIRONMENT = {"YOKE_SHARED_MEMORY": "0", "OMPI_MCA_btl": "self,tcp", "OMPI_MCA_btl_tcp_if_include": "lo"}


class Skip(Exception):
    """The row cannot be measured here; the text says why."""


class Bench:
    """What the rows share: the program, the data made for them, the repetitions."""

    def __init__(self, options, directory):
        self.yoke = os.path.abspath(options.yoke)
        self.before = os.path.abspath(options.against) if options.against else None
        self.rounds = 1 if options.quick else 3
        self.directory = directory
        self.seed = os.environ.get("YK_SEED", "1")
        self.peers = os.path.join(os.path.abspath(os.environ.get("YK_PEERS", "none")), "bin", "python")
        self.mnist = os.path.join(os.path.abspath(os.environ.get("YK_DATA", "none")), "mnist")
        self.made = {}

    # ---- running things

    def run(self, command, environment={}):
        # In the temporary directory, where run directories may be left behind.
        done = subprocess.run(command, capture_output=True, text=True, cwd=self.directory, env={**os.environ, **environment})
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)}\nended with {done.returncode}: {done.stderr.strip()[-2000:]}")
        return done.stdout

    def train(self, *options, prefix=(), program=None):
        """yoke train: its JSON summary, and the seconds that the whole process took."""
        given = [o for o in options if o not in TCP]
        command = [*prefix, program or self.yoke, "train", *given, "--seed", self.seed, "--json", "--quiet", "--out", "none"]
        start = time.perf_counter()
        out = self.run(command, TCP_ENVIRONMENT if len(given) < len(options) else {})
        seconds = time.perf_counter() - start
        summary = json.loads(out.splitlines()[-1])
        summary["process_seconds"] = seconds
        return summary

    def peer(self, *arguments):
        if not os.access(self.peers, os.X_OK):
            raise Skip("no Python with the peers (./dev peers makes one)")
        return json.loads(self.run([self.peers, os.path.join(HERE, "peers.py"), *arguments]).splitlines()[-1])

    def best(self, measure):
        return max(measure() for _ in range(self.rounds))

    def against(self, ours, theirs):
        """Best rates of both, measured in turns; theirs is None, with the reason, where the peer is missing."""
        us, them, version = 0.0, None, ""
        for _ in range(self.rounds):
            us = max(us, ours())
            try:
                measured = theirs()
                them, version = max(them or 0.0, measured["rate"]), measured["version"]
            except Skip as why:
                version = str(why)
        return us, them, version

    # ---- data

    def need_mnist(self):
        if not os.path.isdir(self.mnist):
            raise Skip("no MNIST ($YK_DATA/mnist)")
        return self.mnist

    def digits(self):
        """MNIST where it is there, else made-up digits of the same shape (the speed is the same)."""
        return f"idx:{self.mnist}" if os.path.isdir(self.mnist) else "synth:digits"

    def generate(self, form, examples):
        """Clicks in a file of that format, made once per run of the benchmark."""
        key = (form, examples)
        if key not in self.made:
            path = os.path.join(self.directory, f"clicks-{examples}.{form}")
            self.run([self.yoke, "data", "gen", f"{CTR}&examples={examples}&seed=1", "--out", path, "--format", form])
            self.made[key] = path
        return self.made[key]


# ---- figures

def figure(work, ours, theirs="", ratio="", must="", ok=None):
    return {"work": work, "yoke": ours, "peer": theirs, "ratio": ratio, "must": must, "ok": ok}


def human(rate, unit):
    for limit, letter in ((1e6, " M"), (1e3, " k")):
        if rate >= limit:
            return f"{rate / limit:.3g}{letter} {unit}"
    return f"{rate:.3g} {unit}"


def compared(work, unit, must, us, them, version):
    if them is None:
        return figure(work, human(us, unit), f"skipped: {version}", "", f">= {must} x")
    return figure(work, human(us, unit), f"{human(them, unit)} ({version})", f"{us / them:.1f} x", f">= {must} x",
                  us / them >= must)


# ---- the table

# what a column shows of a figure, its title, its width
COLUMNS = (("work", "work", 52), ("yoke", "yoke", 18), ("peer", "peer", 40), ("ratio", "ratio", 13), ("must", "must", 22))


def show(row, columns):
    verdict = {True: "ok", False: "SHORT", None: ""}[row["ok"]]
    print("  ".join(f"{row[key]:<{width}}" for key, _, width in columns) + "  " + verdict, flush=True)


def machine():
    # /proc/cpuinfo of arm64 has numbers only
    said = subprocess.run(["lscpu"], capture_output=True, text=True, check=False).stdout if shutil.which("lscpu") else ""
    names = [line.split(":", 1)[1].strip() for line in said.splitlines() if line.startswith("Model name")]
    model = names[0] if names else "unknown CPU"
    return f"{model}, {CORES} cores, load {os.getloadavg()[0]:.1f}"


def parse(rows, doc, against):
    parser = argparse.ArgumentParser(prog="./dev bench", description=doc.split("\n\n")[0])
    parser.add_argument("--yoke", default=os.path.join(HERE, "..", "build", "yoke"), help=argparse.SUPPRESS)
    parser.add_argument("--list", action="store_true", help="name the rows")
    parser.add_argument("--quick", action="store_true", help="measure once instead of three times")
    parser.add_argument("--json", metavar="FILE", help="write the figures there as well")
    parser.add_argument("--against", metavar="PROGRAM", help="an older yoke, measured in turns with this one" if against else
                        argparse.SUPPRESS)
    parser.add_argument("name", nargs="*", help="rows to measure (all)")
    options = parser.parse_args()
    unknown = [name for name in options.name if name not in rows]
    if unknown:
        parser.error(f"no row is called {unknown[0]}; there are {', '.join(rows)}")
    if options.against and not against:
        parser.error("--against is for ./dev bench scale")
    if options.against and not os.access(options.against, os.X_OK):
        parser.error(f"--against: {options.against} is not a program")
    return options


def main(rows, doc, columns=COLUMNS, against=False):
    options = parse(rows, doc, against)
    if options.list:
        for name, row in rows.items():
            print(f"{name:<15} {row.__doc__}")
        return 0
    start_time = time.time()
    about = machine()
    print(about)
    print("  ".join(f"{title:<{width}}" for _, title, width in columns))
    found = []
    with tempfile.TemporaryDirectory(prefix="yoke-bench-") as directory:
        bench = Bench(options, directory)
        for name in options.name or rows:
            try:
                figures = rows[name](bench)
            except Skip as why:
                figures = [figure(rows[name].__doc__, f"skipped: {why}")]
            except (RuntimeError, KeyError, TypeError, ValueError) as broken:
                print(f"{name}: {type(broken).__name__}: {broken}", file=sys.stderr)
                figures = [figure(rows[name].__doc__, "failed", ok=False)]
            for row in figures:
                show(row, columns)
                found.append({"name": name, **row})
    verdicts = [row["ok"] for row in found]
    print(f"{verdicts.count(True)} ok, {verdicts.count(False)} short, {verdicts.count(None)} without a verdict, "
          f"{time.time() - start_time:.0f} s")
    if options.json:
        with open(options.json, "w", encoding="utf-8") as f:
            json.dump({"machine": about, "figures": found}, f, indent=1)
    return 1 if False in verdicts else 0
