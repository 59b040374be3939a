"""Factorization machines and deep models on clicks, beside xLearn and PyTorch: ./dev bench clicks.

    ./dev bench clicks fm deepfm       some of the rows; --list names them

39 fields, 10^6 keys, data in memory. xLearn runs with $YK_XLEARN/bin/python (a virtual environment with xlearn from PyPI, which
needs the variable USER to install, and an x86-64 processor), PyTorch with $YK_PEERS/bin/python. Rows without a peer
say so.
"""
import json
import os
import sys

from harness import CORES, HERE, Skip, compared, figure, human, main

EXAMPLES = 200_000
CLICKS = f"synth:ctr?features=1000000&nnz=39&examples={EXAMPLES}&seed=1"


def clicks_in(b, form):
    """The data in a file, made once."""
    path = os.path.join(b.directory, f"clicks-fm.{form}")
    if path not in b.made:
        b.run([b.yoke, "data", "gen", CLICKS, "--out", path, "--format", form])
        b.made[path] = path
    return path


def rate(b, model, batch, *more, epochs=5):
    return b.train("--model", model, "--data", f"cache:{clicks_in(b, 'cache')}", "--test", "none", "--batch", str(batch),
                   "--epochs", str(epochs), *more)["examples_per_second"]


def with_torch(b, name, width):
    if not os.access(b.peers, os.X_OK):
        raise Skip("no Python with the peers (./dev peers makes one)")
    out = b.run([b.peers, os.path.join(HERE, "click_peers.py"), "torch", name, clicks_in(b, "cache"), str(width), "1000"])
    return json.loads(out.splitlines()[-1])


def with_xlearn(b, width):
    python = os.path.join(os.path.abspath(os.environ.get("YK_XLEARN", "none")), "bin", "python")
    if not os.access(python, os.X_OK):
        raise Skip("no Python with xLearn ($YK_XLEARN)")
    text = clicks_in(b, "libsvm")
    return json.loads(b.run([python, os.path.join(HERE, "click_peers.py"), "xlearn", text, str(width), str(EXAMPLES)])
                      .splitlines()[-1])


def fm(b):
    """fm:8, adagrad, 1 thread, against xLearn and PyTorch"""
    def ours():
        return rate(b, "fm:8", 64)

    us, them, version = b.against(ours, lambda: with_xlearn(b, 8))
    rows = [compared("fm:8, adagrad, batch 64, 1 thread", "examples/s", 2, us, them, version)]
    us, them, version = b.against(ours, lambda: with_torch(b, "fm", 8))
    return rows + [compared("fm:8, adagrad, batch 64, 1 thread; peer: batch 1000", "examples/s", 2, us, them, version)]


def deepfm(b):
    """deepfm:16 with 400-400-400, batch 1000, 1 thread, against PyTorch"""
    us, them, version = b.against(lambda: rate(b, "deepfm:16", 1000, epochs=1), lambda: with_torch(b, "deepfm", 16))
    return [compared("deepfm:16, 400-400-400, batch 1000, 1 thread", "examples/s", 1.2, us, them, version)]


def threads(b):
    """fm:8 and deepfm:16, 16 asynchronous threads against 1"""
    if CORES < 16:
        raise Skip(f"needs 16 cores; there are {CORES}")
    rows = []
    # learning rates warm up (src/store/local_stale.c): long enough for that not to matter
    for model, batch, few, epochs in (("fm:8", 64, 4, 40), ("deepfm:16", 1000, 1, 8)):
        one = b.best(lambda: rate(b, model, batch, epochs=few))
        many = b.best(lambda: rate(b, model, batch, "--mode", "async", "--workers", "16", epochs=epochs))
        rows.append(figure(f"{model}, batch {batch}, 16 threads", human(many, "examples/s"),
                           f"1 thread: {human(one, 'examples/s')}", f"{many / one:.1f} x", ">= 8 x", many / one >= 8))
    return rows


def processes(b):
    """fm:8, 4 processes with 4 threads each against 16 threads"""
    if CORES < 16:
        raise Skip(f"needs 16 cores; there are {CORES}")
    more = ("--mode", "async", "--workers")  # long enough, as above
    threads_only = b.best(lambda: rate(b, "fm:8", 64, *more, "16", epochs=40))
    job = b.best(lambda: rate(b, "fm:8", 64, *more, "4", "--launch", "4", epochs=40))
    return [figure("fm:8, batch 64, 4 processes x 4 threads", human(job, "examples/s"),
                   f"16 threads: {human(threads_only, 'examples/s')}", f"{job / threads_only:.2f} x", ">= 0.3 x",
                   job / threads_only >= 0.3)]


def auc(b):
    """test AUC on clicks with interactions, 5 epochs: fm:8 against logreg and the best possible"""
    data = "synth:ctr?features=10000&examples=1000000&interactions=1"
    got = {}
    for model, more in (("logreg", ("--optimizer", "adagrad")), ("fm:8", ())):
        s = b.train("--model", model, "--data", data, "--batch", "64", "--epochs", "5", "--lr", "0.02", *more)
        got[model] = s["test_auc"]
        best = s["best_auc"]
    return [figure("synth:ctr?interactions=1, fm:8, 5 epochs", f"AUC {got['fm:8']:.4f}", f"best possible: {best:.4f}",
                   f"{got['fm:8'] - best:+.4f}", "within 0.02", best - got["fm:8"] <= 0.02),
            figure("synth:ctr?interactions=1, fm:8 against logreg", f"AUC {got['fm:8']:.4f}",
                   f"logreg: {got['logreg']:.4f}", f"{got['fm:8'] - got['logreg']:+.4f}", ">= 0.01",
                   got["fm:8"] - got["logreg"] >= 0.01)]


if __name__ == "__main__":
    sys.exit(main({"fm": fm, "deepfm": deepfm, "threads": threads, "processes": processes, "auc": auc}, __doc__))
