"""Compares trained models with independent implementations:

- logreg with L2 comes very close to the optimum that scikit-learn finds on the same file, synchronously and
  asynchronously, and the loss that yoke reports agrees;
- a saved softmax model, evaluated in numpy, has exactly the loss and accuracy that yoke reported.

Exit status: 0 passed, 77 skipped (the last line says why), else failed. YK_BUILD is the build directory.
"""
import json
import os
import struct
import tempfile

from program import packages, saved, yoke

with packages():
    import numpy as np
    import scipy.sparse
    from safetensors.numpy import load_file
    from sklearn.linear_model import LogisticRegression


def train(out, *options):
    """The JSON summary and the saved tensors."""
    output = yoke("train", *options, "--out", out, "--seed", 1, "--json", "--quiet")
    return json.loads(output.splitlines()[-1]), load_file(saved(out))


def log_loss(margin):
    return float(np.logaddexp(0, -margin).mean())


def logreg_reaches_the_optimum(directory):
    n, columns, l2 = 3000, 60, 1e-3
    rng = np.random.default_rng(1)
    x = scipy.sparse.random(n, columns, density=0.15, format="csr", random_state=1,
                            data_rvs=lambda k: np.round(rng.normal(size=k), 4)).astype(np.float64)
    truth = rng.normal(size=columns)
    y = np.where(rng.random(n) < 1 / (1 + np.exp(-x @ truth)), 1, -1)
    path = os.path.join(directory, "data.libsvm")
    with open(path, "w", encoding="ascii") as f:
        for i in range(n):
            row = slice(x.indptr[i], x.indptr[i + 1])
            cells = sorted(zip(x.indices[row] + 1, x.data[row]))
            f.write(f"{y[i]:+d} " + " ".join(f"{k}:{v:.4f}" for k, v in cells) + "\n")

    # scikit-learn minimizes |w|^2 / 2 + C * the sum of losses: C = 1 / (l2 n) is the same up to a factor.
    fit = LogisticRegression(C=1 / (l2 * n), fit_intercept=False, tol=1e-10, max_iter=10000).fit(x, y)
    best = fit.coef_[0]

    def objective(w):
        return log_loss(y * (x @ w)) + l2 / 2 * float(w @ w)

    for mode, workers in (("sync", 1), ("sync", 2), ("async", 2)):
        summary, tensors = train(os.path.join(directory, f"{mode}-{workers}"), "--model", "logreg", "--no-bias", "--data",
                                 f"libsvm:{path}", "--test", f"libsvm:{path}", "--features", str(columns), "--batch",
                                 "10", "--l2", str(l2), "--lr", "1", "--lr-schedule", "inverse", "--lr-decay", "0.001",
                                 "--epochs", "100", "--eval-every", "1000000", "--mode", mode, "--workers", str(workers))
        w = tensors["0.weight"].astype(np.float64).reshape(-1)
        assert w.shape == (columns,), w.shape
        gap = objective(w) - objective(best)
        print(f"logreg, {mode}, {workers} workers: {objective(w):.6f}, the optimum {objective(best):.6f}")
        assert -1e-9 < gap < 5e-4, (mode, workers, gap)
        # yoke reports the loss of the same weights on the same data, without the L2 term.
        assert abs(summary["test_loss"] - log_loss(y * (x @ w))) < 1e-5, summary["test_loss"]


def write_idx(path, array):
    with open(path, "wb") as f:
        f.write(bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes())


def softmax_is_as_reported(directory):
    rng = np.random.default_rng(2)
    centers = rng.integers(0, 200, (4, 36))
    data = os.path.join(directory, "idx")
    os.mkdir(data)
    for prefix, n in (("train", 1000), ("t10k", 500)):
        labels = rng.integers(0, 4, n).astype(np.uint8)
        images = np.clip(centers[labels] + rng.normal(scale=120, size=(n, 36)), 0, 255).astype(np.uint8)
        write_idx(os.path.join(data, f"{prefix}-images-idx3-ubyte"), images.reshape(n, 6, 6))
        write_idx(os.path.join(data, f"{prefix}-labels-idx1-ubyte"), labels)
    summary, tensors = train(os.path.join(directory, "softmax"), "--model", "softmax", "--data", f"idx:{data}", "--batch",
                             "20", "--lr", "0.5", "--epochs", "10")
    weight, bias = tensors["0.weight"].astype(np.float64), tensors["0.bias"].astype(np.float64)
    assert weight.shape == (4, 36) and bias.shape == (4,), (weight.shape, bias.shape)
    logits = images / 255 @ weight.T + bias
    logits -= logits.max(1, keepdims=True)
    p = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    loss = float(-np.log(p[np.arange(500), labels]).mean())
    accuracy = float((p.argmax(1) == labels).mean())
    print(f"softmax: loss {loss:.6f}, accuracy {accuracy:.4f}; yoke: {summary['test_loss']}, {summary['test_accuracy']}")
    assert accuracy > 0.7, accuracy
    assert abs(summary["test_loss"] - loss) < 1e-5 and abs(summary["test_accuracy"] - accuracy) < 1e-9
    assert abs(summary["majority_accuracy"] - np.bincount(labels).max() / 500) < 1e-9


with tempfile.TemporaryDirectory() as where:
    logreg_reaches_the_optimum(where)
    softmax_is_as_reported(where)
print("optimum: yoke agrees with scikit-learn and numpy")
