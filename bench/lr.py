"""The search for the learning rate: ./dev bench lr.

Twelve tasks: digits, clicks, a table and texts, with linear models, factorization machines, a deep model and a network; eight with other
data; and 27 with which no constant of the search was chosen. Each is trained with nine learning rates, multiples of the default from 0.01 to 100, and with --lr auto: the test loss, and the time
of the search as a part of the time of loading and training. On five of six tasks, the loss must be within 5 % of the smallest one of the grid, and the loss of the
default must not be lower by more than 1 %. $YK_SEED is the seed (1). Handwritten digits need $YK_PEERS.
"""
import math
import os
import random
import sys

from harness import Skip, figure, main

NETWORK = "dense 64, relu, dense 10"
DEEP = "linear + fm 4 name=v + (embed 4 name=v, dense 32, relu, dense 1)"
CLICKS = "synth:ctr?features=50000&nnz=20&examples=200000&test=20000"
RARE = "synth:ctr?features=1000000&nnz=39&examples=100000&test=20000&positives=0.05&seed=3"
DENSE = "synth:ctr?features=500&nnz=8&examples=150000&test=20000&interactions=2&seed=4"
FASHION = "/usr/share/datasets/fashion-mnist"  # of the package dataset-fashion-mnist
TABLE = "?scale=standard&categorical=city,device"
# model, data, epochs, other options
TASKS = {"digits-softmax": ("softmax", "synth:digits", 5), "digits-network": (NETWORK, "synth:digits", 5),
         "digits-adam": (NETWORK, "synth:digits", 5, "--optimizer", "adam"),
         "clicks-logreg": ("logreg", CLICKS, 5), "clicks-fm": ("fm:8", CLICKS + "&interactions=1", 2),
         "clicks-deep": (DEEP, CLICKS + "&interactions=1", 2),
         "table-logreg": ("logreg", "table", 10), "table-fm": ("fm:8", "table", 5), "table-deep": (DEEP, "table", 5),
         "texts-logreg": ("logreg", "texts", 10), "texts-softmax": ("softmax", "topics", 5), "texts-fm": ("fm:4", "texts", 5)}
# other kinds of data; the constants of the search were chosen with these as well
OTHERS = {"fashion-softmax": ("softmax", "fashion", 5), "fashion-momentum": (NETWORK, "fashion", 3, "--optimizer", "momentum"),
          "scans-network": (NETWORK, "scans", 60), "scans-softmax": ("softmax", "scans", 100), "news-softmax": ("softmax", "news", 5),
          "prices-linear": ("linear", "prices", 10), "rare-fm": ("fm:8", RARE, 3), "dense-deep": (DEEP, DENSE, 2, "--optimizer", "adam")}
# tried only after the constants were chosen
CNN, SUMS = "conv 8 3x3, relu, maxpool 2, conv 16 3x3, relu, maxpool 2, dense 10", "conv 6 5x5, avgpool 2, tanh, dense 40, tanh, dense 10"
WIDE, DROPOUT = "dense 256, relu, dense 128, relu, dense 10", "dense 128, relu, dropout 0.5, dense 10"
FEW = "synth:digits?examples=2000&test=4000"


def clicks(features, entries, examples, seed, more=""):
    return f"synth:ctr?features={features}&nnz={entries}&examples={examples}&test=20000&seed={seed}{more}"


UNSEEN = {
    "lenet": ("lenet5", "synth:digits?examples=20000&test=4000", 2), "cnn-adam": (CNN, "mnist", 1, "--optimizer", "adam"),
    "wide-momentum": (WIDE, "mnist", 2, "--optimizer", "momentum", "--batch", "128"), "mnist-adagrad": (NETWORK, "mnist", 3, "--optimizer", "adagrad"),
    "mnist-adamw": (NETWORK, "mnist", 4, "--optimizer", "adamw", "--batch", "256"), "mnist-nesterov": (NETWORK, "mnist", 2, "--optimizer", "nesterov"),
    "dropout": (DROPOUT, "mnist", 4), "averages": (SUMS, "mnist", 1), "mnist-linear": ("softmax", "mnist", 2, "--optimizer", "adam"),
    "batch-1000": ("softmax", "mnist", 10, "--batch", "1000"), "few": (NETWORK, FEW, 40), "few-adam": (NETWORK, FEW, 40, "--optimizer", "adam"),
    "log-momentum": ("logreg", clicks(50000, 25, 200000, 21), 2, "--optimizer", "momentum"),
    "log-1000": ("logreg", clicks(50000, 25, 400000, 22), 5, "--batch", "1000"), "log-sparse": ("logreg", clicks(1000000, 60, 200000, 23), 2),
    "log-short": ("logreg", clicks(5000, 10, 50000, 24), 3), "fm-16": ("fm:16", clicks(30000, 20, 200000, 25, "&interactions=3"), 2),
    "fm-500": ("fm:8", clicks(100000, 20, 400000, 26, "&interactions=5"), 3, "--batch", "500"),
    "fm-rare": ("fm:4", clicks(50000, 20, 300000, 27, "&interactions=4&positives=0.03"), 3),
    "deepfm": ("deepfm:4", clicks(20000, 15, 200000, 28, "&interactions=6"), 2),
    "wide-deep": ("wide-deep:8", clicks(20000, 15, 200000, 29, "&interactions=2"), 2),
    "deep-adam": ("deepfm:8", clicks(20000, 15, 200000, 30, "&interactions=8"), 2, "--optimizer", "adam"),
    "topics-adagrad": ("softmax", "topics", 4, "--optimizer", "adagrad"), "news-adam": ("softmax", "news", 5, "--optimizer", "adam"),
    "texts-fm-adam": ("fm:4", "texts", 5, "--optimizer", "adam"), "scans-cosine": (NETWORK, "scans", 80, "--lr-schedule", "cosine"),
    "scans-momentum": ("dense 200, tanh, dense 10", "scans", 60, "--optimizer", "momentum")}
