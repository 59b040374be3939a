"""The Python package beside scikit-learn: ./dev bench python.

    python.py WHEEL [ROWS]

Logistic regression on a CSR matrix of float32 with 33.76 M columns and 39 entries per row (synth:ctr), one thread, one epoch.
Times are CPU seconds of the best of a few repetitions, with the wall-clock seconds in parentheses: on a busy machine only the
CPU seconds mean something. Each figure is measured in a process of its own; memory is what the peak is beyond the matrix.
"""
import json
import os
import subprocess
import sys
import tempfile
import time

COLUMNS, ENTRIES, REPEAT = 33_762_578, 39, 3


def rows_of(path):
    import numpy as np
    import scipy.sparse as sp
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    import peers
    columns, start, index, label = peers.map_cache(path)
    X = sp.csr_matrix((np.ones(index.size, np.float32), np.asarray(index).astype(np.int32), np.asarray(start).astype(np.int32)),
                      (len(start) - 1, columns))
    return X, np.asarray(label).astype(np.int64)


def best(work):
    """CPU seconds, wall-clock seconds."""
    times = []
    for _ in range(REPEAT):
        wall, cpu = time.perf_counter(), time.process_time()
        work()
        times.append((time.process_time() - cpu, time.perf_counter() - wall))
    return min(t[0] for t in times), min(t[1] for t in times)


def memory(key):
    with open("/proc/self/status") as f:
        return next(int(line.split()[1]) * 1024 for line in f if line.startswith(key))


def peak_beyond(work):
    with open("/proc/self/clear_refs", "w") as f:
        f.write("5")  # resets the peak
    before = memory("VmRSS")
    kept = work()
    return memory("VmHWM") - before, kept


def measure(what, path):
    X, y = rows_of(path)
    if what == "sklearn":
        from sklearn.linear_model import SGDClassifier
        make = lambda: SGDClassifier(loss="log_loss", max_iter=1, tol=None)
    else:
        import yoke
        make = lambda: yoke.LogisticRegression(epochs=10 if "epochs" in what else 1, copy="in place" not in what)
    make().fit(X[:100], y[:100])  # imports what it needs
    peak, fitted = peak_beyond(lambda: make().fit(X, y))
    fit = best(lambda: make().fit(X, y))
    predict = best(lambda: fitted.predict_proba(X))
    matrix = X.data.nbytes + X.indices.nbytes + X.indptr.nbytes
    print(json.dumps({"fit": fit, "predict": predict, "peak": peak, "matrix": matrix}))


def main():
    wheel, rows = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 1_000_000
    import yoke
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "ctr.cache")
        subprocess.run([yoke._native.PROGRAM, "data", "gen", f"synth:ctr?features={COLUMNS}&nnz={ENTRIES}&examples={rows}&seed=1",
                        "--format", "cache", "--out", path, "--quiet"], check=True, stdout=subprocess.DEVNULL)
        found = {}
        for what in ("sklearn", "default", "in place", "10 epochs"):
            done = subprocess.run([sys.executable, "-W", "ignore", __file__, "--measure", what, path], check=True,
                                  stdout=subprocess.PIPE, text=True)
            found[what] = json.loads(done.stdout)
    weights, matrix = 4 * COLUMNS, found["sklearn"]["matrix"]
    base = found["sklearn"]
    print(f"{rows:,} rows, {COLUMNS:,} columns, {ENTRIES} entries per row; {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}\n")
    print(f"{'':34} {'seconds of CPU (wall)':>22} {'speedup':>9} {'must':>6}")

    def line(name, cpu, wall, ratio=None, must=""):
        print(f"{name:34} {cpu:13.3f} ({wall:6.3f}) {'' if ratio is None else f'{ratio:8.1f}x':>9} {must:>6}")

    line("fit, SGDClassifier", *base["fit"])
    line("fit, yoke", *found["default"]["fit"], base["fit"][0] / found["default"]["fit"][0], "5x")
    line("fit, yoke, copy=False", *found["in place"]["fit"], base["fit"][0] / found["in place"]["fit"][0], "3x")
    line("fit, yoke, 10 epochs, each", *(t / 10 for t in found["10 epochs"]["fit"]),
         base["fit"][0] / found["10 epochs"]["fit"][0] * 10)
    line("predict_proba, scikit-learn", *base["predict"])
    line("predict_proba, yoke (wall)", *found["default"]["predict"], base["predict"][1] / found["default"]["predict"][1], "3x")
    print()
    for name, what, limit in (("memory of fit", "default", matrix + weights), ("memory of fit, 10 epochs", "10 epochs", matrix + weights),
                              ("memory of fit, copy=False", "in place", weights)):
        print(f"{name:34} {found[what]['peak'] / 1e6:9.0f} MB, at most {1.1 * limit / 1e6:.0f} MB")
    print(f"{'wheel':34} {os.path.getsize(wheel) / 1e6:9.1f} MB, at most 10 MB")
    code = "import time, numpy; t = time.process_time(); import yoke; print(time.process_time() - t)"
    quick = min(float(subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.PIPE, text=True).stdout)
                for _ in range(5))
    print(f"{'import yoke, beyond NumPy':34} {quick * 1e3:9.0f} ms, at most 50 ms")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--measure"]:
        measure(*sys.argv[2:])
    else:
        main()
