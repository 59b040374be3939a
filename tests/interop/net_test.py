"""Compares networks with NumPy and PyTorch, for each kind of layer and for lenet5:

- a saved network gives the probabilities that `yoke predict` writes, in NumPy and, loaded unchanged (names and shapes) into
  nn.Sequential of the same layers, in PyTorch;
- one more step changes each weight as the gradient predicts: the data is one batch, so that step k + 1 minus step k is minus the
  learning rate times the gradient at step k over all examples. NumPy compares the derivative in random directions, PyTorch all.

Exit status: 0 passed, 77 skipped (the last line says why), else failed. YK_BUILD is the build directory.
"""
import os
import struct
import tempfile

from program import find_torch, packages, yoke

with packages():
    import numpy as np
    from safetensors.numpy import load_file

torch = find_torch()
nn = torch and torch.nn


# ---- a layer list in NumPy: each function takes the input [N, ...], the words after the name, and the weights

def windows(x, height, width, stride):
    view = np.lib.stride_tricks.sliding_window_view(x, (height, width), (2, 3))
    return view[:, :, ::stride, ::stride]


def plain_conv(x, words, weight, bias):
    height, width = weight.shape[2:]
    stride = next((int(word[1:]) for word in words if word[0] == "/"), 1)
    pad = height // 2 if "same" in words else int(words[words.index("pad") + 1]) if "pad" in words else 0
    x = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    return np.einsum("ncijhw,ochw->noij", windows(x, height, width, stride), weight, optimize=True) + bias[:, None, None]


def plain_pool(x, words, reduce):
    size = int(words[0])
    return reduce(windows(x, size, size, int(words[1][1:]) if len(words) > 1 else size), axis=(4, 5))


