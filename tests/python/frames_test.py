"""Frames: pandas (with and without pyarrow), polars, pyarrow and any Arrow stream give the same model as the same data in CSV and
Parquet files, and models go from one to the other. Exit status: 0 passed, else failed."""
import contextlib
import datetime
import os
import pickle
import subprocess
import sys
import tempfile
import warnings

import numpy as np

import yoke
from program import main

try:
    import pandas as pd
    import polars as pl
    import pyarrow as pa
    import pyarrow.parquet as pq
except ImportError as missing:
    print(f"skipped: Python package {missing.name} is not installed")
    sys.exit(0)

ROWS = 3000
CATEGORIES = ["city", "plan"]
NUMBERS = ["price", "hour", "mobile", "score"]


def visits(seed=0, rows=ROWS):
    """Numbers, booleans, texts and categories, with missing values."""
    rng = np.random.default_rng(seed)
    city = rng.choice(["Rome", "Paris", "Oslo", "Zürich, Kreis 1"], rows)
    frame = pd.DataFrame({
        "price": rng.normal(size=rows).round(4), "hour": rng.integers(0, 24, rows), "mobile": rng.random(rows) < 0.5,
        "score": rng.normal(size=rows).round(3), "city": pd.Series(city).where(rng.random(rows) < 0.9, None),
        "plan": pd.Categorical(rng.choice(["free", "paid"], rows))})
    frame.loc[rng.random(rows) < 0.1, "score"] = np.nan
    frame["clicked"] = (frame.price + 2 * (frame.city == "Rome") - 1 + rng.normal(size=rows) > 0).astype(int)
    return frame


def raises(words, act, kind=ValueError):
    try:
        act()
    except kind as error:
        assert words in str(error), error
    else:
        raise AssertionError(f"no error: {words}")


@contextlib.contextmanager
def no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


@contextlib.contextmanager
def files(frame):
    """The frame as DIRECTORY/a.csv and a.parquet."""
    with tempfile.TemporaryDirectory() as directory:
        frame.to_csv(f"{directory}/a.csv", index=False)  # booleans are True and False, dates 2024-01-31
        pq.write_table(pa.Table.from_pandas(frame), f"{directory}/a.parquet", row_group_size=700)
        yield directory


