"""Measures the peers on the same work as yoke. bench.py runs it with the Python of `./dev peers`.

    peers.py softmax BATCH THREADS [MNIST DIRECTORY]     PyTorch: nn.Linear + CrossEntropyLoss + SGD, data in memory
    peers.py sklearn CACHE                            scikit-learn: SGDClassifier.partial_fit on one CSR matrix
    peers.py embedding CACHE BATCH THREADS            PyTorch: EmbeddingBag(sparse) + SGD
    peers.py net lenet5|alexnet BATCH THREADS         PyTorch: the same layers + SGD with momentum, data in memory
    peers.py ddp BATCH [PROCESSES]                    PyTorch: lenet5, DistributedDataParallel over gloo
    peers.py parquet FILE ROWS                        pyarrow: writes a table to FILE; reads it to NumPy arrays, texts as codes
    peers.py vw FILE LINES                            Vowpal Wabbit: one pass over a text file, without a cache
    peers.py logloss CACHE C                          scikit-learn: the optimum of L2-regularized logistic regression

Each prints one JSON object: {"rate": best, "unit": ..., "of": repetitions, "version": ...}.
Every peer gets its best case: no loader, no copies, batches are slices of a tensor that is already in order.
"""
import gzip
import json
import os
import struct
import sys
import time

import numpy as np

REPEAT = 3


def best_rate(work, amount):
    """The best of a few repetitions, after a warm-up."""
    work()
    best = 0.0
    for _ in range(REPEAT):
        start = time.perf_counter()
        work()
        best = max(best, amount / (time.perf_counter() - start))
    return best


def result(rate, unit, version):
    print(json.dumps({"rate": rate, "unit": unit, "of": REPEAT, "version": version}))


def read_idx(path):
    """idx: 00 00, type, dimensions, u32 big-endian sizes, data; plain or gzip."""
    with gzip.open(path) if path.endswith(".gz") else open(path, "rb") as f:
        data = f.read()
    sides = data[3]
    shape = struct.unpack(f">{sides}I", data[4:4 + 4 * sides])
    return np.frombuffer(data, np.uint8, offset=4 + 4 * sides).reshape(shape)


def read_mnist(directory):
    def find(name):
        for suffix in (".gz", ""):
            if os.path.exists(os.path.join(directory, name + suffix)):
                return os.path.join(directory, name + suffix)
        raise FileNotFoundError(f"{directory}/{name}")

    images = read_idx(find("train-images-idx3-ubyte")).reshape(-1, 784)
    return images.astype(np.float32) / 255, read_idx(find("train-labels-idx1-ubyte")).astype(np.int64)


def map_cache(path, values=False):
    """yoke's binary cache (src/format/cache.h): (columns, start, index, label), and with `values` the values, mapped."""
    with open(path, "rb") as f:
        header = f.read(256)
    if header[:8] != b"YKCACHE1":
        sys.exit(f"{path}: not a binary cache")
    n, columns, entries = struct.unpack_from("<QQQ", header, 16)

    def array(number, dtype, count):
        offset, size = struct.unpack_from("<QQ", header, 64 + 24 * number)
        if size != np.dtype(dtype).itemsize * count:
            sys.exit(f"{path}: array {number} has {size} bytes")
        return np.memmap(path, dtype, "r", offset, (count,))

    found = columns, array(2, "<u8", n + 1), array(3, "<u4", entries), array(1, "<i4", n)
    return (*found, array(4, "<f4", entries)) if values else found