def plain_lrn(x, words):
    size, alpha, beta, bias = [float(w) for w in words] + [5, 1e-4, 0.75, 1][len(words):]
    size = int(size)
    squares = np.pad(x**2, ((0, 0), (size // 2, (size - 1) // 2), (0, 0), (0, 0)))
    sums = sum(squares[:, i:i + x.shape[1]] for i in range(size))
    return x / (bias + alpha / size * sums)**beta


PLAIN = {"relu": lambda x: np.maximum(x, 0), "tanh": np.tanh, "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
         "dropout": lambda x: x, "flatten": lambda x: x.reshape(len(x), -1)}


def plain(layers, tensors, x):
    """The output of the network for x [N, channels, height, width], before the softmax."""
    for i, text in enumerate(layers.split(",")):
        kind, *words = text.split()
        if kind == "conv":
            x = plain_conv(x, words, tensors[f"{i}.weight"], tensors[f"{i}.bias"])
        elif kind == "dense":
            x = x.reshape(len(x), -1) @ tensors[f"{i}.weight"].T + tensors[f"{i}.bias"]
        elif kind.endswith("pool"):
            x = plain_pool(x, words, np.max if kind == "maxpool" else np.mean)
        else:
            x = plain_lrn(x, words) if kind == "lrn" else PLAIN[kind](x)
    return x


def plain_loss(layers, tensors, x, labels):
    z = plain(layers, tensors, x)
    return float((np.logaddexp.reduce(z, axis=1) - z[np.arange(len(z)), labels]).mean())


def plain_derivative(layers, tensors, key, direction, x, labels, h=1e-7):
    """Of the loss, with respect to the tensor `key` in this direction. A larger h would cross the kinks of relu and maxpool."""
    there, back = ({**tensors, key: tensors[key] + s * direction} for s in (h, -h))
    return (plain_loss(layers, there, x, labels) - plain_loss(layers, back, x, labels)) / (2 * h)


# ---- a layer list in PyTorch

def dense(inputs, outputs):
    """Accepts any input shape, as yoke's dense layer does: a Flatten would count as a layer."""
    class Dense(nn.Linear):
        def forward(self, x):
            return super().forward(x.flatten(1))

    return Dense(inputs, outputs)


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
        return dense(int(np.prod(shape)), int(words[0]))
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
        both.append((images.astype(np.float32) / np.float32(255), labels.astype(int)))
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
        both.append((images.astype(np.float32) / np.float32(255), labels.astype(int)))
    return f"cifar10:{directory}", (3, 32, 32), both


# ---- the two comparisons, with NumPy and with PyTorch

def compare_with_numpy(name, layers, data, lr, ours, before, after):
    (images, labels), (test, _) = data
    z = plain(layers, after, test.astype(float))
    apart = float(np.abs(ours - np.exp(z - np.logaddexp.reduce(z, axis=1, keepdims=True))).max())
    assert apart < 1e-4, (name, apart)
    line = f"{name}: NumPy: probabilities differ by {apart:.1e}"
    if "dropout" in layers:  # it uses its own random numbers
        return line
    rng, worst = np.random.default_rng(1), 0.0
    for key in before:
        gradient = (after[key] - before[key]) / -lr
        assert np.abs(gradient).max() > 0, (name, key, "the gradient is 0")
        # the direction of the gradient shows its length, and random directions that it has no other part
        for direction in (gradient, rng.normal(size=gradient.shape), rng.normal(size=gradient.shape)):
            direction = direction / np.linalg.norm(direction)
            right = plain_derivative(layers, before, key, direction, images.astype(float), labels)
            rounding = 1.2e-7 * float(np.abs(after[key]).max()) / lr * np.sqrt(gradient.size)
            error = abs(float((gradient * direction).sum()) - right)
            worst = max(worst, error / np.linalg.norm(gradient))
            assert error < 1e-3 * np.linalg.norm(gradient) + rounding, (name, key, error, right, np.linalg.norm(gradient))
    return line + f", derivatives by {worst:.1e} of the length of the gradient"


def gradient(net, images, labels):
    net.zero_grad()
    nn.functional.cross_entropy(net(torch.tensor(images)), torch.tensor(labels)).backward()
    return {name: p.grad for name, p in net.named_parameters()}


def compare_with_pytorch(name, layers, shape, data, lr, run, ours, before, after):
    (images, labels), (test, _) = data
    test = torch.tensor(test)
    before, after = ({key: torch.tensor(value) for key, value in tensors.items()} for tensors in (before, after))
    net = sequential(layers, shape)
    net.load_state_dict(after)  # strict: checks every name and shape
    net.eval()
    printed = {}
    exec(yoke("eval", "--checkpoint", run, "--print-torch"), printed)  # the module that the program prints
    printed["model"].load_state_dict(after)
    printed["model"].eval()
    with torch.no_grad():
        assert torch.equal(net(test), printed["model"](test)), (name, "the printed module computes something else")
        right = torch.softmax(net(test).double(), 1).numpy()
    apart = float(np.abs(ours - right).max())
    line = f"{name}: PyTorch: probabilities differ by {apart:.1e}"
    assert apart < 1e-4, (name, apart)
    if "dropout" not in layers:
        net.load_state_dict(before)
        worst = 0.0
        for key, g in gradient(net, images, labels).items():
            step = (after[key].double() - before[key].double()) / -lr
            largest = float(g.abs().max())
            rounding = 1.2e-7 * float(after[key].abs().max()) / lr  # rounding of the weight itself
            assert largest > 0, (name, key, "the gradient is 0")
            error = float((step - g.double()).abs().max())
            worst = max(worst, (error - rounding) / largest)
            assert error < 1e-4 * largest + rounding, (name, key, error, largest)
        line += f", gradients by {max(worst, 0.0):.1e} of the largest"
    return line


def compare(directory, name, layers, data, lr=0.2, threads=1, workers=1, model=None):
    spec, shape, both = data
    run = os.path.join(directory, name)
    yoke("train", "--model", model or layers, "--data", spec, "--test", "none", "--batch", len(both[0][1]) // workers,
         "--workers", workers, "--threads", threads, "--lr", lr, "--steps", 4, "--checkpoint-every", 1, "--out", run,
         "--seed", 1, "--quiet")
    before, after = (load_file(os.path.join(run, "checkpoints", f"step-{k}", "model.safetensors")) for k in (3, 4))
    ours = np.array([[float(x) for x in line.split()] for line in
                     yoke("predict", "--checkpoint", run, "--data", spec, "--quiet").splitlines()])
    assert ours.shape == (len(both[1][1]), 10), (name, ours.shape)
    exact = [{key: value.astype(float) for key, value in tensors.items()} for tensors in (before, after)]
    print(compare_with_numpy(name, layers, both, lr, ours, *exact))
    if torch:
        print(compare_with_pytorch(name, layers, shape, both, lr, run, ours, before, after))


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
print("net: yoke agrees with NumPy" + " and PyTorch" * bool(torch))
