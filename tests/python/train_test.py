"""yoke.train() and yoke.load(): options, curves, callbacks, Ctrl-C, exceptions, jobs, and what a notebook shows.

Runs with the wheel in an environment of its own (./dev test python). Exit status: 0 passed, else failed.
"""
import os
import pickle
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
import weakref

import numpy as np
import scipy.sparse

import yoke
from program import main

DIGITS = "synth:digits?examples=1000&test=300"


def raises(kind, words, *arguments, **options):
    try:
        yoke.train(*arguments, **options)
    except kind as error:
        assert words in str(error), error
        return error
    raise AssertionError(f"no {kind.__name__}")


def test_sweep():
    with tempfile.TemporaryDirectory() as directory:
        out = os.path.join(directory, "sweep")
        rows = yoke.sweep({"lr": [0.00001, 0.001, 0.3], ("mode", "workers"): [("sync", 1)]}, search="halving", model="softmax", data=DIGITS,
                          steps=16, out=out)
        assert [(row["lr"], row["workers"], row["rung"], row["steps"], row["state"]) for row in rows] == [
            (0.00001, 1, 1, 4, "done"), (0.001, 1, 2, 8, "done"), (0.3, 1, 3, 16, "done")], rows
        assert yoke.load(rows[2]["directory"])["test_loss"] == rows[2]["test_loss"]
    rows = yoke.sweep({"batch": [100, 500]}, repeats=2, model="softmax", data=DIGITS, epochs=1)
    assert [(row["batch"], row["seed"], row["steps"]) for row in rows] == [(100, 1, 10), (500, 1, 2), (100, 2, 10), (500, 2, 2)]
    diverged, other = yoke.sweep({"lr": [1e9, 0.1]}, model="softmax", data=DIGITS, epochs=20)
    assert diverged["state"] == "diverged" and diverged["test_loss"] is None and diverged.keys() == other.keys(), diverged
    assert other["test_loss"] > 0.0 and other["error"] is None and (diverged["diverged"], other["diverged"]) == (True, False)
    (diverged,) = yoke.sweep({"lr": [1e9]}, model="softmax", data=DIGITS, epochs=20)
    assert diverged["test_loss"] is None and diverged["train_loss"] is None, diverged
    assert rows[0]["directory"] is None and "rung" not in rows[0] and not any(isinstance(v, (dict, list)) for v in rows[0].values())
    for words, grid, options in (("spec", {"lr": [1]}, {"data": (np.zeros((2, 2)), np.zeros(2))}), ("batch", {"bach": [1]}, {"data": DIGITS}),
                                 ("'lr': []: must be a list", {"lr": []}, {"data": DIGITS}), ("'lr': 0.1: must be a list", {"lr": 0.1}, {"data": DIGITS}),
                                 ("a tuple with a value for each", {("lr", "batch"): [(1,)]}, {"data": DIGITS}),
                                 ("lr='\\n': a value of a sweep", {"lr": ["\n"]}, {"data": DIGITS}),
                                 ('sweep: lr="x": not a number', {"lr": ["x"]}, {"data": DIGITS}),
                                 ('runs limits a search: add search="halving"', {"lr": [1]}, {"data": DIGITS, "runs": 3})):
        try:
            yoke.sweep(grid, model="softmax", **options)
        except yoke.UsageError as error:
            assert words in str(error), error
        else:
            raise AssertionError(words)