def softmax(batch, threads, directory=None):
    import torch

    torch.set_num_threads(threads)
    if directory:
        x, y = read_mnist(directory)
    else:
        rng = np.random.default_rng(1)
        x, y = rng.random((60000, 784), np.float32), rng.integers(0, 10, 60000)
    order = np.random.default_rng(1).permutation(len(x))
    x, y = torch.from_numpy(x[order]), torch.from_numpy(np.ascontiguousarray(y[order]))
    model = torch.nn.Linear(784, 10)
    loss_of = torch.nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5 if batch >= 100 else 0.05)
    steps = min(len(x) // batch, 6000)

    def epoch():
        for i in range(0, steps * batch, batch):
            optimizer.zero_grad()
            loss_of(model(x[i:i + batch]), y[i:i + batch]).backward()
            optimizer.step()

    result(best_rate(epoch, steps), "steps/s", f"PyTorch {torch.__version__}")


def sklearn_sgd(cache):
    import scipy.sparse
    import sklearn
    from sklearn.linear_model import SGDClassifier

    columns, start, index, label = map_cache(cache)
    values = np.ones(len(index), np.float64)
    x = scipy.sparse.csr_matrix((values, index.astype(np.int32), start.astype(np.int32)), (len(label), columns))
    y = np.asarray(label)
    model = SGDClassifier(loss="log_loss", learning_rate="constant", alpha=0, eta0=0.02, average=False)
    classes = np.array([0, 1])
    result(best_rate(lambda: model.partial_fit(x, y, classes), len(y)), "examples/s", f"scikit-learn {sklearn.__version__}")


def embedding(cache, batch, threads):
    import torch

    torch.set_num_threads(threads)
    columns, start, index, label = map_cache(cache)
    nnz = int(start[1])
    n = min(len(label), 100_000) // batch * batch
    if not np.array_equal(start[:n + 1], np.arange(n + 1, dtype=np.uint64) * nnz):
        sys.exit("the rows differ in length")
    keys = torch.from_numpy(index[:n * nnz].astype(np.int64)).reshape(n, nnz)
    y = torch.from_numpy(label[:n].astype(np.float32))
    model = torch.nn.EmbeddingBag(columns, 1, mode="sum", sparse=True)
    torch.nn.init.zeros_(model.weight)
    loss_of = torch.nn.BCEWithLogitsLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02 * batch)

    def epoch():
        for i in range(0, n, batch):
            optimizer.zero_grad()
            loss_of(model(keys[i:i + batch]).squeeze(1), y[i:i + batch]).backward()
            optimizer.step()

    result(best_rate(epoch, n), "examples/s", f"PyTorch {torch.__version__}")


def net(name, batch, threads):
    """Layers as in src/model/net_parse.c; alexnet at 224 x 224."""
    import resource

    import torch
    from torch import nn

    torch.set_num_threads(threads)
    if name == "lenet5":
        side, channels, classes, images, repeats = 28, 1, 10, 8192, 1
        model = nn.Sequential(
            nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2),
            nn.Flatten(), nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10))
    else:
        side, channels, classes, images, repeats = 224, 3, 1000, batch, 2
        model = nn.Sequential(
            nn.Conv2d(3, 64, 11, stride=4), nn.ReLU(), nn.MaxPool2d(3, 2), nn.Conv2d(64, 192, 5, padding=2), nn.ReLU(),
            nn.MaxPool2d(3, 2), nn.Conv2d(192, 384, 3, padding=1), nn.ReLU(), nn.Conv2d(384, 256, 3, padding=1), nn.ReLU(),
            nn.Conv2d(256, 256, 3, padding=1), nn.ReLU(), nn.MaxPool2d(3, 2), nn.Flatten(), nn.Dropout(),
            nn.Linear(256 * 5 * 5, 4096), nn.ReLU(), nn.Dropout(), nn.Linear(4096, 4096), nn.ReLU(), nn.Linear(4096, 1000))
    x, y = torch.rand(images, channels, side, side), torch.randint(0, classes, (images,))
    loss_of = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001, momentum=0.9)

    def epoch():
        for i in [k for _ in range(repeats) for k in range(0, images, batch)]:
            optimizer.zero_grad()
            loss_of(model(x[i:i + batch]), y[i:i + batch]).backward()
            optimizer.step()

    rate = best_rate(epoch, images * repeats)
    print(json.dumps({"rate": rate, "unit": "images/s", "of": REPEAT, "version": f"PyTorch {torch.__version__}",
                      "peak_rss_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}))


def ddp_worker(rank, world, port, batch, queue):
    import torch
    import torch.distributed as dist
    from torch import nn

    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=world)
    model = nn.parallel.DistributedDataParallel(nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10)))
    images = 4096
    x, y = torch.rand(images, 1, 28, 28), torch.randint(0, 10, (images,))
    loss_of = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001, momentum=0.9)

    def epoch():
        for i in range(0, images, batch):
            optimizer.zero_grad()
            loss_of(model(x[i:i + batch]), y[i:i + batch]).backward()
            optimizer.step()
        dist.barrier()

    rate = best_rate(epoch, world * images)
    if rank == 0:
        queue.put((rate, torch.__version__))
    dist.destroy_process_group()


