"""Measures how training scales over threads, processes and parameter servers.

    ./dev bench scale                        all rows, at most about 5 minutes
    ./dev bench scale processes              some of them; --list names them
    ./dev bench scale --against PROGRAM      beside an older yoke, in turns: run by run, new and old

Logistic regression, 33,762,578 features, 39 non-zeros with a power law, data in memory, default options; lenet5 on digits.
Rates are those of all processes together: medians of three runs, ratios are medians of the ratios within one round. A run of
more than 8 seconds is not repeated. The figures to reach are for 16 cores: with fewer, the rows use fewer threads and have no
verdict, except for ratios that do not depend on the number of cores. A figure within a tenth of what it must be counts as ok.
A star marks rates of runs that had to share their cores with other programs.
"""
import statistics
import sys

from harness import CORES, CTR, TCP, Skip, figure, human, main

EXAMPLES = 2_000_000
SLOW = 8.0  # seconds
FULL = 16   # cores that the figures are for
COLUMNS = (("work", "work", 62), ("yoke", "measured", 22), ("peer", "compared with", 36), ("ratio", "ratio", 9),
           ("must", "must", 16))


class Runs:
    """The runs of one setup, new and old; rate[i] is that of round i."""

    def __init__(self):
        self.rate, self.old, self.why, self.busy = [], [], "", False

    def median(self):
        return statistics.median(self.rate)


def once(b, options, program, images):
    where = ("--data", b.digits()) if images else ("--data", f"{CTR}&examples={EXAMPLES}&seed=1", "--test", "none")
    return b.train(*where, "--eval-every", "1000000000", *options, program=program)


def measure(b, setups, images=False):
    """{name: options} to {name: Runs}, each setup once per round, so that those of a round are neighbors in time."""
    found, slow = {name: Runs() for name in setups}, set()
    for _ in range(b.rounds):
        for name, options in setups.items():
            runs = found[name]
            if name not in slow:
                s = once(b, options, None, images)
                runs.rate.append(s["examples_per_second"])
                runs.busy |= any(w["kind"] == "busy_host" for w in s.get("warnings", []) if isinstance(w, dict))
                if s["process_seconds"] > SLOW:
                    slow.add(name)
            if b.before and not runs.why and (name, "old") not in slow:
                try:
                    s = once(b, options, b.before, images)
                    runs.old.append(s["examples_per_second"])
                    if s["process_seconds"] > SLOW:
                        slow.add((name, "old"))
                except RuntimeError as broken:
                    runs.why = str(broken).split("\n", 1)[-1]
    return found


def ratio(runs, base):
    """The median of the ratios within a round."""
    return statistics.median(a / b for a, b in zip(runs.rate, base.rate))


def logreg(*options, batch=100, mode="async", lr="0.3", epochs=8):
    return ("--model", "logreg", "--batch", str(batch), "--mode", mode, "--lr", lr, "--epochs", str(epochs), *options)