def test_run():
    with tempfile.TemporaryDirectory() as directory:
        out = os.path.join(directory, "run")
        run = yoke.train("softmax", DIGITS, epochs=3, batch=50, lr=0.5, out=out)
        assert run.curves["step"].tolist() == [0, 20, 40, 60] and run.curves["epoch"].tolist() == [0, 1, 2, 3]
        assert run.curves["test_accuracy"][-1] == run.summary["test_accuracy"] > 0.7
        assert np.isnan(run.curves["test_auc"]).all()
        assert run.verdict == run.summary["verdict"] and run.directory == out
        assert run.predict(DIGITS).shape == (300,) and run.predict_proba(DIGITS).shape == (300, 10)
        assert {k: v.shape for k, v in run.model.tensors().items()} == {"0.weight": (10, 784), "0.bias": (10,)}
        metrics = run.metrics
        assert metrics["accuracy"] == run["test_accuracy"] and metrics["loss"] == run["test_loss"] and np.isnan(metrics["auc"])
        assert 0 < metrics["macro_f1"] < 1 and len(metrics["classes"]) == 10 and np.sum(metrics["confusion"]) == 300
        page = run.report()
        assert page.endswith("report.html") and os.path.getsize(page) > 1000
        again = yoke.load(out)
        assert again["test_loss"] == run["test_loss"] and np.array_equal(again.predict_proba(DIGITS), run.predict_proba(DIGITS))
        assert all(np.array_equal(again.curves[k], run.curves[k], equal_nan=True) for k in run.curves)
        assert "<svg" in run._repr_html_() and "softmax" in repr(run)
        os.remove(os.path.join(out, "summary.json"))  # as if the run was killed
        killed = yoke.load(out)
        assert killed["state"] == "unfinished" and killed["steps"] == 60 and killed.predict(DIGITS).shape == (300,)
        assert "softmax on synth:digits" in repr(killed) and "unfinished" in killed._repr_html_()
        more = yoke.train(out=out, resume=True, epochs=4)
        assert more.curves["epoch"].tolist() == [0, 1, 2, 3, 4]
        more.model.save(os.path.join(directory, "m.safetensors"))
        loaded = yoke.Model.load(os.path.join(directory, "m.safetensors"))
        score = loaded.evaluate(DIGITS)
        assert score["confusion"] == more.metrics["confusion"] and score["auc"] is np.nan
        assert score["examples"] == 300 and abs(score["accuracy"] - more.summary["test_accuracy"]) < 1e-6
        assert np.array_equal(pickle.loads(pickle.dumps(loaded)).tensors()["0.bias"], loaded.tensors()["0.bias"])


def test_exceptions_name_python_parameters():
    error = raises(yoke.UsageError, "unknown option btach; did you mean batch?", "softmax", DIGITS, btach=3)
    assert isinstance(error, ValueError) and error.status == 2
    raises(yoke.UsageError, "model is missing; for example, model=\"softmax\"", None, DIGITS, out="none")
    raises(yoke.UsageError, "resume=True needs out=DIR", "softmax", DIGITS, resume=True)
    raises(yoke.UsageError, "unknown option nonsense; yoke.options() lists", "softmax", DIGITS, nonsense=True)
    raises(yoke.UsageError, "optimizer=\"nonsense\": the value must be one of", "softmax", DIGITS, optimizer="nonsense", out="none")
    raises(yoke.DataError, "/nowhere: no such file", "softmax", "libsvm:/nowhere", out="none")
    rows = np.zeros((4, 2), np.float32)
    raises(yoke.UsageError, "data and test must be a spec, a frame or a pair (X, y), not ndarray", "softmax", rows, out="none")
    raises(yoke.UsageError, "class numbers 0, 1, 2, ..., not float64: row 2 has 0.5", "softmax", (rows, [0, 1, 0.5, 1]), out="none")
    for label, words in ((2**40, f"not int64: row 3 has {2**40}"), ("a", "row 0 has '0'"), (None, "row 3: the label is missing"),
                         (np.nan, "row 3: the label is missing")):
        raises(ValueError, words, "softmax", (rows, [0, 1, 0, label]), out="none")
    raises(yoke.UsageError, "not object: row 3 has 'a'", "softmax", (rows, np.array([0, 1, 0, "a"], object)), out="none")
    raises(yoke.UsageError, "the estimators accept other labels", "softmax", (rows, ["a", "b", "a", "b"]), out="none")
    error = raises(yoke.TrainingError, "use a smaller lr", "softmax", DIGITS, lr=1e38, out="none")
    assert error.summary["state"] == "failed" and error.summary["error"] == str(error)
    try:
        yoke.load("/nowhere")
    except yoke.UsageError as failure:
        assert "/nowhere" in str(failure)


