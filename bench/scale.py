"""Measures how asynchronous and synchronous sparse training scales with threads, processes and parameter servers.

    ./dev bench scale                 all rows
    ./dev bench scale processes       some of them; --list lists them

Logistic regression, 33,762,578 features, 39 non-zeros with a power law, data in memory, default options. Rows that need
more cores than the machine has are skipped. Medians of three runs; rates are sums over all processes.
"""
import statistics
import sys

import bench
from bench import CORES, CTR, Skip, figure, human

TCP = ("--mpi-options", "--mca btl self,tcp --mca btl_tcp_if_include lo")
NO_EVALUATION = ("--eval-every", "1000000000")


def rate(b, epochs, *options):
    """Examples per second, and the test loss at the end."""
    runs = [b.train("--model", "logreg", "--data", f"{CTR}&examples=2000000&seed=1", "--lr", "0.3", "--epochs", str(epochs),
                    *NO_EVALUATION, *options) for _ in range(b.rounds)]
    return statistics.median(r["examples_per_second"] for r in runs), statistics.median(r["test_loss"] for r in runs)


def need(cores):
    if CORES < cores:
        raise Skip(f"needs {cores} cores")


def row(work, got, must, against=""):
    return figure(work, human(got, "examples/s"), against, "", f">= {must / 1e6:.0f} M", got >= 0.9 * must)


def processes(b):
    """asynchronous, batch 100: 1, 2 and 4 processes of 4 threads, shared memory; 4 x 4 over TCP"""
    need(16)
    _, alone = rate(b, 12, "--batch", "100", "--mode", "async")
    rows, before = [], None
    for n in (1, 2, 4):
        got, loss = rate(b, 12, "--batch", "100", "--mode", "async", "--workers", "4", *(("--launch", str(n)) if n > 1 else ()))
        ok = before is None or got >= 1.25 * before
        rows.append(figure(f"{n} x 4 threads", human(got, "examples/s"), "", f"{got / before:.2f} x" if before else "",
                           ">= 1.25 x" if before else "", ok))
        rows.append(figure(f"{n} x 4 threads: test loss", f"{loss:.4f}", f"{alone:.4f} (one thread)", f"{loss - alone:+.4f}",
                           "<= 0.002 more", loss <= alone + 0.002))
        before = got
    rows.append(row("4 x 4, shared memory", before, 30e6))
    rows.append(row("4 x 4, TCP", rate(b, 12, "--batch", "100", "--mode", "async", "--launch", "4", "--workers", "4", *TCP)[0], 25e6))
    return rows


def servers(b):
    """asynchronous, batch 100: 8 workers of 1 thread with 1, 2 and 4 dedicated servers; 12 with 4"""
    need(16)
    rows, before = [], 0
    for n in (1, 2, 4):
        got, _ = rate(b, 8, "--batch", "100", "--mode", "async", "--launch", str(8 + n), "--servers", str(n))
        rows.append(figure(f"8 workers + {n} servers", human(got, "examples/s"), "", "", "no drop", got >= 0.95 * before))
        before = got
    got, _ = rate(b, 8, "--batch", "100", "--mode", "async", "--launch", "16", "--servers", "4")
    rows.append(row("12 workers + 4 servers", got, 12e6))
    return rows


def staleness(b):
    """16 threads of one process, batch 100: --staleness 4, 16, 64"""
    need(16)
    return [row(f"16 threads, --staleness {k}", rate(b, 4, "--batch", "100", "--workers", "16", "--staleness", str(k))[0], must)
            for k, must in ((4, 10e6), (16, 30e6), (64, 58e6))]


def synchronous(b):
    """16 threads of one process, synchronous, batch 100 and 1000 per thread"""
    need(16)
    return [row(f"16 threads, sync, batch {batch}", rate(b, 4, "--batch", str(batch), "--workers", "16")[0], must)
            for batch, must in ((100, 8e6), (1000, 25e6))]


def optimizers(b):
    """adagrad, ftrl and sgd with --l2, batch 100, asynchronous: 1 thread and 16"""
    need(16)
    rows = []
    for name, options in (("adagrad", ("--optimizer", "adagrad", "--lr", "0.1")), ("ftrl", ("--optimizer", "ftrl", "--lr", "0.1"))):
        for threads, must in ((1, 2.5e6), (16, 30e6)):
            got, _ = rate(b, 4, "--batch", "100", "--mode", "async", "--workers", str(threads), *options)
            rows.append(row(f"{name}, {threads} threads", got, must))
    got, _ = rate(b, 4, "--batch", "100", "--mode", "async", "--workers", "16", "--l2", "1e-6")
    return rows + [row("sgd with --l2, 16 threads", got, 30e6)]


def two(b):
    """2 cores: asynchronous, 2 processes of 1 thread against 1 process of 1 thread"""
    need(2)
    pairs = []
    for _ in range(b.rounds):
        one = rate(b, 6, "--batch", "100", "--mode", "async")[0]
        pairs.append(rate(b, 6, "--batch", "100", "--mode", "async", "--launch", "2")[0] / one)
    got = statistics.median(pairs)
    return [figure("2 processes against 1", f"{got:.2f} x", "", "", ">= 1.0 x", got >= 0.9)]


bench.ROWS.clear()
bench.ROWS.update({"processes": processes, "servers": servers, "staleness": staleness, "synchronous": synchronous,
                   "optimizers": optimizers, "two": two})

if __name__ == "__main__":
    sys.exit(bench.main())
