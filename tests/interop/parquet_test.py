"""yoke reads what pyarrow writes: every type, encoding, page version and compression of src/format/parquet.h. Training on one
day, warm-starting on the next and scoring a third gives the same from CSV and from Parquet (tests/cli_schema.bats compares CSV with
scikit-learn).

    python parquet_test.py                                 # Exit status: 0 passed, 77 skipped (the last line says why)
    python parquet_test.py --files fuzz/corpus/parquet     # writes the files of tests/test_parquet.c and of the fuzzer

YK_BUILD is the build directory.
"""
import itertools
import os
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq
except ImportError as missing:
    print(f"Python package {missing.name} is not installed (./dev peers installs it)")
    sys.exit(77)

SMALL = 40  # rows


def write_files(directory):
    def rows(value, every=0):
        return [None if every and i % every == 1 else value(i) for i in range(SMALL)]

    table = pa.table({
        "flag": pa.array(rows(lambda i: i % 3 == 0), pa.bool_()),
        "small": pa.array(rows(lambda i: i * 7 - 100, 5), pa.int32()),
        "count": pa.array(rows(lambda i: 3_000_000_000 + i % 4), pa.uint32()),
        "big": pa.array(rows(lambda i: (i - 20) * 10**15, 4), pa.int64()),
        "ratio": pa.array(rows(lambda i: i / 8 - 2), pa.float32()),
        "exact": pa.array(rows(lambda i: i / 16 + 1e9, 3), pa.float64()),
        "city": pa.array(rows(lambda i: ["Paris", "Rome", "Oslo, Norway"][i % 3], 7), pa.string()),
        "name": pa.array(rows(lambda i: "n" * (i % 11) + str(i)), pa.string()),
        "day": pa.array(rows(lambda i: 19000 + i), pa.date32()),
        "time": pa.array(rows(lambda i: 1_700_000_000_000 + i * 500), pa.timestamp("ms")),
    })
    required = ("count", "ratio", "name")  # the others are optional
    table = table.cast(pa.schema([f.with_nullable(f.name not in required) for f in table.schema]))
    delta = {c: "DELTA_BINARY_PACKED" for c in ("small", "count", "big", "day", "time")} | {"flag": "RLE"}
    files = {
        "v1-plain": dict(use_dictionary=False),
        "v1-dictionary": dict(),
        "v1-snappy": dict(compression="snappy", row_group_size=16),
        "v2-zstd": dict(compression="zstd", data_page_version="2.0", write_page_checksum=True),
        "v2-gzip": dict(compression="gzip", data_page_version="2.0", use_dictionary=["city"]),
        "v2-delta": dict(data_page_version="2.0", use_dictionary=False, column_encoding=delta),
        "v1-pages": dict(compression="snappy", use_dictionary=False, data_page_size=64, write_batch_size=8),
    }
    for name, options in files.items():
        pq.write_table(table, f"{directory}/{name}", write_statistics=False, store_schema=False,
                       **{"compression": "none", **options})

    # with the range of each column: -1 to 1.5, 10 to 14 (a dictionary), 5 to 9 (differences)
    ranges = pa.table({"x": [-1.0, float("nan"), None, -0.0, 1.5], "kind": pa.array([10, 11, 14, 11, 10], pa.int32()),
                       "time": pa.array([5, 6, 9, 7, 5], pa.timestamp("us"))})
    pq.write_table(ranges, f"{directory}/ranges", store_schema=False, compression="none", use_dictionary=["kind"],
                   column_encoding={"time": "DELTA_BINARY_PACKED"})

    # columns that are refused
    other = pa.table({
        "x": pa.array(range(3), pa.int32()),
        "price": pa.array([1, 2, 3], pa.decimal128(9, 2)),
        "list": pa.array([[1], [2, 3], []], pa.list_(pa.int32())),
        "pair": pa.array([{"a": 1, "b": 2}] * 3, pa.struct([("a", pa.int32()), ("b", pa.int32())])),
        "uuid": pa.array([b"0123456789abcdef"] * 3, pa.binary(16)),
        "old": pa.array([1, 2, 3], pa.timestamp("ns")),
        "split": pa.array([0.5, 1.5, 2.5], pa.float32()),
        "brotli": pa.array([1, 2, 3], pa.int64()),
    })
    pq.write_table(other, f"{directory}/refused", write_statistics=False, store_schema=False, use_dictionary=False,
                   compression={c: "none" for c in other.column_names + ["list.list.element", "pair.a", "pair.b"]}
                   | {"brotli": "brotli"},
                   column_encoding={"split": "BYTE_STREAM_SPLIT"}, use_deprecated_int96_timestamps=True)