def test_texts_name_python_parameters():
    """Every message of the library that names an option can reach Python."""
    from yoke._texts import in_python
    assert in_python("use a larger --batch (now 16), --local-steps, or --mode async") == (
        'use a larger batch (now 16), local_steps, or mode="async"')
    assert in_python("try --lr 0.1, --lr keyed=0.05 or fewer --epochs.") == 'try lr=0.1, lr="keyed=0.05" or fewer epochs.'
    assert in_python("stopped; continue with: yoke train --out runs/a --resume") == (
        'stopped; continue with: yoke.train(out="runs/a", resume=True)')
    assert in_python("--no-bias and --lr-decay-every STEPS; srun --mpi=pmix") == (
        "no_bias=True and lr_decay_every=STEPS; srun --mpi=pmix")
    assert in_python("--lr-schedule plateau needs --validation; or use --lr-schedule one-cycle, --class-weight balanced") == (
        'lr_schedule="plateau" needs validation; or use lr_schedule="one-cycle", class_weight="balanced"')
    assert in_python("--monitor auc is not defined: use --monitor loss or accuracy").endswith('use monitor="loss" or "accuracy"')
    assert in_python("--lr-decay has no effect without --lr-schedule step, cosine or plateau, and --batch 2") == (
        'lr_decay has no effect without lr_schedule="step", "cosine" or "plateau", and batch=2')
    assert in_python("--class-weight 0=1,1=x: '1=x'; --lr a=...: no a") == "class_weight=\"0=1,1=x\": '1=x'; lr=\"a=...\": no a"
    assert in_python("--batch 1x: not a whole number") == 'batch="1x": not a whole number'
    assert in_python("--seed 3, --model x", {"seed": "random_state"}) == "random_state=3, model x"
    assert in_python("scale it (csv: ?scale=standard)") == "scale it (csv: ?scale=standard)"
    assert in_python("scale it (csv: ?scale=standard)", in_memory=True) == "scale it (StandardScaler of scikit-learn)"
    assert not [o for o in yoke.options() if "-" in o["name"] or "--l" in o["help"]]
    with tempfile.TemporaryDirectory() as directory:
        run = yoke.train("softmax", DIGITS, steps=3, out=os.path.join(directory, "run"))
        raises(yoke.UsageError, "continue it with resume=True, or choose another out", "softmax", DIGITS, out=run.directory)
        summary = os.path.join(directory, "run", "summary.json")
        with open(summary) as f:
            text = f.read().replace('"warnings": []', '"warnings": [{"kind": "x", "text": "raise --epochs"}]')
        with open(summary, "w") as f:
            f.write(text)
        assert yoke.load(run.directory)["warnings"][0]["text"] == "raise epochs"
    x = np.random.default_rng(1).normal(size=(500, 3)) * [1, 1e6, 1]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            yoke.train("logreg", (x, x[:, 0] > 0), out="none", lr=1e-3)
        except yoke.TrainingError as error:
            warnings.warn(str(error))
    said = " ".join(str(w.message) for w in caught)
    assert "StandardScaler" in said and "csv:" not in said and "--" not in said, said


def test_callback_stops():
    seen = []

    def callback(metrics):
        assert threading.current_thread() is threading.main_thread()
        seen.append(metrics)
        return metrics["epoch"] >= 2

    run = yoke.train("softmax", DIGITS, epochs=50, out="none", callback=callback)
    assert run.summary["state"] == "stopped" and run.summary["epochs"] < 5
    assert [m["epoch"] for m in seen] == [0, 1, 2] and np.isclose(run.curves["test_loss"][-1], run["test_loss"])  # not once more
    assert seen[0]["epoch"] == 0 and seen[1]["epoch"] == 1 and {"test_loss", "step", "seconds"} <= seen[0].keys()

    calls = []

    def fails(metrics):
        calls.append(metrics)
        raise KeyError("mine")

    raises(KeyError, "mine", "softmax", DIGITS, epochs=50, out="none", callback=fails)
    assert len(calls) == 1


def test_interrupt_saves_and_returns():
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell ignores SIGINT in background processes
    with tempfile.TemporaryDirectory() as directory:
        out = os.path.join(directory, "run")
        once = []

        def interrupt(metrics):
            if not once:
                once.append(threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)))
                once[0].start()

        began = time.monotonic()
        run = yoke.train("softmax", DIGITS, steps=10**9, eval_every=1000, out=out, callback=interrupt)
        assert run.summary["interrupted"] and run.summary["checkpoint"] and time.monotonic() - began < 30
        assert yoke.load(out).summary["state"] == "stopped"


INTERRUPTED = """
import os, signal, sys, threading, numpy as np, yoke
signal.signal(signal.SIGINT, signal.default_int_handler)
X = np.random.default_rng(1).normal(size=(500, 20)).astype(np.float32)
y = (X[:, 0] > 0).astype(int)
yoke.train("logreg", (X, y), epochs=1, out="none")
for i in range(30):
    timer = threading.Timer(0.003 + 0.0007 * i, os.kill, (os.getpid(), signal.SIGINT))
    try:
        timer.start()
        run = yoke.train("logreg", (X, y), (X, y), epochs=10**7, out="none", progress=False)
        assert run.summary["interrupted"]
    except KeyboardInterrupt:
        pass  # before the start, or after the end
    for thread in threading.enumerate():  # also those whose start was interrupted
        if thread.name == "yoke.train" and thread.is_alive():
            thread.join(10)
            assert not thread.is_alive(), i
"""