FACTORS = (0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100)
NEAR, WANTED, NOISE = 1.05, 10 / 12, 1.01
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


def texts(path, rows, seed, classes):
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


def news(path, rows, seed):
    """20 topics of different frequency with words of their own, beside common words; long and short texts."""
    rng = random.Random(100 + seed)
    with open(path, "w") as f:
        for _ in range(rows):
            topic = min(int(rng.expovariate(0.2)), 19)
            words = (f"t{topic}x{int(rng.expovariate(0.02))}" if rng.random() < 0.1 else f"c{int(rng.expovariate(0.001))}"
                     for _ in range(int(rng.lognormvariate(4, 1)) + 1))
            f.write(f"{topic} | {' '.join(words)}\n")


def prices(path, rows, seed):
    """A regression: numbers and a category; noise of a tenth."""
    rng, effects = random.Random(200 + seed), random.Random(0)
    areas = [effects.gauss(0, 1) for _ in range(50)]
    with open(path, "w") as f:
        f.write("rooms,size,year,area,label\n")
        for _ in range(rows):
            rooms, year, area = rng.randrange(1, 9), rng.uniform(1900, 2020), rng.randrange(50)
            size = rooms * rng.lognormvariate(3, 0.3)
            f.write(f"{rooms},{size:.1f},{year:.0f},a{area},{size / 100 + (year - 1960) / 60 + areas[area] + rng.gauss(0, 0.3):.4f}\n")


def scans(b):
    """The handwritten digits of scikit-learn: 1,797 images of 8 x 8 pixels."""
    path = os.path.join(b.directory, "scans.csv")
    if not os.access(b.peers, os.X_OK):
        raise Skip("no Python with scikit-learn (./dev peers makes one)")
    b.run([b.peers, "-c", "import sys; from sklearn.datasets import load_digits; d = load_digits(); "
           "print('label', *(f'p{i}' for i in range(64)), sep=',', file=(f := open(sys.argv[1], 'w'))); "
           "[print(y, *(v / 16 for v in x), sep=',', file=f) for x, y in zip(d.data, d.target)]", path])
    return ["--data", path + "?split=0.8", "--test", path + "?split=0.8..1"]


# what writes the file, its name, rows, what follows it in the spec
FILES = {"table": (table, ".csv", 100000, TABLE), "texts": (lambda *to: texts(*to, classes=2), ".vw", 60000, "?bits=16"),
         "topics": (lambda *to: texts(*to, classes=10), ".vw", 60000, "?bits=16"), "news": (news, ".vw", 20000, "?bits=15"),
         "prices": (prices, ".csv", 50000, "?scale=standard&categorical=area")}


def data_of(b, name):
    """Options for the data; makes the files."""
    if ":" in name:
        return ["--data", name]
    if name == "mnist":
        return ["--data", "idx:" + b.need_mnist()]
    if name == "fashion" and not os.path.isdir(FASHION):
        raise Skip(f"no {FASHION}")
    if name in ("fashion", "scans"):
        return ["--data", "idx:" + FASHION] if name == "fashion" else scans(b)
    make, end, rows, spec = FILES[name]
    paths = [os.path.join(b.directory, name + part + end) for part in ("", "-test")]
    for seed, path in enumerate(paths, 1):
        if not os.path.exists(path):
            make(path, rows // (1 if seed == 1 else 6), seed)
    return ["--data", paths[0] + spec, "--test", paths[1] + spec]


def loss_of(b, *options):
    """The test loss; None if training diverged, or if it is not a number."""
    try:
        return b.train(*options)["test_loss"]
    except RuntimeError as failed:
        if "training diverged" not in str(failed):
            raise
        return None


def row_of(name, tasks):
    def row(b):
        model, data, epochs, *more = tasks[name]
        options = ["--model", model, *data_of(b, data), "--epochs", str(epochs), "--no-stop-on-divergence", *more]
        default = b.train(*options)
        rates = {1: default["test_loss"]}
        for factor in FACTORS:
            lr = ",".join(f"{g['name']}={factor * g['lr']:.6g}" for g in default["groups"])
            rates[factor] = rates.get(factor) or loss_of(b, *options, "--lr", lr)
        best, factor = min((loss, factor) for factor, loss in rates.items() if loss)
        auto = b.train(*options, "--lr", "auto")
        search, loss = auto["lr_search"], auto["test_loss"]
        near, harmless = loss <= NEAR * best, loss <= NOISE * rates[1]
        found.append((near, harmless))
        seconds = auto["load_seconds"] + auto["train_seconds"]
        return [figure(name, f"{loss:.4f} at {search['lr']:g}", f"{best:.4f} at {factor:g} x", f"{rates[1]:.4f}; "
                       f"{100 * search['seconds'] / seconds:.0f} % of {seconds:.2f} s", "",
                       None if near and harmless else False if not harmless else None)]

    row.__doc__ = tasks[name][0]
    return row


def total(b):
    """how many of the tasks above are within 5 %"""
    near = sum(good for good, _ in found)
    wanted = math.floor(WANTED * len(found))
    return [figure("all", f"{near} of {len(found)} within 5 %", must=f">= {wanted}", ok=near >= wanted)]


if __name__ == "__main__":
    sys.exit(main({**{name: row_of(name, tasks) for tasks in (TASKS, OTHERS, UNSEEN) for name in tasks}, "total": total}, __doc__, COLUMNS))
