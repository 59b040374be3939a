"""Compares each optimizer, schedule and gradient clipping with their definitions in NumPy and, where it is installed, with PyTorch.
Each step uses all examples, so that the order of the examples does not matter; the processes and threads of a job divide them.

Exit status: 0 passed, 77 skipped (the last line says why), else failed. YK_BUILD is the build directory.
"""
import math
import struct
import tempfile

from program import find_torch, packages, saved, yoke

with packages():
    import numpy as np

torch = find_torch()
N, COLUMNS, CLASSES, STEPS = 40, 6, 3, 12
PLACES = {
    "one process": ("--batch", N),
    "threads": ("--batch", N // 4, "--workers", 4),
    "replicas": ("--batch", N // 2, "--launch", 2, "--servers", 0),
    "shards": ("--batch", N // 2, "--launch", 2, "--servers", "all"),
    "servers": ("--batch", N // 4, "--launch", 4, "--servers", 2, "--workers", 2),
}
HERE = ("one process", "threads")


def load(path):
    """The tensors of a safetensors file, [outputs][columns + 1] with the bias last."""
    with open(path, "rb") as f:
        (size,) = struct.unpack("<Q", f.read(8))
        head = __import__("json").loads(f.read(size))
        body = f.read()
    named = {name: np.frombuffer(body[slice(*t["data_offsets"])], np.float32).reshape(t["shape"])
             for name, t in head.items() if name != "__metadata__"}
    return np.hstack([named["0.weight"], named["0.bias"].reshape(-1, 1)]).astype(float)


def train(model, data, *options):
    with tempfile.TemporaryDirectory() as run:
        yoke("train", "--model", model, "--data", data, "--test", "none", "--epochs", STEPS, "--out", f"{run}/r", "--quiet", *options)
        return load(saved(f"{run}/r"))


# ---- definitions

def gradient(model, x, y, w):
    """Of the mean loss; x has a column of ones."""
    z = x @ w.T
    if model == "logreg":
        e = 1 / (1 + np.exp(-z)) - y[:, None]
    else:
        e = np.exp(z - np.logaddexp.reduce(z, axis=1, keepdims=True)) - np.eye(CLASSES)[y]
    return e.T @ x / len(y)


def rates(lr, schedule="constant", decay=0.0, warm_up=0, every=1000):
    def after(t, length):
        if schedule == "step":
            return decay ** (t // every)
        if schedule == "inverse":
            return 1 / (1 + decay * t)
        if schedule == "cosine":
            return decay + (1 - decay) * (1 + math.cos(math.pi * t / length)) / 2
        return 1
    if schedule == "one-cycle":
        peak = warm_up or 0.3 * STEPS - 1
        part = [t / peak if t < peak else 1 + (t - peak) / (STEPS - 1 - peak) for t in range(STEPS)]
        half = [(1 - math.cos(math.pi * p)) / 2 for p in part]
        return [lr * (1 / 25 + 24 / 25 * h if p < 1 else decay + (1 - decay) * h) for p, h in zip(part, half)]
    return [lr * (t + 1) / warm_up if t < warm_up else lr * after(t - warm_up, STEPS - warm_up) for t in range(STEPS)]


def update(rule, w, g, lr, t, s, l2=0.0, mu=0.9, betas=(0.9, 0.999), eps=None):
    if rule == "adamw":
        w = w - lr * l2 * w
    elif rule != "ftrl":
        g = g + l2 * w
    if rule == "sgd":
        return w - lr * g
    if rule in ("momentum", "nesterov"):
        s[0] = mu * s[0] + g
        return w - lr * (s[0] if rule == "momentum" else g + mu * s[0])
    if rule in ("adagrad", "rowwise-adagrad"):
        s[0] = s[0] + g * g
        return w - lr * g / (np.sqrt(s[0]) + (1e-10 if eps is None else eps))
    if rule in ("adam", "adamw"):
        s[0] = betas[0] * s[0] + (1 - betas[0]) * g
        s[1] = betas[1] * s[1] + (1 - betas[1]) * g * g
        m, v = s[0] / (1 - betas[0]**(t + 1)), s[1] / (1 - betas[1]**(t + 1))
        return w - lr * m / (np.sqrt(v) + (1e-8 if eps is None else eps))
    n = s[1] + g * g
    s[0] = s[0] + g - w * (np.sqrt(n) - np.sqrt(s[1])) / lr
    s[1] = n
    return -s[0] / ((1 + np.sqrt(n)) / lr + l2)


def reference(model, x, y, rule, schedule, clip=0.0, **others):
    w = np.zeros((1 if model == "logreg" else CLASSES, COLUMNS + 1))
    s = [np.zeros_like(w), np.zeros_like(w)]
    for t, lr in enumerate(schedule):
        g = gradient(model, x, y, w)
        norm = np.sqrt((g * g).sum())
        w = update(rule, w, g * min(1.0, clip / (norm + 1e-6)) if clip else g, lr, t, s, **others)
    return w


def in_pytorch(x, y, rule, schedule, clip=0.0, l2=0.0, mu=0.9, betas=(0.9, 0.999), eps=1e-8):
    """The same for softmax, by the optimizers of PyTorch."""
    model = torch.nn.Linear(COLUMNS, CLASSES).double()
    torch.nn.init.zeros_(model.weight), torch.nn.init.zeros_(model.bias)
    make = {"sgd": torch.optim.SGD, "momentum": torch.optim.SGD, "nesterov": torch.optim.SGD, "adam": torch.optim.Adam,
            "adamw": torch.optim.AdamW, "adagrad": torch.optim.Adagrad}[rule]
    more = {"momentum": {"momentum": mu}, "nesterov": {"momentum": mu, "nesterov": True}, "adam": {"betas": betas, "eps": eps},
            "adamw": {"betas": betas, "eps": eps}}.get(rule, {})
    optimizer = make(model.parameters(), lr=1.0, weight_decay=l2, **more)
    inputs, labels = torch.tensor(x[:, :-1]), torch.tensor(y)
    for lr in schedule:
        optimizer.param_groups[0]["lr"] = lr
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(inputs), labels).backward()
        if clip:
            torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
    return np.hstack([model.weight.detach().numpy(), model.bias.detach().numpy()[:, None]])


# ---- data

def write_data(directory):
    """Images for softmax, and the same numbers as sparse rows with two classes for logreg."""
    rng = np.random.default_rng(3)
    pixels = rng.integers(1, 256, (N, COLUMNS)).astype(np.uint8)
    x = np.hstack([pixels / 255.0, np.ones((N, 1))])
    y = (x[:, :CLASSES] + 0.3 * rng.random((N, CLASSES))).argmax(axis=1)
    with open(f"{directory}/train-images-idx3-ubyte", "wb") as f:
        f.write(struct.pack(">IIII", 2051, N, 2, COLUMNS // 2) + pixels.tobytes())
    with open(f"{directory}/train-labels-idx1-ubyte", "wb") as f:
        f.write(struct.pack(">II", 2049, N) + y.astype(np.uint8).tobytes())
    with open(f"{directory}/rows", "w", encoding="ascii") as f:
        for row, label in zip(x, y):
            f.write(f"{int(label > 0)} " + " ".join(f"{k + 1}:{row[k]:.9f}" for k in range(COLUMNS)) + "\n")
    return x, y


def compare(directory, x, y):
    data = {"softmax": (f"idx:{directory}", y), "logreg": (f"libsvm:{directory}/rows", (y > 0).astype(int))}
    everything = {"clip": 0.1, "l2": 0.01}
    # optimizer, options, schedule, arguments of the definition, placements
    cases = [(rule, ("--lr", lr), rates(lr), {}, HERE) for rule, lr in
             (("sgd", 0.5), ("momentum", 0.1), ("nesterov", 0.1), ("adagrad", 0.1), ("rowwise-adagrad", 0.1), ("adam", 0.05),
              ("adamw", 0.05), ("ftrl", 0.3))]
    cases += [
        ("adam", ("--lr", 0.05, "--adam-betas", "0.5,0.9", "--epsilon", 0.01), rates(0.05), {"betas": (0.5, 0.9), "eps": 0.01}, HERE),
        ("sgd", ("--lr", 0.5, "--lr-schedule", "step", "--lr-decay", 0.5, "--lr-decay-every", 3, "--warm-up", 2),
         rates(0.5, "step", 0.5, 2, 3), everything, PLACES),
        ("nesterov", ("--lr", 0.2, "--lr-schedule", "one-cycle", "--momentum", 0.8), rates(0.2, "one-cycle", 4e-6),
         {**everything, "mu": 0.8}, PLACES),
        ("adamw", ("--lr", 0.05, "--lr-schedule", "cosine", "--warm-up-epochs", 3), rates(0.05, "cosine", 0.0, 3), everything, PLACES),
        ("ftrl", ("--lr", 0.3, "--lr-schedule", "inverse", "--lr-decay", 0.1, "--warm-up", 3), rates(0.3, "inverse", 0.1, 3),
         {"clip": 0.1}, HERE),
    ]
    for rule, options, schedule, others, places in cases:
        for name, value in (("clip", "--clip-norm"), ("l2", "--l2")):
            options += (value, others[name]) if name in others else ()
        for model, (spec, labels) in data.items():
            want = reference(model, x, labels, rule, schedule, **others)
            if torch and model == "softmax" and rule not in ("ftrl", "rowwise-adagrad"):
                apart = np.abs(want - in_pytorch(x, labels, rule, schedule, **others)).max()
                assert apart < 1e-9, (rule, "the definition differs from PyTorch", apart)
            for place in places:
                apart = np.abs(train(model, spec, "--optimizer", rule, *options, *PLACES[place]) - want).max()
                print(f"{rule} {' '.join(map(str, options[2:]))}, {model}, {place}: differs by {apart:.1e}")
                assert apart < 1e-5, (rule, model, place, apart)


with tempfile.TemporaryDirectory() as directory:
    compare(directory, *write_data(directory))
print("optim_test: passed")