def test_interrupt_at_any_time():
    """Ctrl-C between any two instructions ends training. Evaluations are frequent, so it often loses an event."""
    subprocess.run([sys.executable, "-W", "ignore", "-c", INTERRUPTED], timeout=60, check=True)


def test_lost_events():
    """Ctrl-C right after an event was taken from the queue: an evaluation, and the end."""
    from yoke._train import Training

    class Lossy:
        def __init__(self, events, lost):
            self.events, self.lost, self.put, self.empty = events, lost, events.put, events.empty

        def get(self, **timeout):
            event = self.events.get(**timeout)
            if event[0] == self.lost:
                self.lost = None
                raise KeyboardInterrupt
            return event

    for lost in ("metrics", "end"):
        training = Training(yoke._native.Options({"model": "softmax", "data": DIGITS, "epochs": 3, "out": "none"}))
        training.events = Lossy(training.events, lost)
        assert training.run(lambda m: None).summary["interrupted"] == (lost == "metrics") and training.interrupted


def test_interrupt_of_the_start():
    begun, start = [], threading.Thread.start

    def interrupted(thread):
        start(thread)
        begun.append(thread)
        raise KeyboardInterrupt

    threading.Thread.start = interrupted
    try:
        raises(KeyboardInterrupt, "", "softmax", DIGITS, steps=10**9, out="none")
    finally:
        threading.Thread.start = start
    assert len(begun) == 1 and not begun[0].is_alive()


def test_interrupt_before_the_thread_runs():
    """Ctrl-C while the thread is about to run, or before it exists: it does not train later, and keeps no data."""
    X, y = np.eye(4, dtype=np.float32), np.arange(4) % 2
    start, kept, trained, library = threading.Thread.start, [], [], yoke._train.lib

    class Library:
        def yoke_train(self, *arguments):
            trained.append(arguments)

    def interrupted(thread):
        kept.append(thread)
        raise KeyboardInterrupt

    threading.Thread.start, yoke._train.lib = interrupted, Library()
    try:
        data = yoke._native.Data(X, y)
        alive = weakref.ref(data)
        training = yoke._train.Training(yoke._native.Options({"model": "softmax", "out": "none"}), data)
        try:
            training.run()
        except KeyboardInterrupt:
            del data, training
        assert len(kept) == 1 and not alive()
        start(kept[0])
        kept[0].join()
        assert not trained
    finally:
        threading.Thread.start, yoke._train.lib = start, library


def test_gil_is_released():
    counted = [0]
    done = threading.Event()

    def count():
        while not done.is_set():
            counted[0] += 1
            time.sleep(0.001)

    thread = threading.Thread(target=count)
    thread.start()
    runs = []
    others = [threading.Thread(target=lambda: runs.append(yoke.train("softmax", DIGITS, epochs=60, out="none")))
              for _ in range(2)]
    for other in others:
        other.start()
    for other in others:
        other.join()
    done.set()
    thread.join()
    assert counted[0] > 5 and runs[0].summary["test_loss"] == runs[1].summary["test_loss"]


def test_arrays():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(500, 20))
    y = (X[:, 0] > 0).astype(int)
    run = yoke.train("logreg", (X, y), (X, y), epochs=20, lr=1.0, out="none")
    assert run.summary["test_accuracy"] > 0.9 and (run.predict(X) == y).mean() == run.summary["test_accuracy"]
    lists = yoke.train("logreg", (X.tolist(), y.tolist()), epochs=20, lr=1.0, out="none")
    assert np.array_equal(lists.predict(X.tolist()), run.predict(X))
    assert lists.model.evaluate(X.tolist(), y.tolist())["accuracy"] == run.summary["test_accuracy"]
    assert run.model.evaluate((X, y)) == run.model.evaluate([X, y]) == run.model.evaluate(X, y) == run.model.evaluate((X, y, np.ones(len(y))))
    raises(yoke.UsageError, "the labels must have shape (500,), one per row, not (500, 1)", "logreg", (X, y[:, None]), out="none")
    raises(yoke.DataError, "no rows", "logreg", (X[:0], y[:0]), out="none")
    raises(yoke.UsageError, "the weights must have shape (500,), one per row, not (3,): select", "logreg", (X, y, y[:3]), out="none")
    raises(yoke.DataError, "row 0: weight nan: must be a number of at least 0", "logreg", (X, y, y * np.nan), out="none")
    dicts, texts = [yoke.train("dense 3, relu, dense 2", (X, y), lr=lr, class_weight=weight, epochs=2, out="none") for lr, weight in (
        ({"dense": 0.1}, {0: 1, 1: 2.5}), ("dense=0.1", "0=1,1=2.5"))]
    assert np.array_equal(dicts.predict_proba(X), texts.predict_proba(X))
    raises(yoke.UsageError, 'lr="keyed=..."', "softmax", (X, y), lr={"keyed": 0.1}, out="none")
    raises(yoke.DataError, "(sparse, 20 columns) do not match those of memory (dense, 20 columns)", "logreg", (X, y),
           (scipy.sparse.csc_matrix(X), y), out="none")
    for optimizer in ("sgd", "ftrl"):  # ftrl computes weights from its state
        more = yoke.train("logreg", (X, y), start=run.model, lr=1e-9, optimizer=optimizer, out="none")
        assert np.allclose(more.model.tensors()["0.weight"], run.model.tensors()["0.weight"], atol=1e-5), optimizer


