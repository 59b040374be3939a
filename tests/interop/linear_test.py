"""Compares linear models with scikit-learn, NumPy and PyTorch:

- logreg reaches scikit-learn's optimum of the same objective with sgd (with L2), adagrad and ftrl (without);
- softmax reaches scikit-learn's multinomial optimum;
- a saved model gives the probabilities that `yoke predict` writes, in NumPy and, loaded unchanged, in PyTorch.

Exit status: 0 passed, 77 skipped (the last line says why), else failed. YK_BUILD is the build directory.
"""
import os
import struct
import tempfile

from program import find_torch, packages, saved, yoke

with packages():
    import numpy as np
    from safetensors.numpy import load_file
    from sklearn.linear_model import LogisticRegression

torch = find_torch()


def train(out, *options):
    """The saved tensors, by their names in PyTorch."""
    yoke("train", *options, "--out", out, "--seed", 1, "--quiet", "--eval-every", 10**9)
    return load_file(saved(out))


def predict(run, data):
    return np.array([[float(x) for x in line.split()] for line in
                     yoke("predict", "--checkpoint", run, "--data", data, "--quiet").splitlines()])


def in_numpy(tensors, x):
    """The probabilities of a linear model with these tensors for the rows of x."""
    weight, bias = tensors["0.weight"].astype(float), tensors["0.bias"].astype(float)
    z = x.astype(np.float32) @ weight.T + bias
    if len(weight) == 1:
        return 1 / (1 + np.exp(-z))
    return np.exp(z - np.logaddexp.reduce(z, axis=1, keepdims=True))


def in_pytorch(tensors, x):
    """The same by nn.Linear."""
    outputs, inputs = tensors["0.weight"].shape
    model = torch.nn.Sequential(torch.nn.Linear(inputs, outputs))
    model.load_state_dict({name: torch.tensor(value) for name, value in tensors.items()})
    with torch.no_grad():
        logits = model(torch.tensor(x, dtype=torch.float32)).double()
        return (torch.sigmoid(logits) if outputs == 1 else torch.softmax(logits, 1)).numpy()


def predictions_agree(what, run, spec, tensors, x):
    ours = predict(run, spec)
    for name, compute in (("NumPy", in_numpy), ("PyTorch", in_pytorch))[:2 if torch else 1]:
        apart = np.abs(ours - compute(tensors, x)).max()
        print(f"{what}: yoke predict and {name} differ by {apart:.1e}")
        assert apart < 1e-5, (name, apart)


def near(what, got, best, share):
    print(f"{what}: {got:.6f}, the optimum {best:.6f} ({100 * (got / best - 1):+.4f} %)")
    assert got > best * (1 - 1e-6), "nothing is below the optimum"
    assert got < best * (1 + share), (what, got, best)


# ---- clicks: 2000 examples of about 10 of 200 features

N, COLUMNS = 2000, 200


def write_clicks(path):
    rng = np.random.default_rng(7)
    x = np.zeros((N, COLUMNS))
    truth = rng.normal(size=COLUMNS)
    for row in x:
        k = rng.integers(4, 17)
        row[rng.choice(COLUMNS, k, replace=False)] = np.round(rng.choice([1.0, 0.5, 2.0, -1.5], k) * rng.random(k), 3)
    y = (rng.random(N) < 1 / (1 + np.exp(-x @ truth))).astype(int)
    with open(path, "w", encoding="ascii") as f:
        for row, label in zip(x, y):
            f.write(f"{label} " + " ".join(f"{k + 1}:{row[k]:.3f}" for k in np.flatnonzero(row)) + "\n")
    return x, y


def log_loss(x, y, w):
    return float(np.logaddexp(0, -(2 * y - 1) * (x @ w)).mean())


def best_logreg(x, y, l2):
    """scikit-learn minimizes |w|^2 / 2 + C * the sum of losses."""
    if l2:
        fit = LogisticRegression(C=1 / (l2 * len(y)), fit_intercept=False, tol=1e-10, max_iter=100000)
    else:
        fit = LogisticRegression(C=np.inf, fit_intercept=False, tol=1e-10, max_iter=100000)
    return fit.fit(x, y).coef_[0]


