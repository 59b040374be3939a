"""Compares networks with PyTorch, for each kind of layer and for lenet5:

- a saved network loads unchanged (names and shapes) into nn.Sequential of the same layers, and gives the
  probabilities that `yoke predict` writes;
- one more step changes each weight as PyTorch's gradient predicts: the data is one batch, so that step k + 1 minus
  step k is minus the learning rate times the gradient at step k over all examples.

Exit status: 0 passed, 77 skipped (the last line says why), else failed. YK_BUILD is the build directory.
"""
import os
import struct
import sys
import tempfile

from program import yoke

try:
    import numpy as np
    import torch
    from safetensors.torch import load_file
    from torch import nn
except ImportError as missing:
    print(f"Python package {missing.name} is not installed (./dev peers installs it)")
    sys.exit(77)

torch.set_num_threads(1)


# ---- a layer list in PyTorch

class Dense(nn.Linear):
    """Accepts any input shape, as yoke's dense layer does: a Flatten would count as a layer."""

    def forward(self, x):
        return super().forward(x.flatten(1))


def conv(inputs, words):
    height, width = (int(n) for n in words[1].split("x"))
    stride, pad = 1, 0
    for i, word in enumerate(words):
        if word[0] == "/":
            stride = int(word[1:])
        if word == "same":
            pad = height // 2
        if word == "pad":
            pad = int(words[i + 1])
    return nn.Conv2d(inputs, int(words[0]), (height, width), stride, pad)


def layer(text, shape):
    kind, *words = text.split()
    if kind == "conv":
        return conv(shape[0], words)
    if kind == "dense":
        return Dense(int(np.prod(shape)), int(words[0]))
    if kind.endswith("pool"):
        stride = int(words[1][1:]) if len(words) > 1 else None
        return (nn.MaxPool2d if kind == "maxpool" else nn.AvgPool2d)(int(words[0]), stride)
    if kind == "lrn":
        size, alpha, beta, bias = [float(w) for w in words] + [5, 1e-4, 0.75, 1][len(words):]
        return nn.LocalResponseNorm(int(size), alpha, beta, bias)
    if kind == "dropout":
        return nn.Dropout(float(words[0]) if words else 0.5)
    return {"relu": nn.ReLU, "tanh": nn.Tanh, "sigmoid": nn.Sigmoid, "flatten": nn.Flatten}[kind]()


def sequential(layers, shape):
    made = []
    for text in layers.split(","):
        made.append(layer(text, shape))
        with torch.no_grad():
            shape = tuple(made[-1](torch.zeros(1, *shape)).shape[1:])
    return nn.Sequential(*made)


# ---- data sets of one batch

def write_idx(path, array):
    with open(path, "wb") as f:
        f.write(bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes())


def make_images(rng, n, channels, size, classes):
    labels = rng.integers(0, classes, n).astype(np.uint8)
    images = rng.integers(0, 256, (n, channels, size, size)).astype(np.uint8)
    return images, labels


def gray(directory, n, size):
    """idx: n training and 21 test images of 10 classes (all classes occur, so that yoke finds their number)."""
    rng = np.random.default_rng(size)
    os.mkdir(directory)
    both = []
    for prefix, count in (("train", n), ("t10k", 21)):
        images, labels = make_images(rng, count, 1, size, 10)
        labels[:10] = np.arange(10)
        write_idx(os.path.join(directory, f"{prefix}-images-idx3-ubyte"), images[:, 0])
        write_idx(os.path.join(directory, f"{prefix}-labels-idx1-ubyte"), labels)
        both.append((torch.tensor(images / 255, dtype=torch.float32), torch.tensor(labels, dtype=torch.int64)))
    return f"idx:{directory}", (1, size, size), both


def color(directory, n):
    """CIFAR-10: three planes per image."""
    rng = np.random.default_rng(3)
    os.mkdir(directory)
    both = []
    for name, count in (("data_batch_1.bin", n), ("test_batch.bin", 21)):
        images, labels = make_images(rng, count, 3, 32, 10)
        with open(os.path.join(directory, name), "wb") as f:
            f.write(np.hstack([labels[:, None], images.reshape(count, -1)]).astype(np.uint8).tobytes())
        both.append((torch.tensor(images / 255, dtype=torch.float32), torch.tensor(labels, dtype=torch.int64)))
    return f"cifar10:{directory}", (3, 32, 32), both


# ---- the two comparisons

def gradient(net, images, labels):
    net.zero_grad()
    nn.functional.cross_entropy(net(images), labels).backward()
    return {name: p.grad for name, p in net.named_parameters()}