def clicks(columns, dtype, rows=3000, width=6):
    """A CSR matrix that uses 500 column numbers below `columns`, and class numbers."""
    rng = np.random.default_rng(1)
    names = rng.choice(columns, 500) if columns < 2**20 else rng.integers(0, columns, 500)
    chosen = rng.integers(0, 500, (rows, width))
    y = ((chosen % 3 - 1).sum(axis=1) > 0).astype(int)
    X = scipy.sparse.csr_matrix((rows, columns), dtype=np.float32)
    X.indptr = (width * np.arange(rows + 1)).astype(dtype)
    X.indices = names[chosen].ravel().astype(dtype)
    X.data = rng.choice([0.5, 1.0, 2.0], rows * width).astype(np.float32)
    return X, y


def write_libsvm(path, X, y):
    with open(path, "w") as f:
        for i, label in enumerate(y):
            entries = range(X.indptr[i], X.indptr[i + 1])
            f.write(f"{label} " + " ".join(f"{X.indices[e]}:{X.data[e]:.9g}" for e in entries) + "\n")


def test_keys_are_hashed_as_in_files():
    """With 64-bit keys, and with column numbers that SciPy happens to store as 32-bit integers."""
    for columns, dtype, model in ((2**62, np.int64, "logreg"), (2**40, np.int64, "fm:3"), (4000, np.int32, "logreg")):
        X, y = clicks(columns, dtype)
        with tempfile.TemporaryDirectory() as directory:
            path, out = os.path.join(directory, "clicks.libsvm"), os.path.join(directory, "run")
            write_libsvm(path, X, y)
            options = dict(hash_bits=8, epochs=2, lr=0.1)
            file = yoke.train(model, "libsvm:" + path, "libsvm:" + path, out="none", **options)
            run = yoke.train(model, (X, y), (X, y), out=out, **options)
            assert run.model.hashed and run.model.columns == 256 and run["test_loss"] == file["test_loss"]
            assert all(np.array_equal(run.model.tensors()[k], v) for k, v in file.model.tensors().items())
            expected = file.model.probabilities("libsvm:" + path)
            for m in (file.model, run.model, yoke.load(out).model, pickle.loads(pickle.dumps(run.model))):
                assert np.allclose(m.probabilities(X), expected, atol=1e-6)
                assert m.evaluate(X, y) == file.model.evaluate("libsvm:" + path)
            assert np.allclose(run.predict_proba(X[:100])[:, 1:], expected[:100], atol=1e-6)
            more = yoke.train(model, (X, y), (X, y), out=out, resume=True, epochs=3)  # hash_bits is in config.ini
            assert more.model.hashed and more.curves["epoch"].tolist() == [0, 1, 2, 3]
    hashed = scipy.sparse.csr_matrix(([1.0], [7], [0, 1]), shape=(1, 256))
    run.model.hashed = False  # a matrix of columns, not of keys
    weight, bias = run.model.tensors()["0.weight"][0, 7], run.model.tensors()["0.bias"][0]
    assert np.allclose(run.model.probabilities(hashed), 1 / (1 + np.exp(-weight - bias)), atol=1e-6)
    assert not pickle.loads(pickle.dumps(run.model)).hashed
    hashed.indices = np.array([300], np.int64)
    try:
        run.model.probabilities(hashed)
    except yoke.DataError as error:
        assert "row 0: index 300 is out of range for 256 columns" in str(error), error
    else:
        raise AssertionError("hashed despite model.hashed = False")
    raises(yoke.UsageError, "copy=False", "logreg", (X, y), hash_bits=8, copy=False, out="none")


