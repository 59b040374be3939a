"""Compares metrics with scikit-learn, to 1e-5: those of `yoke eval`, and those of runs with 1 and 3 workers, with 2 replicas, and
with a parameter server.

Exit status: 0 passed, 77 skipped (the last line says why), else failed. YK_BUILD is the build directory.
"""
import json
import os
import sys
import tempfile

from program import yoke

try:
    import numpy as np
    from sklearn import metrics as sk
except ImportError as missing:
    print(f"Python package {missing.name} is not installed (./dev peers installs it)")
    sys.exit(77)

BINS = 15


def write_data(path, rng, classes, n):
    """Rows from overlapping clusters, one per class; class 3 is rare."""
    share = np.array([5, 4, 3, 0.05, 2])[:classes]
    y = rng.choice(classes, n, p=share / share.sum())
    x = np.random.default_rng(1).normal(size=(classes, 8))[y] + rng.normal(size=(n, 8)) * 1.3
    with open(path, "w") as f:
        for label, row in zip(y, x):
            print(label, *(f"{k + 1}:{value:.5f}" for k, value in enumerate(row)), file=f)
    return y


def calibration(p, outcome):
    """The calibration error, and the non-empty bins as (weight, probability, frequency)."""
    bin_of = np.clip(np.ceil(p * BINS) - 1, 0, BINS - 1)
    found = [(len(p[bin_of == k]), p[bin_of == k].mean(), outcome[bin_of == k].mean()) for k in range(BINS) if (bin_of == k).any()]
    return sum(n * abs(a - b) for n, a, b in found) / len(p), found


def expected(y, p):
    """p: [rows][classes] probabilities."""
    binary, guess = p.shape[1] == 2, p.argmax(axis=1)
    everything = list(range(p.shape[1]))
    share = np.bincount(y, minlength=p.shape[1]) / len(y)
    loss = sk.log_loss(y, p / p.sum(axis=1, keepdims=True), labels=everything)
    entropy = -(share[share > 0] * np.log(share[share > 0])).sum()
    one_hot = np.eye(p.shape[1])[y]
    error, bins = calibration(p[:, 1], y) if binary else calibration(p.max(axis=1), guess == y)
    found = {"loss": loss, "log_loss": loss, "normalized_entropy": loss / entropy, "accuracy": sk.accuracy_score(y, guess),
             "majority_accuracy": share.max(), "calibration_error": error,
             "brier": sk.brier_score_loss(y, p[:, 1]) if binary else ((p - one_hot) ** 2).sum(axis=1).mean(),
             "macro_precision": sk.precision_score(y, guess, average="macro", zero_division=0),
             "macro_recall": sk.recall_score(y, guess, average="macro", zero_division=0),
             "macro_f1": sk.f1_score(y, guess, average="macro", zero_division=0)}
    if binary:
        found.update(auc=sk.roc_auc_score(y, p[:, 1]), pr_auc=sk.average_precision_score(y, p[:, 1]),
                     precision=sk.precision_score(y, guess), recall=sk.recall_score(y, guess), f1=sk.f1_score(y, guess))
    else:
        found.update(auc=None, pr_auc=None, precision=None, recall=None, f1=None)
    per_class = np.array(sk.precision_recall_fscore_support(y, guess, labels=everything, zero_division=0))
    return found, per_class, sk.confusion_matrix(y, guess, labels=everything), bins


def compare(what, got, y, p):
    found, per_class, confusion, bins = expected(y, p)
    assert got["examples"] == got["weight"] == len(y), what
    for name, value in found.items():
        assert got[name] is None if value is None else abs(got[name] - value) < 1e-5, (what, name, got[name], value)
    for c, one in enumerate(got["classes"]):
        assert np.allclose([one["precision"], one["recall"], one["f1"], one["weight"]], per_class[:, c], atol=1e-5), (what, one)
    assert np.array_equal(got["confusion"], confusion), what
    ours = [(b["weight"], b["probability"], b["frequency"]) for b in got["reliability"]]
    assert np.allclose(ours, bins, atol=1e-5), (what, ours, bins)


with tempfile.TemporaryDirectory() as directory:
    ways = [("1 worker", []), ("3 workers", ["--workers", 3])]
    if "mpirun     /" in yoke("version"):
        ways += [("2 replicas", ["--launch", 2]), ("a server", ["--launch", 3, "--servers", 1])]
    else:
        print("skip: replicas and servers: mpirun is not installed")
    for classes, model in ((2, "logreg"), (5, "softmax")):
        data, test = (os.path.join(directory, f"{name}{classes}") for name in ("train", "test"))
        write_data(data, np.random.default_rng(2), classes, 4000)
        y = write_data(test, np.random.default_rng(3), classes, 1501)
        for way, options in ways:
            run = os.path.join(directory, f"{way}{classes}")
            summary = json.loads(yoke("train", "--model", model, "--data", f"libsvm:{data}", "--test", f"libsvm:{test}", "--epochs", 2,
                                      "--batch", 64, "--lr", 0.5, "--out", run, "--quiet", "--json", *options))
            p = np.array([[float(x) for x in line.split()] for line in
                          yoke("predict", "--checkpoint", run, "--data", f"libsvm:{test}", "--quiet").splitlines()])
            p = np.hstack([1 - p, p]) if p.shape[1] == 1 else p
            compare(f"{model}, {way}", summary["test_metrics"], y, p)
            compare(f"{model}, eval", json.loads(yoke("eval", "--checkpoint", run, "--data", f"libsvm:{test}", "--quiet", "--json")),
                    y, p)
            print(f"{model}, {way}: equal to scikit-learn")