def random_table(rng, n, nulls):
    def column(values, kind):
        return pa.array(values, kind, mask=rng.random(n) < nulls)

    def texts(pattern, distinct):
        return np.array([pattern % x for x in rng.integers(0, distinct, n)] or [""], object)[:n]

    return pa.table({
        "bool": column(rng.random(n) < 0.3, pa.bool_()),
        "runs": column(np.arange(n) // 100 % 2 == 0, pa.bool_()),
        "int8": column(rng.integers(-128, 127, n), pa.int8()),
        "uint32": column(rng.integers(0, 2**32, n), pa.uint32()),
        "int32": column(rng.integers(-2**31, 2**31 - 1, n), pa.int32()),
        "int64": column(rng.integers(-2**62, 2**62, n), pa.int64()),
        "few": column(rng.integers(0, 5, n), pa.int64()),
        "float": column(rng.normal(size=n).astype(np.float32), pa.float32()),
        "double": column(rng.normal(size=n), pa.float64()),
        "text": column(texts("v%d", 50), pa.string()),
        "long": column(texts("a text with the number %d, and more", 10**9), pa.string()),
        "same": column(texts("x%.0d", 1), pa.string()),
        "category": column(texts("c%d", 3), pa.string()).dictionary_encode(),
        "binary": column(texts("b%d", 300), pa.string()).cast(pa.binary()),
        "date": column(rng.integers(0, 20000, n).astype(np.int32), pa.date32()),
        "null": pa.nulls(n),
    })


def as_text(table):
    """Rows as test_parquet --read prints them."""
    columns = []
    for c in table.columns:
        if pa.types.is_date(c.type):
            c = c.cast(pa.int32())
        if pa.types.is_floating(c.type):
            columns.append(["null" if v is None else "%.17g" % v for v in c.to_pylist()])
        elif pa.types.is_boolean(c.type):
            columns.append(["null" if v is None else "%d" % v for v in c.to_pylist()])
        else:
            columns.append(["null" if v is None else v.decode() if isinstance(v, bytes) else str(v) for v in c.to_pylist()])
    return ["\t".join(row) for row in zip(*columns)]


def pipeline(directory, rng):
    """Trains on day 1, warm-starts on day 2 and scores day 3 without labels; compares CSV with Parquet, and mixes them."""
    import pyarrow.csv as pc
    from program import yoke

    for day in 1, 2, 3:
        n = 500
        nulls = lambda: rng.random(n) < 0.1
        columns = {"id": pa.array([f"d{day}r{i}" for i in range(n)]), "clicked": pa.array((rng.random(n) < 0.4).astype(np.int32)),
                   "price": pa.array(rng.normal(size=n) * 30, mask=nulls()), "hour": pa.array(rng.integers(0, 24, n)),
                   "city": pa.array([f"city {k}" for k in rng.integers(0, 9, n)], mask=nulls()),
                   "user": pa.array(rng.integers(0, 50, n), pa.int64())}
        if day == 3:
            del columns["clicked"]
        table = pa.table(columns)
        pq.write_table(table, f"{directory}/day{day}.parquet", row_group_size=200)
        pc.write_csv(table, f"{directory}/day{day}.csv")
    scores = {}
    for kinds in itertools.product(("csv", "parquet"), repeat=3):
        at = [f"{kind}:{directory}/day{day}.{kind}" for day, kind in enumerate(kinds, 1)]
        run = f"{directory}/{'-'.join(kinds)}"
        options = "?label=clicked&scale=standard&ignore=id&categorical=city,user"
        yoke("train", "--model", "logreg", "--data", at[0] + options, "--out", f"{run}-1", "--workers", 1, "--test", "none", "--quiet")
        yoke("train", "--model", "logreg", "--data", at[1], "--warm-start", f"{run}-1", "--out", f"{run}-2", "--workers", 1, "--test",
             "none", "--quiet")
        scores[kinds] = yoke("predict", "--checkpoint", f"{run}-2", "--data", at[2], "--id", "id")
    assert len(scores["csv", "csv", "csv"].splitlines()) == 501
    for kinds, text in scores.items():
        assert text == scores["csv", "csv", "csv"], kinds


def main():
    program = os.path.join(os.environ["YK_BUILD"], "test_parquet")
    rng = np.random.default_rng(1)
    delta = {c: "DELTA_BINARY_PACKED" for c in ("int8", "uint32", "int32", "int64", "few", "date")} | {"bool": "RLE"}
    checked = 0
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "a.parquet")
        for n, nulls in (0, 0), (1, 0), (9, 0.5), (3000, 0.2):
            table = random_table(rng, n, nulls)
            expected = as_text(table)
            for codec, version, encoding, small in itertools.product(
                    ("none", "snappy", "gzip", "zstd"), ("1.0", "2.0"), ("dictionary", "plain", "delta"), (True, False)):
                pq.write_table(table, path, compression=codec, data_page_version=version,
                               use_dictionary=encoding == "dictionary", row_group_size=1234 if small else None,
                               data_page_size=4096 if small else None, write_page_checksum=small,
                               column_encoding=delta if encoding == "delta" else None)
                done = subprocess.run([program, "--read", path, "777" if small else "1000000"], capture_output=True, text=True)
                what = (n, nulls, codec, version, encoding, small)
                assert done.returncode == 0, (what, done.stdout[-400:], done.stderr)
                assert done.stdout.splitlines() == expected, what
                checked += 1
        pipeline(directory, rng)
    print(f"{checked} files")


if sys.argv[1:2] == ["--files"]:
    write_files(sys.argv[2])
else:
    main()