def test_start_needs_the_same_hashing():
    """hash_bits must be given if and only if the initial model was hashed, even if the numbers of columns are equal."""
    X, y = clicks(256, np.int32)
    with tempfile.TemporaryDirectory() as directory:
        out = os.path.join(directory, "run")
        hashed = yoke.train("logreg", (X, y), hash_bits=8, out=out)
        plain = yoke.train("logreg", (X, y), out="none")
        for start in ({"start": hashed}, {"start": out}, {"warm_start": out}):
            raises(yoke.UsageError, "hash_bits=8", "logreg", (X, y), out="none", **start)
            raises(yoke.UsageError, "into 512 features", "logreg", (X, y), hash_bits=9, out="none", **start)
            yoke.train("logreg", (X, y), hash_bits=8, out="none", **start)
        raises(yoke.UsageError, "were not hashed", "logreg", (X, y), hash_bits=8, start=plain, out="none")


def test_column_numbers_are_not_truncated():
    """Column numbers of 64 bits without hashing: used as they are, or an error."""
    X, y = clicks(4000, np.int64)
    narrow = scipy.sparse.csr_matrix((X.data, X.indices.astype(np.int32), X.indptr.astype(np.int32)), X.shape)
    run, same = (yoke.train("logreg", (x, y), (x, y), out="none") for x in (X, narrow))
    assert run["test_loss"] == same["test_loss"] and not run.model.hashed and run.model.columns == 4000
    assert np.array_equal(run.model.probabilities(X), same.model.probabilities(narrow))
    X.indices[6 * 7 + 1] = 2**32 + 5
    for copy in (True, False):
        raises(yoke.DataError, "row 7: index 4294967301 is out of range for 4000 columns", "logreg", (X, y), copy=copy, out="none")
    for act in (lambda: run.model.probabilities(X), lambda: run.model.evaluate(X, y)):
        try:
            act()
        except yoke.DataError as error:
            assert "row 7: index 4294967301 is out of range for 4000 columns" in str(error) and "hash_bits" in str(error), error
        else:
            raise AssertionError("truncated")
    raises(yoke.UsageError, "hash_bits", "logreg", clicks(2**40, np.int64), out="none")


def test_labels_are_required():
    X, y = np.eye(4, dtype=np.float32), np.arange(4) % 2
    raises(yoke.UsageError, "data has no labels", "softmax", (X, None), out="none")
    raises(yoke.UsageError, "a spec has its own labels and weights", "softmax", (DIGITS, y), out="none")
    raises(yoke.UsageError, "test has no labels", "softmax", (X, y), (X, None), out="none")
    run = yoke.train("softmax", (X, y), out="none")
    for labels, words in ((None, "needs the labels"), (y + 2 * (np.arange(4) == 3), "memory: row 3 has class 3")):
        try:
            run.model.evaluate(X, labels)
        except yoke.Error as error:
            assert words in str(error), error
        else:
            raise AssertionError(words)


def test_bytes_are_divided_by_255():
    """A model that was trained on bytes warns about other values above 1, also after it was loaded."""
    rng = np.random.default_rng(1)
    X = rng.integers(0, 256, (200, 5), np.uint8)
    y = (X[:, 0] > 128).astype(int)
    with tempfile.TemporaryDirectory() as directory:
        run = yoke.train("softmax", (X, y), epochs=3, out=os.path.join(directory, "run"))
        for model in (run, yoke.load(run.directory), yoke.Network("dense 4, relu", epochs=1).fit(X, y)):
            for rows, expected in ((X.astype(float), 1), (X, 0), (X / 255, 0)):
                with warnings.catch_warnings(record=True) as caught:
                    warnings.simplefilter("always")
                    model.predict(rows)
                about = [w for w in caught if "trained on bytes, which are divided by 255" in str(w.message)]
                assert len(about) == expected and all(w.filename == __file__ for w in about), (model, rows.dtype)
    floats = yoke.train("softmax", (X / 2.0, y), out="none")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        floats.predict(X / 2.0)


