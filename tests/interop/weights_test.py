"""Compares weights of examples and classes, and losses, with NumPy and PyTorch, in one process, replicas, shards and servers:

- some steps of sgd on all rows, for each linear model and loss, with weights from files and --class-weight;
- --class-weight balanced is scikit-learn's, with weights of examples in place of counts;
- networks with one output, against autograd (if PyTorch is installed).

Exit status: 0 passed, 77 skipped (the last line says why), else failed. YK_BUILD is the build directory.
"""
import os
import tempfile

from program import find_torch, packages, saved, yoke

with packages():
    import numpy as np
    from safetensors.numpy import load_file

torch = find_torch()
N, COLUMNS, STEPS, RATE = 96, 4, 5, 0.05
WAYS = {"one process": ["--batch", N], "threads": ["--workers", 2, "--batch", N // 2],
        "replicas": ["--launch", 2, "--servers", 0, "--batch", N // 2],
        "shards": ["--launch", 2, "--servers", "all", "--batch", N // 2],
        "servers": ["--launch", 3, "--servers", 1, "--batch", N // 2]}

rng = np.random.default_rng(3)
x = rng.normal(size=(N, COLUMNS)).astype(np.float32)
weight = rng.integers(0, 4, N).astype(np.float32) / 2
classes = rng.integers(0, 3, N)
numbers = (x @ np.array([1, -2, 0.5, 3]) + 4 + rng.normal(size=N)).astype(np.float32)


def write(path, y, weights):
    with open(path, "w") as f:
        for i in range(N):
            entries = " ".join(f"{j + 1}:{x[i, j]!r}".replace("np.float32(", "").replace(")", "") for j in range(COLUMNS))
            print(f"{y[i]}:{weights[i]} {entries}", file=f)


def write_csv(path, y, weights):
    with open(path, "w") as f:
        print("label,importance," + ",".join("abcd"), file=f)
        for i in range(N):
            print(y[i], weights[i], *(float(v) for v in x[i]), sep=",", file=f)


def errors(loss, z, y):
    """The derivative of each example's loss with respect to its outputs z, [N][outputs]."""
    if loss == "softmax":
        p = np.exp(z - np.logaddexp.reduce(z, axis=1, keepdims=True))
        return p - np.eye(z.shape[1])[y]
    y = y[:, None]
    if loss == "hinge":
        sign = 2 * y - 1
        return np.where(sign * z < 1, -sign, 0)
    return 2 * (z - y) if loss == "squared" else 1 / (1 + np.exp(-z)) - y


def in_numpy(loss, y, weights, outputs):
    w, b = np.zeros((outputs, COLUMNS)), np.zeros(outputs)
    for _ in range(STEPS):
        e = errors(loss, x.astype(float) @ w.T + b, y) * weights[:, None] / weights.sum()
        w, b = w - RATE * e.T @ x, b - RATE * e.sum(axis=0)
    return w, b


def train(way, *options):
    with tempfile.TemporaryDirectory() as out:
        yoke("train", *options, *WAYS[way], "--steps", STEPS, "--lr", RATE, "--optimizer", "sgd", "--out", os.path.join(out, "run"),
             "--seed", 1, "--quiet", "--test", "none")
        return load_file(saved(os.path.join(out, "run")))


def compare(what, got, expected):
    apart = max(np.abs(a - b).max() for a, b in zip(got, expected))
    print(f"{what}: the parameters differ by {apart:.1e}")
    assert apart < 1e-5, (what, apart)


def linear_models(folder):
    two = classes % 2
    given = np.array([1.0, 5.0, 0.5])
    balanced = weight.sum() / (3 * np.bincount(classes, weights=weight))
    for name, model, loss, y, by_class, options in (
            ("logreg", "logreg", "logistic", two, None, []), ("softmax", "softmax", "softmax", classes, None, []),
            ("linear", "linear", "squared", numbers, None, []), ("linear, hinge", "linear", "hinge", two, None, ["--loss", "hinge"]),
            ("logreg, class weights", "logreg", "logistic", two, given, ["--class-weight", "0=1,1=5"]),
            ("softmax, balanced", "softmax", "softmax", classes, balanced, ["--class-weight", "balanced"])):
        weights = weight if by_class is None else weight * by_class[y]
        expected = in_numpy(loss, y, weights.astype(float), 3 if loss == "softmax" else 1)
        path = os.path.join(folder, "data.csv" if model == "softmax" else "data.svm")
        (write_csv if model == "softmax" else write)(path, y, weight)
        spec = path + "?weight=importance" if model == "softmax" else f"libsvm:{path}?weight=1"
        for way in WAYS:
            got = train(way, "--model", model, "--data", spec, *options)
            compare(f"{name}, {way}", (got["0.weight"], got["0.bias"]), expected)


def networks(folder):
    path = os.path.join(folder, "data.csv")
    for loss, y in ("squared", numbers), ("logistic", classes % 2), ("hinge", classes % 2):
        write_csv(path, y, weight)
        first = {"0.weight": None}
        with tempfile.TemporaryDirectory() as out:
            options = ["--model", "dense 6, tanh, dense 1", "--loss", loss, "--data", path + "?weight=importance"]
            yoke("train", *options, "--batch", N, "--steps", 1, "--lr", 0, "--optimizer", "sgd", "--out", os.path.join(out, "run"),
                 "--seed", 1, "--quiet", "--test", "none")
            first = load_file(saved(os.path.join(out, "run")))
        net = torch.nn.Sequential(torch.nn.Linear(COLUMNS, 6), torch.nn.Tanh(), torch.nn.Linear(6, 1))
        net.load_state_dict({k: torch.tensor(v) for k, v in first.items()})
        optimizer = torch.optim.SGD(net.parameters(), lr=RATE)
        t, w = torch.tensor(y, dtype=torch.float32), torch.tensor(weight)
        for _ in range(STEPS):
            z = net(torch.tensor(x))[:, 0]
            each = (torch.nn.functional.mse_loss(z, t, reduction="none") if loss == "squared" else
                    torch.nn.functional.binary_cross_entropy_with_logits(z, t, reduction="none") if loss == "logistic" else
                    torch.relu(1 - (2 * t - 1) * z))
            optimizer.zero_grad()
            ((each * w).sum() / w.sum()).backward()
            optimizer.step()
        expected = [v.numpy() for v in net.state_dict().values()]
        for way in WAYS:
            got = train(way, *options)
            compare(f"network, {loss}, {way}", [got[k] for k in net.state_dict()], expected)


with tempfile.TemporaryDirectory() as folder:
    linear_models(folder)
    if torch:
        networks(folder)
