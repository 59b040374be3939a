"""Frames: ./dev bench frames [ROWS].

What `fit` on a frame takes beyond `fit` on the same rows as a matrix, with the default epochs, in CPU seconds of this process and in
seconds: the best of several repetitions that alternate, because the machine may be busy. The frame is a pyarrow table with 30 columns. Numbers: 30 of float64; the
matrix is an array of float32. Categories: 10 numbers and 20 texts, as dictionaries or as strings; the matrix is the CSR matrix of
the hashed features. "Encoding" is the time that the frame itself takes: predict_proba on the frame, minus predict_proba on the matrix.
"""
import os
import subprocess
import sys
import tempfile
import time
import warnings

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import scipy.sparse as sp

import yoke

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import peers

REPEAT, BITS = 5, 20
SIZES = [2, 5, 10, 50, 100, 500, 1000, 2000, 5000, 10000] * 2  # distinct values


def tables(rows):
    rng = np.random.default_rng(0)
    numbers = {f"n{i}": rng.normal(size=rows) for i in range(30)}
    few = {name: numbers[name] for name in list(numbers)[:10]}
    codes = [np.minimum(rng.zipf(1.3, rows) - 1, size - 1) for size in SIZES]
    texts = {f"c{i}": pa.array([f"value {i} {v}" for v in range(size)]).take(pa.array(code))
             for i, (size, code) in enumerate(zip(SIZES, codes))}
    clicked = (numbers["n0"] + codes[3] % 2 - 0.5 + rng.normal(size=rows) > 0).astype(np.int64)
    strings = pa.table({**few, **texts, "clicked": clicked})
    dictionaries = pa.table({**few, **{name: text.dictionary_encode() for name, text in texts.items()}, "clicked": clicked})
    return {"numbers": pa.table({**numbers, "clicked": clicked}), "dictionaries": dictionaries, "strings": strings}


def matrix_of(table):
    """The rows that the frame becomes."""
    if not any(name.startswith("c0") for name in table.column_names):
        return np.column_stack([table[name].to_numpy() for name in table.column_names[:-1]]).astype(np.float32)
    with tempfile.TemporaryDirectory() as directory:
        pq.write_table(table, f"{directory}/a.parquet")
        subprocess.run([yoke._native.PROGRAM, "data", "convert", f"parquet:{directory}/a.parquet?label=clicked&bits={BITS}", "--format",
                        "cache", "--out", f"{directory}/a.cache", "--quiet"], check=True, stdout=subprocess.DEVNULL)
        columns, start, index, _, values = peers.map_cache(f"{directory}/a.cache", values=True)
        return sp.csr_matrix((np.array(values), np.array(index).astype(np.int32), np.array(start).astype(np.int64)),
                             (len(start) - 1, columns))


def seconds(work):
    """CPU and wall-clock seconds."""
    cpu, wall = time.process_time(), time.perf_counter()
    work()
    return time.process_time() - cpu, time.perf_counter() - wall


def best(*works):
    """The best times of each."""
    times = [[seconds(work) for work in works] for _ in range(REPEAT)]
    return [tuple(map(min, zip(*(repetition[i] for repetition in times)))) for i in range(len(works))]


def main():
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    warnings.simplefilter("ignore")
    print(f"{rows:,} rows; {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; CPU seconds (wall)\n")
    print(f"{'':24} {'fit on a matrix':>18} {'fit on the frame':>18} {'overhead: CPU':>15} {'wall':>7} {'encoding':>9} {'of it':>6}")
    for name, table in tables(rows).items():
        X, y = matrix_of(table), table["clicked"].to_numpy()
        options = {} if name == "numbers" else {"table": {"bits": BITS}}
        models = {"logistic": lambda **o: yoke.LogisticRegression(lr=0.01, **o)}
        models |= {"network": lambda **o: yoke.Network(**o)} if name == "numbers" else {"fm:8": lambda **o: yoke.ClickModel(**o)}
        for kind, make in models.items():
            fitted = make(epochs=1).fit(X, y), make(epochs=1, **options).fit(table, "clicked")
            plain, framed, p, q = best(lambda: make().fit(X, y), lambda: make(**options).fit(table, "clicked"),
                                       lambda: fitted[0].predict_proba(X), lambda: fitted[1].predict_proba(table))
            encoding = q[0] - p[0]
            print(f"{name + ', ' + kind:24} {plain[0]:9.3f} ({plain[1]:6.3f}) {framed[0]:9.3f} ({framed[1]:6.3f}) "
                  f"{100 * (framed[0] / plain[0] - 1):13.1f} % {100 * (framed[1] / plain[1] - 1):5.1f} % "
                  f"{encoding:9.3f} {100 * encoding / plain[0]:4.1f} %", flush=True)


if __name__ == "__main__":
    main()