def test_resume_needs_data_in_memory_again():
    X = np.random.default_rng(1).normal(size=(100, 4))
    y = (X[:, 0] > 0).astype(int)
    with tempfile.TemporaryDirectory() as directory:
        out = os.path.join(directory, "run")
        run = yoke.train("softmax", (X[:50], y[:50]), (X[50:], y[50:]), epochs=2, out=out)
        raises(yoke.UsageError, "pass model=, data= and test= again", out=run.directory, resume=True, epochs=3)
        raises(yoke.UsageError, "pass model=, data= and test= again", "softmax", (X[:50], y[:50]), out=out, resume=True, epochs=3)
        more = yoke.train("softmax", (X[:50], y[:50]), (X[50:], y[50:]), epochs=3, out=out, resume=True)
        assert more.curves["epoch"].tolist() == [0, 1, 2, 3]


def test_damaged_files():
    with tempfile.TemporaryDirectory() as directory:
        out = os.path.join(directory, "run")
        yoke.train("softmax", DIGITS, out=out)
        for name, text in (("summary.json", b"{"), ("summary.json", b"[]"), ("summary.json", b"\xff"),
                           ("metrics.jsonl", b"{}\nx\n"), ("metrics.jsonl", b"3\n")):
            path = os.path.join(out, name)
            with open(path, "rb") as f:
                before = f.read()
            with open(path, "wb") as f:
                f.write(text)
            try:
                yoke.load(out)
            except yoke.DataError as error:
                assert path in str(error) and "damaged" in str(error), error
            else:
                raise AssertionError(text)
            with open(path, "wb") as f:
                f.write(before)
        assert yoke.load(out.encode()).summary["state"]


def test_wrong_arguments():
    """A clear error, or what was meant."""
    X = np.random.default_rng(1).normal(size=(100, 4)).astype(np.float32)
    y = (X[:, 0] > 0).astype(int)
    raises(yoke.UsageError, "unknown option learning_rate; did you mean lr?", "softmax", (X, y), learning_rate=1, out="none")
    raises(yoke.UsageError, "unknown option batch_size; did you mean batch?", "softmax", (X, y), batch_size=1, out="none")
    raises(yoke.UsageError, "give out=DIRECTORY", "softmax", DIGITS, launch=2, out="none", callback=lambda m: None)
    raises(yoke.UsageError, "start must be a yoke.Model", "softmax", (X, y), start=3, out="none")
    raises(yoke.UsageError, "/nowhere", "softmax", (X, y), start="/nowhere", out="none")
    with tempfile.TemporaryDirectory() as directory:
        run = yoke.train("softmax", (X, y), epochs=5, out=os.path.join(directory, "run"))
        for path, words in (("/proc", "/proc: cannot create: "), (directory + "/no/m", "choose another path")):
            try:
                run.model.save(path)
            except yoke.ResourceError as error:
                assert words in str(error), error
            else:
                raise AssertionError(path)
        for start in (run, run.directory, run.model, yoke.SoftmaxRegression(epochs=1).fit(X, y)):
            yoke.train("softmax", (X, y), start=start, out="none")
        assert yoke.Model.load(run.directory.encode()).columns == 4
        for directories in (run.directory, [run.directory], run):
            assert os.path.getsize(yoke.report(directories, os.path.join(directory, "page.html"))) > 1000
    for act, words in ((lambda: run.predict(None), "must be a matrix, an array of images or a spec, not NoneType"),
                       (lambda: run.predict((X, y)), "not a tuple; to pass labels"),
                       (lambda: run.model.evaluate([[1, 2], [3]], [0, 1]), "must be numbers, in rows of the same length"),
                       (lambda: run.predict([["a", "b", "c", "d"]]), "must be numbers"),
                       (lambda: yoke.Model.load("a\0b"), "null character"),
                       (lambda: run.predict(X + 1j), "must be numbers, in rows of the same length: not complex"),
                       (lambda: run.predict(np.ma.masked_array(X, X > 0)), "some are masked"),
                       (lambda: run.model.evaluate("csv:a.csv", y), "a spec has its own labels"),
                       (lambda: yoke.sweep([0.1]), "grid must be a dict, such as {\"lr\": [0.1, 0.3]}, not list"),
                       (lambda: yoke.report(yoke.Run({}, [])), "a report needs run directories")):
        try:
            act()
        except yoke.UsageError as error:
            assert words in str(error), error
        else:
            raise AssertionError(words)


