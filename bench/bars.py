"""The settings of BARS, beside PyTorch: ./dev bench bars.

Generated clicks: 20 fields, 20,000 keys, 360,000 training, 40,000 validation and 50,000 test rows. Batch 4096, adam with learning rate
1e-3 for all parameters, vectors of 10 numbers, after an epoch without a better validation AUC a tenth of the learning rate, and the
end after two (BARS, the benchmark of click models; its code is FuxiCTR). Test AUC of the best model by validation, mean of the seeds.
PyTorch, with the initial values and the sparse adam of yoke, runs with $YK_PEERS/bin/python.
"""
import json
import os
import statistics
import sys

from click_peers import BATCH, EPOCHS, WIDTH
from harness import HERE, Skip, figure, main

CLICKS = "synth:ctr?features=20000&nnz=20&examples=400000&test=50000&interactions=1"
MODELS = {"logreg": "logreg", "fm": f"fm:{WIDTH}", "deepfm": f"deepfm:{WIDTH}"}
MUST = 0.002


def clicks(b):
    """Training, validation and test data in files, made once."""
    paths = [os.path.join(b.directory, f"bars-{name}.cache") for name in ("train", "validation", "test")]
    if paths[0] not in b.made:
        for path, split, rows in zip(paths, ("train", "train", "test"), ("&split=0.9", "&split=0.9..1", "")):
            b.run([b.yoke, "data", "gen", CLICKS + rows, "--split", split, "--out", path, "--quiet"])
        b.made[paths[0]] = paths
    return paths


def ours(b, name, seed):
    train, validation, test = (f"cache:{path}" for path in clicks(b))
    out = b.run([b.yoke, "train", "--model", MODELS[name], "--data", train, "--validation", validation, "--test", test, "--batch",
                 str(BATCH), "--optimizer", "adam", "--lr", "0.001", "--lr-schedule", "plateau", "--monitor", "auc", "--patience", "2",
                 "--epochs", str(EPOCHS), "--threads", "1" if name == "logreg" else str(os.cpu_count()), "--seed", str(seed), "--json", "--quiet", "--out", "none"])
    return json.loads(out.splitlines()[-1])


def row_of(name):
    def row(b):
        seeds = range(1, 1 + b.rounds)
        runs = [ours(b, name, seed) for seed in seeds]
        us = statistics.mean(run["test_auc"] for run in runs)
        said = f"AUC {us:.4f}, {statistics.mean(run['epochs'] for run in runs):.0f} epochs"
        if not os.access(b.peers, os.X_OK):
            raise Skip("no Python with the peers (./dev peers makes one)")
        found = json.loads(b.run([b.peers, os.path.join(HERE, "click_peers.py"), "bars", name, *clicks(b), *map(str, seeds)]).splitlines()[-1])
        them = statistics.mean(found["auc"])
        return [figure(name, said, f"AUC {them:.4f}, {statistics.mean(found['epochs']):.0f} epochs ({found['version']})", f"{us - them:+.4f}",
                       f">= -{MUST}", us - them >= -MUST)]

    row.__doc__ = f"{MODELS[name]}, {BATCH} rows per batch, adam"
    return row


if __name__ == "__main__":
    sys.exit(main({name: row_of(name) for name in MODELS}, __doc__))
