"""Compares factorization machines with NumPy, and these and deep models on sparse keys with PyTorch: from the same start, on the
same data, with the same optimizers, the losses of 500 steps agree to 1e-4. A step uses all examples, so that their order does not
matter. The model in PyTorch is the source that `yoke eval --print-torch` writes.

Exit status: 0 passed, 77 skipped (the last line says why), else failed. YK_BUILD is the build directory.
"""
import json
import os
import random
import tempfile

from program import find_torch, packages, yoke

with packages():
    import numpy as np
    from safetensors.numpy import load_file

torch = find_torch()
EXAMPLES, FIELDS, KEYS, STEPS = 200, 5, 60, 500
SQUARES = 1e-4  # adagrad: the initial sums of squares


def write_data(path):
    """LIBFFM text: some fields have several keys, some none. Returns key, value and field as arrays [N, E], and the labels."""
    rng = random.Random(1)
    rows, labels = [], []
    for _ in range(EXAMPLES):
        row = sorted({(f * KEYS // FIELDS + rng.randrange(KEYS // FIELDS), f, round(rng.uniform(0.2, 1.5), 3))
                      for f in range(FIELDS) for _ in range(rng.choice((0, 1, 1, 2)))})
        unique = {(k, f): (k, f, x) for k, f, x in row}
        rows.append(list(unique.values()) or [(0, 0, 1.0)])
        labels.append(int(sum(x * ((7 * k) % 5 - 2) for k, _, x in rows[-1]) + rng.gauss(0, 1) > 0))
    with open(path, "w", encoding="ascii") as f:
        for row, label in zip(rows, labels):
            f.write(f"{label} " + " ".join(f"{field}:{key}:{value}" for key, field, value in row) + "\n")
    longest = max(map(len, rows))
    padded = [row + [(0, 0, 0.0)] * (longest - len(row)) for row in rows]
    key, field, value = (np.array([[entry[i] for entry in row] for row in padded]) for i in range(3))
    return key, value.astype(np.float32), field, np.array(labels, np.float32)


def optimizers(model, keyed, dense):
    network = [p for name, p in model.named_parameters() if name.startswith("network.")]
    others = [p for name, p in model.named_parameters() if not name.startswith("network.")]
    made = {"sgd": lambda p, lr: torch.optim.SGD(p, lr), "adagrad": lambda p, lr: torch.optim.Adagrad(p, lr, initial_accumulator_value=SQUARES),
            "adam": lambda p, lr: torch.optim.Adam(p, lr),
            "momentum": lambda p, lr: torch.optim.SGD(p, lr, momentum=0.9)}
    return [made[keyed[0]](others, keyed[1])] + ([made[dense[0]](network, dense[1])] if network else [])


def losses_of_numpy(tensors, data, rate):
    """A factorization machine, trained by adagrad."""
    key, value, _, label = data
    rows = np.arange(len(label))[:, None]
    x = np.zeros((len(label), KEYS))
    np.add.at(x, (rows, key), value)
    w, b, v = (tensors[name].astype(float) for name in ("linear.weight", "linear.bias", "fm.weight"))
    squares = [np.full_like(p, SQUARES) for p in (w, b, v)]
    for _ in range(STEPS):
        sums = x @ v
        z = x @ w[0] + b + 0.5 * (sums**2 - x**2 @ v**2).sum(1)
        yield float(np.mean(np.logaddexp(0, z) - label * z))
        g = (1 / (1 + np.exp(-z)) - label) / len(label)
        gradients = (g @ x)[None], g.sum()[None], x.T @ (g[:, None] * sums) - (x**2).T @ g[:, None] * v
        for p, square, gradient in zip((w, b, v), squares, gradients):
            square += gradient**2
            p -= rate * gradient / (np.sqrt(square) + 1e-10)


def losses_of_pytorch(source, tensors, data, keyed, dense):
    printed = {}
    exec(source, printed)
    net = printed["model"]
    net.load_state_dict({name: torch.tensor(tensor) for name, tensor in tensors.items()})
    steppers = optimizers(net, keyed, dense)
    key, value, field, label = map(torch.tensor, data)
    for _ in range(STEPS):
        for o in steppers:
            o.zero_grad()
        loss = torch.nn.functional.binary_cross_entropy_with_logits(net(key, value, field), label)
        loss.backward()
        yield loss.item()
        for o in steppers:
            o.step()


def compare(directory, name, model, spec, data, keyed, dense):
    common = ("train", "--model", model, "--data", spec, "--features", KEYS, "--test", "none", "--batch", EXAMPLES, "--quiet",
              "--log-every", 1)
    start, run = os.path.join(directory, name + "-start"), os.path.join(directory, name)
    yoke(*common, "--steps", 1, "--optimizer", "sgd", "--lr", 1e-30, "--out", start)
    yoke(*common, "--steps", STEPS, "--out", run, "--initial-accumulator", SQUARES,
         "--optimizer", f"keyed={keyed[0]}" + (f",dense={dense[0]}" if dense else ""),
         "--lr", f"keyed={keyed[1]}" + (f",dense={dense[1]}" if dense else ""))
    with open(os.path.join(run, "metrics.jsonl"), encoding="utf-8") as f:
        lines = [json.loads(line) for line in f]
    ours = [line["loss"] for line in lines if line["kind"] == "train"]
    tensors = load_file(os.path.join(start, "checkpoints", "step-1", "model.safetensors"))
    others = {} if dense else {"NumPy": losses_of_numpy(tensors, data, keyed[1])}
    if torch:
        others["PyTorch"] = losses_of_pytorch(yoke("eval", "--checkpoint", start, "--print-torch"), tensors, data, keyed, dense)
    for other, losses in others.items():
        losses = list(losses)
        assert len(ours) == len(losses) == STEPS
        apart = max(abs(a - b) for a, b in zip(ours, losses))
        print(f"{name}: the losses of {STEPS} steps in yoke and {other} differ by at most {apart:.1e}; the last one is {losses[-1]:.4f}")
        assert apart < 1e-4, (name, other, apart)


def main():
    with tempfile.TemporaryDirectory(prefix="yoke-interop-") as directory:
        path = os.path.join(directory, "clicks.ffm")
        data = write_data(path)
        spec = f"libffm:{path}"
        deep = "linear + fm 4 name=v + (embed 4 name=v, dense 16, relu, dense 8, tanh, dense 1)"
        compare(directory, "fm", "fm:8", spec, data, ("adagrad", 0.05), None)
        if not torch:
            return
        compare(directory, "deepfm", deep, spec, data, ("adagrad", 0.02), ("adam", 0.001))
        compare(directory, "deep", "embed 6, dense 10, relu, dense 1", spec, data, ("sgd", 0.1), ("momentum", 0.01))


main()