def logreg(directory):
    path = os.path.join(directory, "clicks.libsvm")
    x, y = write_clicks(path)
    data = ("--model", "logreg", "--data", f"libsvm:{path}", "--features", COLUMNS, "--test", "none")

    def weights(tensors):
        return tensors["0.weight"].astype(float).reshape(-1)

    l2 = 1e-3
    best = best_logreg(x, y, l2)

    def objective(w):
        return log_loss(x, y, w) + l2 / 2 * float(w @ w)

    for batch, lr in ((1, 1), (16, 2)):
        w = weights(train(os.path.join(directory, f"sgd{batch}"), *data, "--no-bias", "--optimizer", "sgd", "--l2", l2,
                          "--batch", batch, "--lr", lr, "--lr-schedule", "inverse", "--lr-decay", 1e-3,
                          "--epochs", 150))
        near(f"logreg, sgd, batch {batch}, l2 {l2}", objective(w), objective(best), 0.002)

    best = log_loss(x, y, best_logreg(x, y, 0))
    for optimizer in ("adagrad", "ftrl"):
        for mode, workers, share in (("sync", 1, 0.01), ("async", 3, 0.02)):
            w = weights(train(os.path.join(directory, optimizer + mode), *data, "--no-bias", "--optimizer", optimizer,
                              "--lr", 0.3, "--batch", 8, "--epochs", 200, "--mode", mode, "--workers", workers))
            near(f"logreg, {optimizer}, {mode}, {workers} workers", log_loss(x, y, w), best, share)

    run = os.path.join(directory, "bias")
    tensors = train(run, *data, "--epochs", 20, "--lr", 0.5)
    assert set(tensors) == {"0.weight", "0.bias"}, tensors
    predictions_agree("logreg", run, f"libsvm:{path}", tensors, x)


# ---- images: 1000 images of 6 x 6 pixels, 4 overlapping classes

def write_images(directory):
    rng = np.random.default_rng(2)
    centers = rng.integers(0, 200, (4, 36))
    os.mkdir(directory)
    for prefix, n in (("t10k", 400), ("train", 1000)):
        labels = rng.integers(0, 4, n).astype(np.uint8)
        images = np.clip(centers[labels] + rng.normal(scale=150, size=(n, 36)), 0, 255).astype(np.uint8)
        for name, array in (("images-idx3", images.reshape(n, 6, 6)), ("labels-idx1", labels)):
            with open(os.path.join(directory, f"{prefix}-{name}-ubyte"), "wb") as f:
                f.write(bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes())
        if prefix == "t10k":
            test = images / 255
    return images / 255, labels, test


def softmax(directory):
    data = os.path.join(directory, "images")
    x, y, test = write_images(data)
    run, l2 = os.path.join(directory, "softmax"), 1e-3
    tensors = train(run, "--model", "softmax", "--data", f"idx:{data}", "--test", "none", "--l2", l2, "--batch", 10,
                    "--lr", 0.5, "--lr-schedule", "inverse", "--lr-decay", 0.002, "--epochs", 200)

    # The bias is the weight of a column of ones, so L2 applies to it, too.
    ones = np.hstack([x, np.ones((len(x), 1))])
    best = LogisticRegression(C=1 / (l2 * len(y)), fit_intercept=False, tol=1e-10, max_iter=100000).fit(ones, y).coef_
    ours = np.hstack([tensors["0.weight"].astype(float), tensors["0.bias"].astype(float)[:, None]])

    def objective(w):
        logits = ones @ w.T
        return float((np.logaddexp.reduce(logits, axis=1) - logits[np.arange(len(y)), y]).mean() + l2 / 2 * (w**2).sum())

    near(f"softmax, sgd, l2 {l2}", objective(ours), objective(best), 0.002)
    predictions_agree("softmax", run, f"idx:{data}", tensors, test)


with tempfile.TemporaryDirectory() as where:
    logreg(where)
    softmax(where)
print("linear: yoke agrees with scikit-learn, NumPy" + " and PyTorch" * bool(torch))