def compare(directory, name, layers, data, lr=0.2, threads=1, workers=1, model=None):
    spec, shape, ((images, labels), (test, _)) = data
    run = os.path.join(directory, name)
    yoke("train", "--model", model or layers, "--data", spec, "--test", "none", "--batch", len(labels) // workers,
         "--workers", workers, "--threads", threads, "--lr", lr, "--steps", 4, "--checkpoint-every", 1, "--out", run,
         "--seed", 1, "--quiet")
    before, after = (load_file(os.path.join(run, "checkpoints", f"step-{k}", "model.safetensors")) for k in (3, 4))
    net = sequential(layers, shape)

    net.load_state_dict(after)  # strict: checks every name and shape
    net.eval()
    printed = {}
    exec(yoke("eval", "--checkpoint", run, "--print-torch"), printed)  # the module that the program prints
    printed["model"].load_state_dict(after)
    printed["model"].eval()
    with torch.no_grad():
        assert torch.equal(net(test), printed["model"](test)), (name, "the printed module computes something else")
    with torch.no_grad():
        right = torch.softmax(net(test).double(), 1).numpy()
    ours = np.array([[float(x) for x in line.split()] for line in
                     yoke("predict", "--checkpoint", run, "--data", spec, "--quiet").splitlines()])
    assert ours.shape == right.shape, (name, ours.shape, right.shape)
    apart = float(np.abs(ours - right).max())
    line = f"{name}: probabilities differ by {apart:.1e}"
    assert apart < 1e-4, (name, apart)

    if "dropout" not in layers:  # dropout uses its own random numbers
        net.load_state_dict(before)
        worst = 0.0
        for key, g in gradient(net, images, labels).items():
            ours = (after[key].double() - before[key].double()) / -lr
            largest = float(g.abs().max())
            rounding = 1.2e-7 * float(after[key].abs().max()) / lr  # rounding of the weight itself
            assert largest > 0, (name, key, "the gradient is 0")
            error = float((ours - g.double()).abs().max())
            worst = max(worst, (error - rounding) / largest)
            assert error < 1e-4 * largest + rounding, (name, key, error, largest)
        line += f", gradients by {max(worst, 0.0):.1e} of the largest"
    print(line)


LAYERS = {
    "dense": "dense 17, relu, dense 10",
    "conv": "conv 5 3x3, relu, conv 4 4x2, relu, dense 10",
    "same": "conv 5 3x3 same, relu, conv 4 5x5 same, relu, dense 10",
    "pad": "conv 5 3x3 pad 2, relu, conv 4 2x3 pad 1, relu, dense 10",
    "stride": "conv 5 3x3 /2, relu, conv 4 3x3 /3 same, relu, dense 10",
    "stride4": "conv 5 5x5 same, relu, conv 4 5x5 /4 pad 2, relu, dense 10",
    "maxpool": "conv 5 3x3, relu, maxpool 2, dense 10",
    "overlapping": "conv 5 3x3 same, relu, maxpool 3 /2, conv 4 2x2, maxpool 2 /1, dense 10",
    "avgpool": "conv 5 3x3, relu, avgpool 2, conv 4 2x2, avgpool 3 /1, dense 10",
    "pool-first": "maxpool 2, conv 5 3x3 same, relu, dense 10",
    "tanh": "conv 5 3x3, tanh, maxpool 2, tanh, dense 20, tanh, dense 10",
    "sigmoid": "conv 5 3x3, sigmoid, dense 20, relu, sigmoid, dense 10",
    "lrn": "conv 9 3x3 same, lrn 5 1.5 0.75 1, relu, conv 6 3x3 same, relu, lrn 4 2.0 0.5 2, dense 10",
    "lrn-default": "conv 9 3x3, relu, lrn, dense 10",
    "dropout": "conv 5 3x3, relu, maxpool 2, dropout 0.4, dense 20, tanh, dropout, dense 10",
    "flatten": "conv 5 3x3, relu, flatten, dense 20, relu, flatten, dense 10",
    "conv-last": "conv 5 3x3, relu, conv 10 10x10, flatten",
}
LENET5 = "conv 6 5x5 same, relu, maxpool 2, conv 16 5x5, relu, maxpool 2, flatten, dense 120, relu, dense 84, relu, dense 10"

with tempfile.TemporaryDirectory() as where:
    small = gray(os.path.join(where, "small"), 33, 12)
    for what, text in LAYERS.items():
        compare(where, what, text, small)
    digits = gray(os.path.join(where, "digits"), 60, 28)
    compare(where, "lenet5", LENET5, digits, model="lenet5")
    compare(where, "lenet5-threads", LENET5, digits, model="lenet5", threads=2)
    compare(where, "lenet5-workers", LENET5, digits, model="lenet5", workers=3)
    compare(where, "cifar10", "conv 8 5x5 /2 pad 1, relu, maxpool 3 /2, conv 12 3x3 same, relu, avgpool 2, dense 10",
            color(os.path.join(where, "color"), 40))
print("net: yoke agrees with PyTorch")