def threads(n):
    """As many of n threads of a 16-core machine as this machine has cores for."""
    return max(1, n * min(CORES, FULL) // FULL)


def beside(runs):
    """What the older program reached, and the ratio."""
    if runs.old:
        return human(statistics.median(runs.old), "(older)"), f"{runs.median() / statistics.median(runs.old):.2f} x"
    return ("older: not possible" if runs.why else ""), ""


def rate_row(work, runs, must, unit="examples/s"):
    """A rate that must be reached on 16 cores."""
    got = runs.median()
    peer, times = beside(runs)
    return figure(work, human(got, unit) + ("*" if runs.busy else ""), peer, times, f">= {must / 1e6:g} M",
                  got >= 0.9 * must if CORES >= FULL else None)


def ratio_row(work, runs, base, what, must):
    """A ratio of two setups."""
    got = ratio(runs, base)
    star = "*" if runs.busy or base.busy else ""
    return figure(work, human(runs.median(), "/s") + star, human(base.median(), f"/s ({what})"), f"{got:.2f} x", f">= {must} x",
                  got >= 0.9 * must)


def processes(b):
    """logreg, async, batch 100: 1, 2 and 4 processes x 4 threads, shared memory; 4 x 4 over TCP on the loopback interface"""
    t = threads(4)
    counts = [n for n in (1, 2, 4) if n * t <= max(CORES, 2)]
    most = counts[-1]
    setups = {n: logreg("--workers", str(t), *(("--launch", str(n)) if n > 1 else ()), epochs=40) for n in counts}
    if most > 1:
        setups["tcp"] = (*setups[most], *TCP)
    found = measure(b, setups)
    rows = [rate_row(f"logreg async, {most} x {t} threads, shared memory", found[most], 30e6)]
    if most > 1:
        rows.append(rate_row(f"logreg async, {most} x {t} threads, TCP", found["tcp"], 25e6))
    rows += [ratio_row(f"logreg async, {n} x {t} threads against {n // 2} x {t}", found[n], found[n // 2], f"{n // 2} x {t}",
                       1.25) for n in counts[1:]]
    if most < 4:
        rows.append(figure("logreg async, 4 x 4 threads", f"skipped: needs {FULL} cores; {most} x {t} measured instead"))
    return rows


def servers(b):
    """logreg, async, batch 100: 8 workers of 1 thread with 1, 2 and 4 dedicated servers; 12 with 4"""
    if CORES < FULL:
        raise Skip(f"needs {FULL} cores")
    setups = {(w, n): logreg("--launch", str(w + n), "--servers", str(n)) for w, n in ((8, 1), (8, 2), (8, 4), (12, 4))}
    found = measure(b, setups)
    rows = [figure("logreg async, 8 workers + 1 server", human(found[8, 1].median(), "examples/s"), *beside(found[8, 1]))]
    rows += [ratio_row(f"logreg async, 8 workers + {n} servers", found[8, n], found[8, n // 2], f"8 + {n // 2}", 1)
             for n in (2, 4)]
    return rows + [rate_row("logreg async, 12 workers + 4 servers", found[12, 4], 12e6)]


def staleness(b):
    """logreg, batch 100: 16 threads with --staleness 4, 16, 64; 2 threads with 4 and 16 against async"""
    t, bounds = threads(16), ((4, 10e6), (16, 30e6), (64, 58e6))
    found = measure(b, {k: logreg("--workers", str(t), "--staleness", str(k), epochs=4) for k, _ in bounds})
    rows = [rate_row(f"logreg, {t} threads, --staleness {k}", found[k], must) for k, must in bounds]
    for k, less in ((16, 4), (64, 16)):
        rows.append(ratio_row(f"logreg, {t} threads, --staleness {k} against {less}", found[k], found[less], f"K = {less}", 1))
    if CORES < 2:
        return rows
    two = {k: logreg("--workers", "2", *(("--staleness", str(k)) if k else ()), epochs=4) for k in (None, 4, 16)}
    found = measure(b, two)
    return rows + [ratio_row(f"logreg, 2 threads, --staleness {k} against async", found[k], found[None], "async", must)
                   for k, must in ((4, 0.5), (16, 0.7))]


def synchronous(b):
    """logreg, sync: 16 threads, batch 100 and 1000 of each"""
    t, batches = threads(16), ((100, 8e6), (1000, 25e6))
    found = measure(b, {n: logreg("--workers", str(t), batch=n, mode="sync", epochs=4) for n, _ in batches})
    return [rate_row(f"logreg sync, {t} threads, batch {n}", found[n], must) for n, must in batches]


def optimizers(b):
    """logreg, async, batch 100: adagrad and ftrl with 1 thread and 16; sgd with --l2, 16 threads"""
    many = threads(16)
    setups = {}
    for kind in ("adagrad", "ftrl"):
        setups[f"{kind}, 1 thread"] = logreg("--optimizer", kind, lr="0.1", epochs=2)
        setups[f"{kind}, {many} threads"] = logreg("--workers", str(many), "--optimizer", kind, lr="0.1", epochs=12)
    setups[f"sgd with --l2, {many} threads"] = logreg("--workers", str(many), "--l2", "1e-6", epochs=12)
    return [rate_row(f"logreg async, {name}", runs, 2.5e6 if name.endswith("1 thread") else 30e6)
            for name, runs in measure(b, setups).items()]


def lenet(*options, batch, epochs):
    return ("--model", "lenet5", "--optimizer", "momentum", "--lr", "0.01", "--batch", str(batch), "--epochs", str(epochs),
            "--test", "none", *options)


def lenet_threads(b):
    """lenet5, batch 512, 16 threads, against PyTorch on as many"""
    t = threads(16)
    runs = measure(b, {"yoke": lenet("--threads", str(t), batch=512, epochs=4)}, images=True)["yoke"]
    older, times = beside(runs)
    rows = [figure(f"lenet5, batch 512, {t} threads, beside an older yoke", human(runs.median(), "images/s"), older, times)] \
        if b.before else []
    try:
        peer = b.peer("net", "lenet5", "512", str(t))
    except Skip as why:
        return rows + [figure(f"lenet5, batch 512, {t} threads, against PyTorch", human(runs.median(), "images/s"),
                              f"skipped: {why}", "", ">= 2 x")]
    got = runs.median() / peer["rate"]
    return rows + [figure(f"lenet5, batch 512, {t} threads, against PyTorch", human(runs.median(), "images/s"),
                          f"{human(peer['rate'], 'images/s')} ({peer['version']})", f"{got:.2f} x", ">= 2 x",
                          got >= 0.9 * 2 if CORES >= FULL else None)]


def lenet_replicas(b):
    """lenet5, batch 64: 8 replicas (processes) against 1; PyTorch DDP on as many"""
    n = min(8, CORES)
    if n < 2:
        raise Skip("needs two cores")
    setups = {1: lenet(batch=64, epochs=1), n: lenet("--launch", str(n), batch=64, epochs=n // 2 or 1)}
    found = measure(b, setups, images=True)
    got = ratio(found[n], found[1]) / n
    older, times = beside(found[n])
    one = human(found[1].median(), "images/s (1)")
    rows = [figure(f"lenet5, {n} replicas against 1, of {n} x", human(found[n].median(), "images/s"), one, f"{100 * got:.0f} %",
                   ">= 75 %", got >= 0.9 * 0.75)]
    if b.before:
        rows.append(figure(f"lenet5, {n} replicas, beside an older yoke", human(found[n].median(), "images/s"), older, times))
    try:
        peer = b.peer("ddp", "64", str(n))
        rows.append(figure(f"lenet5, {n} replicas, beside PyTorch DDP", human(found[n].median(), "images/s"),
                           f"{human(peer['rate'], 'images/s')} ({peer['version']})", f"{found[n].median() / peer['rate']:.2f} x"))
    except Skip as why:
        rows.append(figure(f"lenet5, {n} replicas, beside PyTorch DDP", human(found[n].median(), "images/s"), f"skipped: {why}"))
    return rows


def two(b):
    """2 cores: logreg, async, 2 processes x 1 thread against 1 x 1"""
    if CORES < 2:
        raise Skip("needs two cores")
    found = measure(b, {1: logreg(epochs=6), 2: logreg("--launch", "2", epochs=6)})
    return [ratio_row("logreg async, 2 processes x 1 thread against 1 x 1", found[2], found[1], "1 x 1", 1)]


ROWS = {"processes": processes, "servers": servers, "staleness": staleness, "synchronous": synchronous,
        "optimizers": optimizers, "lenet-threads": lenet_threads, "lenet-replicas": lenet_replicas, "two": two}

if __name__ == "__main__":
    sys.exit(main(ROWS, __doc__, COLUMNS, against=True))