def test_jobs_use_the_bundled_program():
    assert "_native" in yoke._native.PROGRAM and os.access(yoke._native.PROGRAM, os.X_OK)
    with tempfile.TemporaryDirectory() as directory:
        run = yoke.train("softmax", DIGITS, epochs=2, launch=2, out=os.path.join(directory, "run"))
        assert run.summary["ranks"] == 2 and len(run.curves["step"]) == 3
        assert run.predict(DIGITS).shape == (300,)


def test_bundled_libraries():
    """A bare machine has none of the libraries beyond glibc: those of the wheel are used."""
    with open("/proc/self/maps") as f:
        loaded = {line.split()[-1] for line in f if ".so" in line}
    for name in ("libyoke.so", "libjansson.so", "libmicrohttpd.so", "libisal.so", "libdeflate.so", "libjpeg.so", "libzstd.so"):
        paths = [path for path in loaded if os.path.basename(path).startswith(name)]
        assert any("_native/lib" in path for path in paths), (name, paths)
    said = subprocess.run(["ldd", yoke._native.PROGRAM], capture_output=True, text=True).stdout
    assert "not found" not in said and "libjansson.so.4 => " + os.path.realpath(yoke._native.HERE) in said.replace("bin/../", ""), said


def test_command():
    """The wheel installs the program beside python."""
    command = os.path.join(os.path.dirname(sys.executable), "yoke")
    said = subprocess.run([command, "version"], capture_output=True, text=True, check=True).stdout
    assert said.startswith(f"yoke {yoke.__version__}"), said
    assert subprocess.run([command, "train", "--nonsense"], capture_output=True).returncode == 2
    share = os.path.join(sys.prefix, "share")
    for name in ("man/man1/yoke-train.1", "bash-completion/completions/yoke", "zsh/site-functions/_yoke"):
        assert os.path.exists(os.path.join(share, name)), name


def test_extras():
    """What `pip install yoke[sklearn]` installs."""
    from importlib.metadata import metadata
    about = metadata("yoke")
    assert set(about.get_all("Provides-Extra")) == {"sklearn", "notebook", "all"}, about
    needs = about.get_all("Requires-Dist")
    assert "numpy" in needs and any(n.startswith("scikit-learn") and "'sklearn'" in n for n in needs), needs


def test_notebook_view():
    from yoke import _native, _notebook
    shown = []

    class Handle:
        def update(self, what):
            shown.append(what)

    view = _notebook.Notebook.__new__(_notebook.Notebook)
    view.html, view.handle, view.last, view.shown, view.every = str, Handle(), None, 0.0, 0.0
    view.epochs, view.steps, view.curves = 3.0, 0.0, {name: [] for name in ("step", *_notebook.COLORS)}
    run = yoke.train("softmax", DIGITS, epochs=3, out="none", callback=lambda m: view.metrics(m))
    view.finish(run)
    assert "<progress" in shown[0] and "<svg" in shown[-1] and "test accuracy" in shown[-1]
    for epoch, expected in ((1.5, '<progress value="0.5000"'), (float("nan"), "<progress style")):  # NaN: not known
        view.progress({"step": 5, "epoch": epoch, "text": "step 5"})
        assert expected in shown[-1], shown[-1]
    assert float(_native.option_default("epochs")) == 1.0
    view.fail()
    assert "failed" in shown[-1] and "<progress" not in shown[-1]


def test_import_is_quick():
    """No scikit-learn, no IPython, and beyond NumPy at most 50 ms or, on a slow machine, as long as NumPy itself."""
    code = ("import time; a = time.process_time(); import sys, numpy; b = time.process_time(); import yoke; c = time.process_time(); "
            "assert 'sklearn' not in sys.modules and 'scipy' not in sys.modules; print(b - a, c - b)")
    times = [subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split() for _ in range(5)]
    whole, own = (min(float(t[k]) for t in times) for k in (0, 1))
    assert own < max(0.05, whole), (own, whole)


def test_warnings():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yoke.train("softmax", DIGITS, steps=3, batch=900, workers=2, out="none")
        x = np.random.default_rng(1).normal(size=(1000, 3))
        leaks = x[:, 0] > 0
        x[:, 0] = leaks  # one column predicts the label
        yoke.train("logreg", (x, leaks), out="none")
        yoke.LogisticRegression().fit(x, leaks)
    assert all(issubclass(w.category, yoke.YokeWarning) for w in caught if "yoke" in str(w.category))
    leak = [w for w in caught if "alone predicts the label" in str(w.message)]
    assert len(leak) == 2 and all(w.filename == __file__ for w in leak), [str(w) for w in caught]


if __name__ == "__main__":
    main(globals())
