"""Measures xLearn and PyTorch on the work of `./dev bench clicks`, like peers.py, and PyTorch on that of `./dev bench bars`.

    click_peers.py torch fm|deepfm CACHE K BATCH    PyTorch: sparse embeddings with Adagrad, the network with Adam
    click_peers.py xlearn LIBSVM K EXAMPLES         xLearn: FM with adagrad on one thread; needs the variable USER
    click_peers.py bars logreg|fm|deepfm TRAIN VALIDATION TEST SEED...    PyTorch: test AUC with the settings of BARS

Each prints one JSON object: {"rate": best, "unit": ..., "version": ...}, or {"auc": [...], "epochs": [...], "version": ...}. One thread
(bars: all cores); data in memory.
"""
import json
import os
import sys
import tempfile
import time

HIDDEN = (400, 400, 400)
WIDTH, BATCH, EPOCHS = 10, 4096, 100  # of bars


def torch_model(name, columns, nnz, width, sparse=True):
    import torch
    from torch import nn

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Embedding(columns, 1, sparse=sparse)
            self.v = nn.Embedding(columns, width, sparse=sparse)
            self.bias = nn.Parameter(torch.zeros(1))
            sizes = (nnz * width, *HIDDEN)
            layers = [m for a, b in zip(sizes, sizes[1:]) for m in (nn.Linear(a, b), nn.ReLU())]
            self.network = nn.Sequential(*layers, nn.Linear(HIDDEN[-1], 1)) if name == "deepfm" else None
            nn.init.zeros_(self.linear.weight)
            nn.init.uniform_(self.v.weight, -0.03, 0.03)

        def forward(self, keys):
            z = self.bias + self.linear(keys).sum((1, 2))
            if name == "logreg":
                return z
            x = self.v(keys)
            z = z + 0.5 * (x.sum(1) ** 2 - (x ** 2).sum(1)).sum(1)
            return z if self.network is None else z + self.network(x.flatten(1)).squeeze(1)

    return Model()


def measure_torch(name, cache, width, batch):
    import numpy as np
    import torch

    import peers

    torch.set_num_threads(1)
    columns, start, index, label = peers.map_cache(cache)
    nnz = int(start[1])
    n = min(len(label), 20_000 if name == "deepfm" else 50_000) // batch * batch
    keys = torch.from_numpy(index[:n * nnz].astype(np.int64)).reshape(n, nnz)
    y = torch.from_numpy(label[:n].astype(np.float32))
    model = torch_model(name, columns, nnz, width)
    loss_of = torch.nn.BCEWithLogitsLoss()
    optimizers = [torch.optim.Adagrad([model.linear.weight, model.v.weight], lr=0.05)]
    dense = [p for p in model.parameters() if p is not model.linear.weight and p is not model.v.weight]
    optimizers.append(torch.optim.Adam(dense, lr=0.001))

    def epoch():
        for i in range(0, n, batch):
            for o in optimizers:
                o.zero_grad()
            loss_of(model(keys[i:i + batch]), y[i:i + batch]).backward()
            for o in optimizers:
                o.step()

    cpu = 1e9
    epoch()
    for _ in range(peers.REPEAT):
        since = time.process_time()
        epoch()
        cpu = min(cpu, time.process_time() - since)
    print(json.dumps({"rate": peers.best_rate(epoch, n), "cpu_rate": n / cpu, "unit": "examples/s",
                      "version": f"PyTorch {torch.__version__.split('+')[0]}"}))


def bars(name, paths, seed):
    """The test AUC of the best model by validation AUC, and the epochs: an epoch without improvement divides the learning rate by 10; two
    end the run. As in yoke, vectors begin with uniform numbers and layers with He's, and Adam updates only the keys of the batch. FuxiCTR, which
    BARS uses, begins with normal(0, 1e-4) and Xavier's, and its Adam moves all keys in each step."""
    import numpy as np
    import torch
    from sklearn.metrics import roc_auc_score

    import peers

    torch.manual_seed(seed)
    data = []
    for path in paths:
        columns, start, index, label = peers.map_cache(path)
        data.append((torch.from_numpy(index.astype(np.int64)).reshape(len(label), int(start[1])),
                     torch.from_numpy(label.astype(np.float32))))
    (keys, y), *others = data
    model = torch_model(name, columns, keys.shape[1], WIDTH)
    torch.nn.init.uniform_(model.v.weight, -0.1 / WIDTH ** 0.5, 0.1 / WIDTH ** 0.5)
    for layer in model.network or ():
        if isinstance(layer, torch.nn.Linear):
            torch.nn.init.kaiming_normal_(layer.weight)
            torch.nn.init.zeros_(layer.bias)
    keyed = [model.linear.weight] if name == "logreg" else [model.linear.weight, model.v.weight]
    dense = [model.bias, *(model.network or torch.nn.Sequential()).parameters()]
    optimizers = [torch.optim.SparseAdam(keyed, lr=1e-3), torch.optim.Adam(dense, lr=1e-3)]
    loss_of = torch.nn.BCEWithLogitsLoss()

    def auc(part):
        with torch.no_grad():
            return roc_auc_score(part[1], torch.cat([model(k) for k in part[0].split(BATCH)]))

    best, test, bad, epoch = 0.0, 0.0, 0, 0
    while bad < 2 and epoch < EPOCHS:
        for rows in torch.randperm(len(y)).split(BATCH):
            for optimizer in optimizers:
                optimizer.zero_grad()
            loss_of(model(keys[rows]), y[rows]).backward()
            for optimizer in optimizers:
                optimizer.step()
        epoch, now = epoch + 1, auc(others[0])
        if now > best:
            best, test, bad = now, auc(others[1]), 0
        else:
            bad += 1
            for group in (group for optimizer in optimizers for group in optimizer.param_groups):
                group["lr"] *= 0.1
    return test, epoch


def measure_xlearn(path, width, examples):
    os.environ.setdefault("USER", "user")
    import xlearn

    def seconds(epochs):
        model = xlearn.create_fm()
        model.setTrain(path)
        model.disableEarlyStop()
        model.setQuiet()
        with tempfile.TemporaryDirectory() as directory:
            since = time.perf_counter()
            model.fit({"task": "binary", "lr": 0.05, "lambda": 0.0, "k": width, "epoch": epochs, "opt": "adagrad",
                       "nthread": 1}, os.path.join(directory, "model"))
            return time.perf_counter() - since

    seconds(1)  # writes the binary file that later runs read
    more = min(seconds(6) - seconds(1) for _ in range(3))
    print(json.dumps({"rate": 5 * examples / more, "unit": "examples/s", "version": "xLearn"}), flush=True)


def main(args):
    if len(args) == 5 and args[0] == "torch" and args[1] in ("fm", "deepfm"):
        measure_torch(args[1], args[2], int(args[3]), int(args[4]))
    elif len(args) == 4 and args[0] == "xlearn":
        measure_xlearn(args[1], int(args[2]), int(args[3]))
    elif len(args) >= 6 and args[0] == "bars":
        import torch
        auc, epochs = zip(*(bars(args[1], args[2:5], int(seed)) for seed in args[5:]))
        print(json.dumps({"auc": auc, "epochs": epochs, "version": f"PyTorch {torch.__version__.split('+')[0]}"}))
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
