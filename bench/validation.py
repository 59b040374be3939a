"""Validation: ./dev bench validation.

300 generated digits, 150 epochs, --validation 0.2, 10 seeds of data and training. The kept model has the smallest validation loss of
its run. By how much is its test loss above the smallest one of the run, which only the test data could have found? Median of the
seeds; "last" is the same for the last model, which is kept without validation. The test set has 2,000 digits.
"""
import json
import os
import shutil
import statistics
import sys

from harness import figure, main

MODELS = {"softmax": ("--model", "softmax", "--lr", "0.5"),
          "network": ("--model", "dense 100, relu, dense 10", "--optimizer", "adam"),
          "network-sgd": ("--model", "dense 100, relu, dense 10", "--lr", "0.1")}
MUST, SEEDS = 0.05, range(1, 11)
COLUMNS = (("work", "model", 14), ("yoke", "best model", 12), ("peer", "last model", 12), ("ratio", "steps", 16), ("must", "must", 8))


def excess(b, options, seed):
    """The test loss of the best and of the last model, relative to the smallest one of the run; the steps of both."""
    run = os.path.join(b.directory, "run")
    b.run([b.yoke, "train", *options, "--data", f"synth:digits?examples=300&test=2000&seed={seed}", "--epochs", "150",
           "--validation", "0.2", "--seed", str(seed), "--quiet", "--out", run])
    with open(f"{run}/summary.json") as f:
        s = json.load(f)
    with open(f"{run}/metrics.jsonl") as f:
        curve = [e for e in map(json.loads, f) if e["kind"] == "eval" and e["step"]]
    shutil.rmtree(run)
    if abs(s["validation_loss"] - min(e["validation_loss"] for e in curve)) > 1e-6:
        raise RuntimeError(f"seed {seed}: another model than the best one was kept")
    least = min(e["test_loss"] for e in curve)
    return s["test_loss"] / least - 1, s["last_test_loss"] / least - 1, s["best_step"], s["steps"]


def row_of(name):
    def row(b):
        best, last, step, steps = map(statistics.median, zip(*(excess(b, MODELS[name], seed) for seed in SEEDS)))
        return [figure(name, f"+{100 * best:.1f} %", f"+{100 * last:.1f} %", f"{step:.0f} of {steps:.0f}", f"<= {100 * MUST:.0f} %",
                       best <= MUST)]

    row.__doc__ = " ".join(MODELS[name])
    return row


if __name__ == "__main__":
    sys.exit(main({name: row_of(name) for name in MODELS}, __doc__, COLUMNS))
