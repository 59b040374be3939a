"""Compares metrics with scikit-learn, to 1e-5: those of `yoke eval`, and those of runs with 1 and 3 workers, with 2 replicas, and
with a parameter server; of examples with and without weights; of classes and of numbers.

Exit status: 0 passed, 77 skipped (the last line says why), else failed. YK_BUILD is the build directory.
"""
import json
import os
import tempfile

from program import packages, yoke

with packages():
    import numpy as np
    from sklearn import metrics as sk

BINS = 15


def write_data(path, rng, classes, n, weighted):
    """Rows from overlapping clusters, one per class; class 3 is rare. Returns labels and weights."""
    share = np.array([5, 4, 3, 0.05, 2])[:classes]
    y = rng.choice(classes, n, p=share / share.sum())
    x = np.random.default_rng(1).normal(size=(classes, 8))[y] + rng.normal(size=(n, 8)) * 1.3
    weight = rng.integers(1, 9, n) / 4 if weighted else np.ones(n)
    with open(path, "w") as f:
        for label, of, row in zip(y, weight, x):
            print(f"{label}:{of}" if weighted else label, *(f"{k + 1}:{value:.5f}" for k, value in enumerate(row)), file=f)
    return y, weight


def calibration(p, outcome, weight):
    """The calibration error, and the non-empty bins as (weight, probability, frequency)."""
    bin_of = np.clip(np.ceil(p * BINS) - 1, 0, BINS - 1)
    parts = [bin_of == k for k in range(BINS) if (bin_of == k).any()]
    found = [(weight[k].sum(), np.average(p[k], weights=weight[k]), np.average(outcome[k], weights=weight[k])) for k in parts]
    return sum(n * abs(a - b) for n, a, b in found) / weight.sum(), found


def expected(y, p, weight):
    """p: [rows][classes] probabilities."""
    of = {"sample_weight": weight}
    binary, guess = p.shape[1] == 2, p.argmax(axis=1)
    everything = list(range(p.shape[1]))
    share = np.bincount(y, weight, minlength=p.shape[1]) / weight.sum()
    loss = sk.log_loss(y, p / p.sum(axis=1, keepdims=True), labels=everything, **of)
    entropy = -(share[share > 0] * np.log(share[share > 0])).sum()
    one_hot = np.eye(p.shape[1])[y]
    error, bins = calibration(p[:, 1], y, weight) if binary else calibration(p.max(axis=1), guess == y, weight)
    found = {"loss": loss, "log_loss": loss, "normalized_entropy": loss / entropy, "accuracy": sk.accuracy_score(y, guess, **of),
             "majority_accuracy": share.max(), "calibration_error": error,
             "brier": sk.brier_score_loss(y, p[:, 1], **of) if binary else np.average(((p - one_hot) ** 2).sum(axis=1), weights=weight),
             "macro_precision": sk.precision_score(y, guess, average="macro", zero_division=0, **of),
             "macro_recall": sk.recall_score(y, guess, average="macro", zero_division=0, **of),
             "macro_f1": sk.f1_score(y, guess, average="macro", zero_division=0, **of)}
    if binary:
        found.update(auc=sk.roc_auc_score(y, p[:, 1], **of), pr_auc=sk.average_precision_score(y, p[:, 1], **of),
                     precision=sk.precision_score(y, guess, **of), recall=sk.recall_score(y, guess, **of),
                     f1=sk.f1_score(y, guess, **of))
    else:
        found.update(auc=None, pr_auc=None, precision=None, recall=None, f1=None)
    per_class = np.array(sk.precision_recall_fscore_support(y, guess, labels=everything, zero_division=0, **of))
    return found, per_class, sk.confusion_matrix(y, guess, labels=everything, **of), bins