def ddp(batch, world=2):
    """lenet5, processes of one thread each, DistributedDataParallel over gloo; images/s of all together."""
    import socket

    import torch.multiprocessing as mp

    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    context = mp.get_context("spawn")
    queue = context.SimpleQueue()
    processes = [context.Process(target=ddp_worker, args=(rank, world, port, batch, queue)) for rank in range(world)]
    for p in processes:
        p.start()
    rate, version = queue.get()
    for p in processes:
        p.join()
    result(rate, "images/s", f"PyTorch {version} DDP, gloo")


def logloss(cache, c):
    """min over w, b of mean log-loss + |w|^2 / (2 C n): the optimum that logreg should approach."""
    import scipy.sparse
    import sklearn
    from sklearn.linear_model import LogisticRegression

    columns, start, index, label = map_cache(cache)
    x = scipy.sparse.csr_matrix((np.ones(len(index)), index.astype(np.int32), start.astype(np.int32)),
                                (len(label), columns))
    model = LogisticRegression(C=c, solver="lbfgs", max_iter=2000, tol=1e-8).fit(x, np.asarray(label))
    p = model.predict_proba(x)[np.arange(len(label)), np.asarray(label)]
    print(json.dumps({"loss": float(-np.log(p).mean()), "square": float((model.coef_ ** 2).sum()),
                      "version": f"scikit-learn {sklearn.__version__}"}))


def parquet(path, rows):
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(5)
    table = {"label": (rng.random(rows) < 0.3).astype(np.int32)}
    for i in range(10):
        table[f"n{i}"] = rng.integers(0, 1000, rows) if i < 5 else rng.normal(size=rows).astype(np.float32 if i < 8 else np.float64)
    texts = [f"c{i}" for i in range(20)]
    for i, name in enumerate(texts):
        distinct = 10 ** (1 + i % 5)
        words = np.array([f"{(k * 2654435761 + i) % 2**32:08x}" for k in range(distinct)], object)
        table[name] = words[np.minimum(rng.zipf(1.3, rows) - 1, distinct - 1)]
    pq.write_table(pa.table(table), path)
    pa.set_cpu_count(2)

    def to_numpy():
        for column in pq.read_table(path, read_dictionary=texts).columns:
            for chunk in column.chunks:
                (chunk.indices if pa.types.is_dictionary(chunk.type) else chunk).to_numpy(zero_copy_only=False)

    result(best_rate(to_numpy, rows), "rows/s", f"pyarrow {pa.__version__}")


def vw(path, lines):
    import vowpalwabbit

    def one_pass():
        vowpalwabbit.Workspace(f"-d {path} --loss_function logistic -b 18 --quiet --no_stdin").finish()

    result(best_rate(one_pass, lines), "lines/s", f"Vowpal Wabbit {vowpalwabbit.__version__}")


def main(args):
    verb = args[0] if args else ""
    if verb == "softmax" and len(args) in (3, 4):
        softmax(int(args[1]), int(args[2]), *args[3:])
    elif verb == "sklearn" and len(args) == 2:
        sklearn_sgd(args[1])
    elif verb == "embedding" and len(args) == 4:
        embedding(args[1], int(args[2]), int(args[3]))
    elif verb == "net" and len(args) == 4:
        net(args[1], int(args[2]), int(args[3]))
    elif verb == "ddp" and len(args) in (2, 3):
        ddp(*map(int, args[1:]))
    elif verb == "parquet" and len(args) == 3:
        parquet(args[1], int(args[2]))
    elif verb == "vw" and len(args) == 3:
        vw(args[1], int(args[2]))
    elif verb == "logloss" and len(args) == 3:
        logloss(args[1], float(args[2]))
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