def program(*words):
    done = subprocess.run([yoke._native.PROGRAM, *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


OPTIONS = {"epochs": 2, "batch": 20, "lr": 0.05, "out": "none", "test": "none"}
TABLES = [{"bits": 12}, {"scale": "log", "bits": 12}, {"scale": "standard", "encode": "onehot"}, {"encode": "dense", "missing": "7"}]


def weights(data, table=None, model="logreg", **options):
    return yoke.train(model, data, table=table, **{**OPTIONS, **options}).model.tensors()


def same(a, b, tolerance=0.0):
    assert a.keys() == b.keys()
    for name in a:
        assert a[name].shape == b[name].shape and np.abs(a[name] - b[name]).max() <= tolerance, (name, np.abs(a[name] - b[name]).max())


class Anything:
    """An object with nothing but the interface, and a length."""

    def __init__(self, table):
        self.table = table

    def __len__(self):
        return len(self.table)

    def __arrow_c_stream__(self, requested_schema=None):
        return self.table.__arrow_c_stream__(requested_schema)


def spec_of(table):
    return "".join(f"&{name}={value}" for name, value in table.items())


def test_all_frames_and_files_give_the_same_model():
    frame = visits()
    table = pa.Table.from_pandas(frame)
    chunked = pa.concat_tables([table.slice(0, 700), table.slice(700, 1), table.slice(701)])
    views = table.set_column(4, "city", table["city"].cast(pa.string_view()))
    large = table.set_column(4, "city", table["city"].cast(pa.large_string()))
    others = {"pyarrow": table, "chunked": chunked, "views": views, "large": large, "dictionary": table.set_column(
        4, "city", table["city"].dictionary_encode()), "polars": pl.from_pandas(frame), "any": Anything(table),
        "polars categorical": pl.from_pandas(frame).with_columns(pl.col("city").cast(pl.Categorical))}
    with files(frame) as directory:
        for options in TABLES:
            want = weights((frame, "clicked"), options)
            for name, other in others.items():
                same(want, weights((other, "clicked"), options))
            same(want, weights(f"parquet:{directory}/a.parquet?label=clicked{spec_of(options)}"))
            csv = f"csv:{directory}/a.csv?label=clicked&categorical=city,plan{spec_of(options)}"
            same(want, weights(csv))
    same(weights((frame, "clicked"), {"bits": 12}), weights((frame.drop(columns="clicked"), frame.clicked), {"bits": 12}))
    same(weights((frame, "clicked"), model="fm:4"), weights((pl.from_pandas(frame), "clicked"), model="fm:4"))


def test_an_index_is_no_feature():
    frame = visits(rows=500)
    want = weights((frame, "clicked"), {"bits": 12})
    for index in (np.arange(7, 507), pd.Index(range(7, 507), name="key"), pd.MultiIndex.from_product([range(5), range(100)])):
        indexed = frame.set_axis(index)
        same(want, weights((indexed, "clicked"), {"bits": 12}))
        assert list(yoke.LogisticRegression(epochs=1, lr=0.01).fit(indexed, "clicked").feature_names_in_) == list(frame.columns[:-1])
    same(want, weights((pa.Table.from_pandas(indexed), "clicked"), {"bits": 12}))
    with tempfile.TemporaryDirectory() as directory:
        indexed.to_parquet(f"{directory}/a.parquet")
        same(want, weights(f"parquet:{directory}/a.parquet?label=clicked&bits=12"))


def test_large_tables():
    """Several threads read a table, and predict."""
    frame = visits(rows=50000)
    with files(frame) as directory:
        same(weights((frame, "clicked"), {"bits": 12}), weights(f"parquet:{directory}/a.parquet?label=clicked&bits=12"))
    model = yoke.train("logreg", (frame, "clicked"), **OPTIONS).model
    parts = [model.probabilities(frame[i:i + 10000]) for i in range(0, 50000, 10000)]
    assert np.array_equal(model.probabilities(frame), np.concatenate(parts))


WITHOUT_PYARROW = """
import sys
sys.modules["pyarrow"] = None  # an import of it fails
import datetime, pickle
import numpy as np, pandas as pd
import yoke
frame = pickle.load(open(sys.argv[1], "rb"))
frame = pd.DataFrame({name: pd.Categorical(v[0], v[1]) if isinstance(v, tuple) else pd.array(v, k) if k else v for name, (v, k) in frame.items()})
assert "pyarrow" not in {name.split(".")[0] for name, module in sys.modules.items() if module is not None}
run = yoke.train("logreg", (frame, "clicked"), epochs=2, batch=20, lr=0.05, out="none", test="none", table={"bits": 12, "scale": "standard"})
pickle.dump((run.model.tensors(), run.model.probabilities(frame)), open(sys.argv[1], "wb"))
"""


def test_pandas_without_pyarrow():
    frame = visits()
    rng = np.random.default_rng(3)
    lists = {name: (frame[name].to_numpy(), None) for name in ("price", "hour", "mobile", "score", "clicked")}
    lists |= {"city": (frame.city.astype(object).where(frame.city.notna(), None).tolist(), None),
              "plan": ((frame.plan.astype(object).tolist(), ["paid", "free"]), None),
              "zip": ((rng.integers(1000, 1010, ROWS).tolist(), list(range(1000, 1010))), None),
              "flag": ((rng.integers(0, 2, ROWS).astype(bool).tolist(), [False, True]), None),
              "month": ((np.array(["2024-01-01", "2024-02-01"], "datetime64[s]")[rng.integers(0, 2, ROWS)], None), None),
              "small": (rng.integers(0, 9, ROWS).astype(np.int8), None), "half": (rng.normal(size=ROWS).astype(np.float16), None),
              "nullable": ([None if i % 7 == 0 else i % 5 for i in range(ROWS)], "Int64"),
              "yes": ([None if i % 9 == 0 else i % 2 == 0 for i in range(ROWS)], "boolean"),
              "maybe": ([None if i % 9 == 0 else i % 2 == 0 for i in range(ROWS)], None),
              "day": ([datetime.date(2024, 1, 1 + i % 28) for i in range(ROWS)], None),
              "when": (np.array(["2024-01-01", "NaT", "2024-02-03T04:05:06"], "datetime64[s]")[rng.integers(0, 3, ROWS)], None)}
    whole = pd.DataFrame({name: pd.Categorical(*v) if isinstance(v, tuple) else pd.array(v, kind) if kind else v
                          for name, (v, kind) in lists.items()})
    run = yoke.train("logreg", (whole, "clicked"), table={"bits": 12, "scale": "standard"}, **OPTIONS)
    with tempfile.NamedTemporaryFile() as file:
        with open(file.name, "wb") as f:
            pickle.dump(lists, f)
        subprocess.run([sys.executable, "-c", WITHOUT_PYARROW, file.name], check=True)
        with open(file.name, "rb") as f:
            tensors, probabilities = pickle.load(f)
    same(run.model.tensors(), tensors)
    assert np.array_equal(run.model.probabilities(whole), probabilities)


def test_import_needs_no_frame_package():
    code = "import sys, yoke; assert not {'pandas', 'polars', 'pyarrow'} & set(sys.modules), sorted(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_models_go_between_frames_and_files():
    frame, new = visits(), visits(1)
    with files(new) as directory:
        spec, again = f"csv:{directory}/a.csv", f"parquet:{directory}/a.parquet"
        run = yoke.train("logreg", (frame, "clicked"), table={"scale": "standard"}, **{**OPTIONS, "out": f"{directory}/run"})
        want = run.model.probabilities(new)
        for data in (spec, again):
            rows = program("predict", "--checkpoint", f"{directory}/run", "--data", data).splitlines()
            got = np.array([float(row.split(",")[-1]) for row in rows[-ROWS:]])
            assert np.abs(got - want[:, 0]).max() < 1e-6
            assert np.array_equal(yoke.Model.load(f"{directory}/run").probabilities(data), want)
            assert run.model.evaluate(data) == run.model.evaluate(new)
        program("train", "--model", "logreg", "--data", again + "?label=clicked&scale=log", "--out", f"{directory}/cli", "--quiet")
        model = yoke.Model.load(f"{directory}/cli")
        assert np.array_equal(model.probabilities(new), model.probabilities(again))
        assert model.evaluate(pl.from_pandas(new)) == model.evaluate(spec)


def test_dates_and_booleans_of_files():
    """Files have them as texts, or as values of their own."""
    frame = visits().drop(columns="clicked")
    days = np.arange(ROWS) % 400
    frame["day"] = [datetime.date(2023, 12, 31) + datetime.timedelta(int(i)) for i in days]
    frame["when"] = pd.to_datetime("2024-02-28T23:59:58.5") + pd.to_timedelta(days * 5000, "s")
    frame["bought"] = frame.price > 0
    run = yoke.train("logreg", (frame, "bought"), table={"scale": "standard"}, **OPTIONS)
    want = run.model.evaluate(frame)
    assert run.model.evaluate(frame, "bought") == run.model.evaluate((frame, "bought")) == want
    raises("has no column 'nope'", lambda: run.model.evaluate(frame, "nope"))
    with files(frame) as directory:
        pl.from_pandas(frame).write_csv(f"{directory}/b.csv")  # true, and times with T
        for data in (f"csv:{directory}/a.csv", f"csv:{directory}/b.csv", f"parquet:{directory}/a.parquet"):
            assert run.model.evaluate(data) == want
            assert np.abs(run.model.probabilities(data) - run.model.probabilities(frame)).max() < 1e-6


def test_columns_are_matched_by_name():
    frame = visits()
    estimator = yoke.LogisticRegression(epochs=3, lr=0.01).fit(frame, "clicked")
    with no_warnings():
        want = estimator.predict_proba(frame)
        for other in (frame[frame.columns[::-1]], pl.from_pandas(frame).select(reversed(frame.columns)),
                      pa.Table.from_pandas(frame.drop(columns="clicked"))):
            assert np.array_equal(estimator.predict_proba(other), want)
        assert estimator.score(frame, "clicked") == estimator.score(frame.drop(columns="clicked"), frame.clicked) > 0.7
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert np.array_equal(estimator.predict_proba(frame.assign(zip="8000")), want)
    assert len(caught) == 1 and "1 column is not in the model, and ignored: zip" in str(caught[0].message)
    assert caught[0].category is yoke.YokeWarning and caught[0].filename == __file__
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        estimator.predict(frame.assign(city=frame.city.str.upper(), plan=frame.plan.astype(str).str.upper()))
    assert len(caught) == 1 and "have no weight in the model" in str(caught[0].message) and caught[0].filename == __file__
    raises("the column 'hour' is missing", lambda: estimator.predict(frame.drop(columns="hour")))
    raises("column 1 (price): 'cheap' is not a number", lambda: estimator.predict(frame.assign(price="cheap")))
    raises("fitted on a frame", lambda: estimator.predict(frame[NUMBERS].to_numpy()))


def test_names_of_coefficients_and_schema():
    frame = visits()
    numbers = frame[NUMBERS + ["clicked"]]
    estimator = yoke.LogisticRegression(epochs=3, lr=0.01).fit(numbers, "clicked")
    assert list(estimator.feature_names_in_) == NUMBERS and estimator.n_features_in_ == 4 and estimator.coef_.shape == (1, 4)
    assert estimator.model_.feature_names == NUMBERS
    by_name = dict(zip(estimator.feature_names_in_, estimator.coef_[0]))
    assert abs(by_name["price"]) > 3 * abs(by_name["score"])
    given = numbers[NUMBERS].fillna(0).to_numpy(np.float32)
    scores = given @ estimator.coef_[0] + estimator.intercept_[0]
    assert np.abs(scores - estimator.decision_function(numbers)).max() < 1e-4
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # no names
        assert np.abs(estimator.predict_proba(given) - estimator.predict_proba(numbers)).max() < 1e-6

    encoded = yoke.LogisticRegression(epochs=3, table={"encode": "onehot", "scale": "standard"}).fit(frame, "clicked")
    names = encoded.model_.feature_names
    assert encoded.coef_.shape == (1, len(names)) and set(names) > {"price", "city=Rome", "plan=free"}
    weight = dict(zip(names, encoded.coef_[0]))
    assert weight["city=Rome"] > max(weight["city=Oslo"], weight["city=Paris"])
    assert list(encoded.feature_names_in_) == NUMBERS + CATEGORIES
    raises("fitted on a frame with categories", lambda: encoded.predict(given))

    schema = encoded.model_.schema
    assert schema["format"] == "frame" and schema["scale"] == "standard"
    columns = {c["name"]: c for c in schema["columns"]}
    assert columns["clicked"]["role"] == "label" and columns["price"]["type"] == "float64" and columns["mobile"]["type"] == "bool"
    assert np.isclose(columns["score"]["mean"], frame.score.mean()) and set(columns["plan"]["values"]) == {"free", "paid"}
    hashed = yoke.LogisticRegression(epochs=1, lr=0.01).fit(frame, "clicked")
    assert hashed.model_.feature_names is None and hashed.model_.schema["features"] == hashed.coef_.shape[1]
    assert yoke.LogisticRegression(epochs=1).fit(given, frame.clicked).model_.feature_names is None


def test_labels():
    frame = visits()
    X, y = frame.drop(columns="clicked"), frame.clicked
    table = {"bits": 10}
    want = yoke.LogisticRegression(epochs=2, lr=0.01, table=table).fit(frame, "clicked")
    for labels in (y, y.to_numpy(), y.astype(bool), list(y), pl.Series("clicked", y.to_numpy()), y.astype("Int64"),
                   pd.Series(np.where(y, "yes", "no"), name="clicked")):
        other = yoke.LogisticRegression(epochs=2, lr=0.01, table=table).fit(X, labels)
        assert np.array_equal(want.coef_, other.coef_), type(labels)
        assert other.score(X, labels) == want.score(frame, "clicked")
    assert list(other.classes_) == ["no", "yes"] and other.model_.schema["classes"] == ["no", "yes"]
    named = frame.assign(clicked=np.where(y, "yes", "no"))
    with files(named) as directory:  # class names are those of the files
        assert other.model_.evaluate(f"csv:{directory}/a.csv")["accuracy"] == other.score(X, labels)
        run = yoke.train("logreg", (named, "clicked"), table=table, **{**OPTIONS, "test": (named, "clicked")})
        assert abs(run.summary["test_accuracy"] - run.model.evaluate(named)["accuracy"]) < 1e-4
    for column, features in ((y.astype(float), 6), (1 - y, 7)):  # the label under its own name, and another column with this name
        for given in (X.assign(clicked=column), pl.from_pandas(X.assign(clicked=column))):
            other = yoke.LogisticRegression(epochs=1, lr=0.01, table=table).fit(given, y)
            assert other.n_features_in_ == features and abs(other.score(given, y) - other.model_.evaluate(given, y)["accuracy"]) < 1e-6
            run = yoke.train("logreg", (given, y), table=table, **{**OPTIONS, "test": (given, y)})
            assert run.model.schema["columns"][6]["role"] == ("label" if features == 6 else "numeric")
    unknown = X.assign(clicked=pd.array(["a", None] * (ROWS // 2), "string"))
    assert yoke.LogisticRegression(epochs=1, lr=0.01, table=table).fit(unknown, y, sample_weight=2).n_features_in_ == 7
    three = yoke.SoftmaxRegression(epochs=3, lr=0.01).fit(X, np.digitize(X.price, [-0.5, 0.5]) * 5)
    assert list(three.classes_) == [0, 5, 10] and three.score(X, np.digitize(X.price, [-0.5, 0.5]) * 5) > 0.7
    names = np.array(["low", "middle", "high"])[np.digitize(X.price, [-0.5, 0.5])]
    one_and_two = np.where(y, 2.0, 1.0)
    for kind, labels in ((yoke.LogisticRegression, np.where(y, "yes", "no")), (yoke.SoftmaxRegression, names),
                         (yoke.SoftmaxRegression, np.digitize(X.price, [-0.5, 0.5]) * 5), (yoke.LogisticRegression, one_and_two)):
        estimator = kind(epochs=1, lr=0.01).fit(X, labels)
        for given in (labels, labels.tolist(), labels.astype(object), pd.Series(labels), pl.Series(labels)):
            assert abs(estimator.model_.evaluate(X, given)["accuracy"] - estimator.score(X, labels)) < 1e-6
    assert estimator.model_.evaluate(X, one_and_two.astype(int)) == estimator.model_.evaluate(X, one_and_two)
    raises("row 3: the label 7 is not a class of the model: 1.0, 2.0", lambda: estimator.model_.evaluate(X, [1, 2, 1, 7] + [1] * (ROWS - 4)))
    assert want.model_.evaluate(X, y) == want.model_.evaluate(X, y.astype(bool)) == want.model_.evaluate(frame)
    raises("no column 'click'", lambda: want.fit(frame, "click"))
    raises("inconsistent numbers of samples", lambda: want.fit(X, y[:10]))


def test_missing_labels():
    X = visits(rows=100)[["price", "city"]]
    names, numbers = np.resize(np.array(["no", "yes"], object), 100), np.resize(np.array([0, 1], object), 100)
    model = yoke.LogisticRegression(epochs=1).fit(X, names).model_
    for good in names, numbers:
        for missing in None, np.nan, pd.NA, pd.NaT:
            bad = good.copy()
            bad[[5, 8]] = missing
            estimators = (yoke.LogisticRegression(epochs=1), yoke.SoftmaxRegression(epochs=1)) + (yoke.LinearRegression(),) * (good is numbers)
            for y in bad, bad.tolist(), pd.Series(bad), pd.DataFrame({"y": bad}):
                y = bad if missing is not None and isinstance(y, list) else y  # NumPy makes a text of NaN in a list of texts
                for estimator in estimators:
                    for data in X, X[["price"]].to_numpy():
                        raises("row 5: the label is missing: leave out the rows", lambda: estimator.fit(data, y), yoke.DataError)
                raises("row 5: the label is missing", lambda: yoke.LogisticRegression().partial_fit(X, y, classes=list(good[:2])))
            raises("row 5: the label is missing", lambda: estimators[0].fit(X.assign(y=bad), "y"))
            raises("row 5: the label is missing", lambda: model.evaluate(X, bad))
            raises("row 5: ", lambda: yoke.train("logreg", (X[["price"]].to_numpy(), bad), out="none"))
    raises("not object: row 0 has 'no'", lambda: yoke.train("logreg", (X, names), out="none"))


def test_null_characters_in_names():
    X, y = visits(rows=100)[["price", "city"]], np.arange(100) % 2
    named = X.rename(columns={"price": "a\0b"}).assign(y=y)
    for frame in (named, pl.from_pandas(named), pa.Table.from_pandas(named), pa.Table.from_pandas(named).to_reader()):
        raises("frame: the name of the column 'a\\x00b' contains a null character", lambda: yoke.LogisticRegression().fit(frame, "y"))
    hidden, sys.modules["pyarrow"] = sys.modules["pyarrow"], None
    try:
        raises("'a\\x00b' contains a null character", lambda: yoke.LogisticRegression().fit(named, "y"))
    finally:
        sys.modules["pyarrow"] = hidden
    raises("'y\\x00z' contains a null character", lambda: yoke.LogisticRegression().fit(X, pd.Series(y, name="y\0z")))
    raises("'a\\x00b' contains a null character", lambda: yoke.LogisticRegression().fit(X, np.array(["a\0b", "a\0c"])[y]))


def test_other_estimators():
    from sklearn.model_selection import GridSearchCV
    frame = visits()
    X, y = frame.drop(columns="clicked"), frame.clicked
    network = yoke.Network("dense 8, relu", epochs=3, table={"scale": "standard"}).fit(X, y)
    clicks = yoke.ClickModel("deepfm:4", epochs=2).fit(X, y)
    assert network.score(X, y) > 0.7 and clicks.score(X, y) > 0.7
    assert yoke.ClickModel(epochs=2).fit(X[["price", "hour"]], y).score(X[["price", "hour"]], y) > 0.6  # sparse rows of numbers
    raises("leave out fields", lambda: yoke.ClickModel(fields=[0]).fit(X, y))
    again = pickle.loads(pickle.dumps(clicks))
    assert np.array_equal(again.predict_proba(X), clicks.predict_proba(X))
    pixels = pd.DataFrame(np.random.default_rng(0).integers(0, 255, (100, 4), np.uint8), columns=list("abcd"))
    bright = (pixels.sum(axis=1) > 510).astype(int)
    assert np.array_equal(yoke.Network(epochs=2).fit(pixels, bright).predict_proba(pixels.to_numpy()),
                          yoke.Network(epochs=2).fit(pixels.to_numpy(), bright).predict_proba(pixels.to_numpy()))
    for rows, kind in ((pixels, yoke.Network), (pixels.astype(np.float32), yoke.ClickModel)):  # handled as matrices
        expected = kind(epochs=2).fit(rows.to_numpy(), bright, sample_weight=bright + 1)
        for label in (bright, bright.astype(np.uint8), np.where(bright, "yes", "no")):
            whole = rows.assign(label=label, w=bright + 1)
            for table in (whole, pl.from_pandas(whole), pa.Table.from_pandas(whole)):
                fitted = kind(epochs=2).fit(table, "label", sample_weight="w")
                assert np.array_equal(fitted.predict_proba(rows), expected.predict_proba(rows.to_numpy()))
                assert fitted.score(table, "label", sample_weight="w") == expected.score(rows.to_numpy(), bright, bright + 1)
    raises("X has no column 'label'", lambda: yoke.ClickModel().fit(pixels, "label"))
    raises("X has no column 'label'", lambda: yoke.LogisticRegression().fit(pixels.to_numpy(), "label"))
    search = GridSearchCV(yoke.LogisticRegression(epochs=2), {"table": [None, {"scale": "standard"}], "lr": [0.01]}, cv=2).fit(X, y)
    assert search.best_score_ > 0.7
    parts = yoke.LogisticRegression(lr=0.01).partial_fit(X[:1500], y[:1500], classes=[0, 1])
    first = parts.coef_.copy()
    parts.partial_fit(pl.from_pandas(X[1500:])[:, ::-1], y[1500:].to_numpy())
    assert parts.coef_.shape == first.shape and not np.array_equal(parts.coef_, first) and parts.score(X, y) > 0.65
    raises("not in classes", lambda: parts.partial_fit(X, y + 1))
    raises("fitted on a frame", lambda: parts.partial_fit(X[NUMBERS].fillna(0).to_numpy(), y))


def reader(frame, log=None, rows=256):
    table = pa.Table.from_pandas(frame)

    def batches():
        for batch in table.to_batches(max_chunksize=rows):
            if log is not None:
                log.append(len(batch))
            yield batch
    return pa.RecordBatchReader.from_batches(table.schema, batches())


def test_streams_are_read_once():
    frame, log = visits(), []
    one = yoke.train("logreg", (reader(frame, log), "clicked"), table={"classes": 2, "bits": 12}, **{**OPTIONS, "epochs": 1})
    assert sum(log) == ROWS and one.summary["examples"] == ROWS
    same(weights((reader(frame), "clicked"), {"classes": 2, "bits": 12}, hash_bits=12), weights((frame, "clicked"), {"bits": 12}))
    estimator = yoke.LogisticRegression(lr=0.01).fit(reader(frame), "clicked")  # one epoch
    assert estimator.summary_["examples"] == ROWS and list(estimator.classes_) == [0, 1]
    assert np.array_equal(estimator.predict_proba(reader(frame)), estimator.predict_proba(frame))
    assert yoke.LogisticRegression(lr=0.01, epochs=3).fit(reader(frame), "clicked").summary_["examples"] == 3 * ROWS
    assert one.model.evaluate(reader(frame)) == one.model.evaluate(frame)
    raises("the stream can be read only once", lambda: yoke.train("logreg", (reader(frame), "clicked"), stream="always", **OPTIONS))
    raises("read it into a table first", lambda: weights((reader(frame), "clicked"), {"scale": "standard"}))

    def broken():
        yield from pa.Table.from_pandas(frame).to_batches(max_chunksize=1000)[:1]
        raise OSError("the connection was lost")
    stream = pa.RecordBatchReader.from_batches(pa.Table.from_pandas(frame).schema, broken())
    raises("the connection was lost", lambda: yoke.LogisticRegression().fit(stream, "clicked"))
    raises("the label of a stream must be one of its columns", lambda: yoke.LogisticRegression().fit(reader(frame), frame["clicked"]))


def test_dates_and_refused_types():
    frame = visits(rows=500)
    days = [datetime.date(2024, 1, 1) + datetime.timedelta(i % 90) for i in range(500)]
    times = [datetime.datetime(2024, 1, 1, 12) + datetime.timedelta(hours=i % 90) for i in range(500)]
    frame = pl.from_pandas(frame).with_columns(day=pl.Series(days), when=pl.Series(times))
    numbers = frame.with_columns(day=pl.col("day").cast(pl.Int32), when=pl.col("when").dt.epoch("s").cast(pl.Float64))
    options = {"scale": "standard", "bits": 10}
    same(weights((frame, "clicked"), options), weights((numbers, "clicked"), options))
    estimator = yoke.LogisticRegression(epochs=1, table=options).fit(frame, "clicked")
    estimator.predict(frame.with_columns(day=pl.col("day").cast(pl.String)))
    raises("(day) has the type timestamp[us] here, but date in the training data",
           lambda: estimator.predict(frame.with_columns(day=pl.col("day").cast(pl.Datetime("us")))))
    with tempfile.TemporaryDirectory() as directory:
        frame.write_parquet(f"{directory}/1.parquet")
        frame.with_columns(day=pl.col("day").cast(pl.Datetime("us"))).write_parquet(f"{directory}/2.parquet")
        raises("2.parquet: the column 'day' has the type TIMESTAMP, but DATE in",
               lambda: yoke.train("logreg", f"parquet:{directory}?label=clicked&scale=standard", test="none", out="none"))
    table = frame.to_arrow().append_column("cost", pa.array([1] * 500, pa.decimal128(9, 2)))
    raises("column 10 (cost): values of the type decimal are not supported", lambda: weights((table, "clicked"), options))
    same(weights((frame, "clicked"), options), weights((table, "clicked"), {**options, "ignore": "cost"}))
    nested = table.append_column("tags", pa.array([[1]] * 500))
    raises("list", lambda: weights((nested, "clicked"), {**options, "ignore": "cost"}))
    raises('(table={"scale": "standard"})', lambda: weights(frame), RuntimeError)  # the label has a usual name
    raises('choose the label with table={"label": "NAME"}', lambda: weights(frame.rename({"clicked": "bought"})))
    raises("unknown option nonsense", lambda: weights((frame, "clicked"), {"nonsense": 1}))
    raises("one column", lambda: weights((pa.chunked_array([[1.0, 2.0]]), [0, 1])))
    raises("has values of different types" if "pyarrow" not in sys.modules else "city",
           lambda: weights((visits(rows=10).assign(city=[1, "a"] * 5), "clicked")))
    raises("pass its result", lambda: weights((frame.lazy(), "clicked")))
    raises("table", lambda: yoke.train("logreg", "synth:ctr?examples=10", table={"scale": "log"}))


if __name__ == "__main__":
    main(globals())