def compare(what, got, y, p, weight):
    found, per_class, confusion, bins = expected(y, p, weight)
    assert got["examples"] == len(y) and got["weight"] == weight.sum(), what
    for name, value in found.items():
        assert got[name] is None if value is None else abs(got[name] - value) < 1e-5, (what, name, got[name], value)
    for c, one in enumerate(got["classes"]):
        assert np.allclose([one["precision"], one["recall"], one["f1"], one["weight"]], per_class[:, c], atol=1e-5), (what, one)
    assert np.allclose(got["confusion"], confusion, atol=1e-9), what
    ours = [(b["weight"], b["probability"], b["frequency"]) for b in got["reliability"]]
    assert np.allclose(ours, bins, atol=1e-5), (what, ours, bins)


def spec(path):
    return f"libsvm:{path}?weight={int(path.endswith('True'))}"


def write_numbers(path, rng, n):
    """A table with a noisy linear label and weights."""
    x = rng.normal(size=(n, 3))
    y, weight = x @ [1, -2, 0.5] + 100 + rng.normal(size=n), rng.integers(1, 9, n) / 4
    np.savetxt(path, np.column_stack([y, weight, x]), "%.6f", ",", header="y,w,a,b,c", comments="")
    return y, weight


def train(model, data, test, run, options):
    """The metrics in the summary, those of `yoke eval`, and the predictions."""
    summary = json.loads(yoke("train", "--model", model, "--data", data, "--test", test, "--epochs", 2, "--batch", 64, "--lr",
                              0.5 if model != "linear" else 0.05, "--out", run, "--quiet", "--json", *options))
    evaluated = json.loads(yoke("eval", "--checkpoint", run, "--data", test, "--quiet", "--json"))
    p = np.array([[float(x) for x in line.split()] for line in
                  yoke("predict", "--checkpoint", run, "--data", test, "--quiet").splitlines()])
    return summary["test_metrics"], evaluated, p


with tempfile.TemporaryDirectory() as directory:
    ways = [("1 worker", []), ("3 workers", ["--workers", 3]), ("2 replicas", ["--launch", 2]),
            ("a server", ["--launch", 3, "--servers", 1])]
    for classes, model, weighted in ((2, "logreg", False), (2, "logreg", True), (5, "softmax", False), (5, "softmax", True)):
        data, test = (os.path.join(directory, f"{name}{classes}{weighted}") for name in ("train", "test"))
        write_data(data, np.random.default_rng(2), classes, 4000, weighted)
        y, weight = write_data(test, np.random.default_rng(3), classes, 1501, weighted)
        for way, options in ways:
            run = os.path.join(directory, f"{way}{classes}{weighted}")
            what = f"{model}, {'weights' if weighted else 'no weights'}, {way}"
            summary, evaluated, p = train(model, spec(data), spec(test), run, options)
            p = np.hstack([1 - p, p]) if p.shape[1] == 1 else p
            compare(what, summary, y, p, weight)
            compare(f"{what}, eval", evaluated, y, p, weight)
            print(f"{what}: equal to scikit-learn")

    data, test = (os.path.join(directory, f"{name}.csv") for name in ("train", "test"))
    write_numbers(data, np.random.default_rng(4), 4000)
    y, weight = write_numbers(test, np.random.default_rng(5), 1501)
    for way, options in ways:
        *both, p = train("linear", f"csv:{data}?label=y&weight=w", f"csv:{test}?label=y&weight=w", os.path.join(directory, f"{way} linear"),
                         options)
        error = sk.mean_squared_error(y, p[:, 0], sample_weight=weight)
        found = {"weight": weight.sum(), "r2": sk.r2_score(y, p[:, 0], sample_weight=weight), "rmse": error ** 0.5, "loss": error,
                 "mae": sk.mean_absolute_error(y, p[:, 0], sample_weight=weight)}
        for got in both:
            for name, value in found.items():
                assert abs(got[name] - value) < 1e-5 * max(1, abs(value)), (way, name, got[name], value)
            assert "auc" not in got and "confusion" not in got, got
        print(f"linear, {way}: equal to scikit-learn")
