"""The search for the learning rate: ./dev bench lr.

Twelve tasks: digits, clicks, a table and texts, with linear models, factorization machines, a deep model and a network. Each is trained with nine
learning rates, multiples of the default from 0.01 to 100, and with --lr auto: the test loss, and the time of the search as a part of the
time of training. On ten tasks, the loss must be within 5 % of the smallest one of the grid, and the loss of the default must not be lower
by more than 1 %.
"""
import math
import os
import random
import sys

from harness import figure, main

NETWORK = "dense 64, relu, dense 10"
DEEP = "linear + fm 4 name=v + (embed 4 name=v, dense 32, relu, dense 1)"
CLICKS = "synth:ctr?features=50000&nnz=20&examples=200000&test=20000"
TABLE = "?scale=standard&categorical=city,device"
# model, data, epochs, other options
TASKS = {"digits-softmax": ("softmax", "synth:digits", 5), "digits-network": (NETWORK, "synth:digits", 5),
         "digits-adam": (NETWORK, "synth:digits", 5, "--optimizer", "adam"),
         "clicks-logreg": ("logreg", CLICKS, 5), "clicks-fm": ("fm:8", CLICKS + "&interactions=1", 2),
         "clicks-deep": (DEEP, CLICKS + "&interactions=1", 2),
         "table-logreg": ("logreg", "table", 10), "table-fm": ("fm:8", "table", 5), "table-deep": (DEEP, "table", 5),
         "texts-logreg": ("logreg", "texts", 10), "texts-softmax": ("softmax", "topics", 5), "texts-fm": ("fm:4", "texts", 5)}
FACTORS = (0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100)
NEAR, WANTED, NOISE = 1.05, 10, 1.01
COLUMNS = (("work", "task", 16), ("yoke", "--lr auto", 22), ("peer", "best of the grid", 22), ("ratio", "default; search", 26), ("must", "must", 12))
found = []


def table(path, rows, seed):
    """Numbers of different scales, and categories; an interaction of both."""
    rng, effects = random.Random(seed), random.Random(0)
    cities = [effects.gauss(0, 1) for _ in range(300)]
    with open(path, "w") as f:
        f.write("age,income,visits,city,device,label\n")
        for _ in range(rows):
            age, income, visits = rng.uniform(18, 90), rng.lognormvariate(10, 0.8), rng.expovariate(0.2)
            city, device = min(int(rng.paretovariate(0.7)) - 1, 299), rng.randrange(4)
            z = 0.04 * (age - 50) + 0.8 * (math.log(income) - 10) * (1 if device < 2 else -1) + cities[city] + 0.1 * visits - 0.5
            f.write(f"{age:.1f},{income:.0f},{visits:.2f},c{city},d{device},{int(rng.random() < 1 / (1 + math.exp(-1.5 * z)))}\n")


def texts(path, rows, classes, seed):
    """Bags of words, of which the rarer ones are typical of a class; a tenth of the labels is random."""
    rng = random.Random(seed)
    with open(path, "w") as f:
        for _ in range(rows):
            topic, words = rng.randrange(classes), []
            for _ in range(rng.randrange(10, 60)):
                word = min(int(rng.paretovariate(0.6)), 30000)
                words.append(f"w{word - word % classes + topic if word > 20 and rng.random() < 0.3 else word}")
            label = topic if rng.random() < 0.9 else rng.randrange(classes)
            f.write(f"{label if classes > 2 else 2 * label - 1} | {' '.join(words)}\n")


def data_of(b, name):
    """Options for the data; makes the files."""
    if ":" in name:
        return ["--data", name]
    make = {"table": lambda path, rows, seed: table(path, rows, seed), "texts": lambda path, rows, seed: texts(path, rows, 2, seed),
            "topics": lambda path, rows, seed: texts(path, rows, 10, seed)}[name]
    end, rows = (".csv", 100000) if name == "table" else (".vw", 60000)
    paths = [os.path.join(b.directory, name + part + end) for part in ("", "-test")]
    for seed, path in enumerate(paths, 1):
        if not os.path.exists(path):
            make(path, rows // (1 if seed == 1 else 6), seed)
    spec = TABLE if name == "table" else "?bits=16"
    return ["--data", paths[0] + spec, "--test", paths[1] + spec]


def row_of(name):
    def row(b):
        model, data, epochs, *more = TASKS[name]
        options = ["--model", model, *data_of(b, data), "--epochs", str(epochs), "--no-stop-on-divergence", *more]
        default = b.train(*options)
        rates = {1: default["test_loss"]}
        for factor in FACTORS:
            lr = ",".join(f"{g['name']}={factor * g['lr']:.6g}" for g in default["groups"])
            rates[factor] = rates.get(factor) or b.train(*options, "--lr", lr)["test_loss"]
        # a loss that is not a number is null
        best, factor = min((loss, factor) for factor, loss in rates.items() if loss)
        auto = b.train(*options, "--lr", "auto")
        search, loss = auto["lr_search"], auto["test_loss"]
        near, harmless = loss <= NEAR * best, loss <= NOISE * rates[1]
        found.append((near, harmless))
        return [figure(name, f"{loss:.4f} at {search['lr']:g}", f"{best:.4f} at {factor:g} x", f"{rates[1]:.4f}; "
                       f"{100 * search['seconds'] / auto['train_seconds']:.0f} % of {auto['train_seconds']:.2f} s", "",
                       None if near and harmless else False if not harmless else None)]

    row.__doc__ = TASKS[name][0]
    return row


def total(b):
    """how many of the tasks above are within 5 %"""
    near = sum(good for good, _ in found)
    wanted = WANTED * len(found) // len(TASKS)
    return [figure("all", f"{near} of {len(found)} within 5 %", must=f">= {wanted}", ok=near >= wanted)]


if __name__ == "__main__":
    sys.exit(main({**{name: row_of(name) for name in TASKS}, "total": total}, __doc__, COLUMNS))
