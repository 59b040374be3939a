"""Seconds of training until a network has 99 % test accuracy on MNIST: ./dev bench mnist99.

A small convolutional network, adam with a one-cycle schedule, images shifted by up to a pixel, 3 epochs in batches of 256, synchronous, with all cores: the mean of 10
seeds. The number of epochs was chosen so that the mean accuracy is above 99 %; the test set is evaluated once, after training, and its time does not count.
Needs the four files of MNIST in $YK_DATA/mnist.
"""
import json
import statistics
import sys

from harness import CORES, figure, main

LAYERS = "conv 6 5x5, maxpool 2, relu, conv 16 5x5, maxpool 2, relu, dense 100, relu, dense 10"
OPTIONS = ("--optimizer", "adam", "--lr", "0.01", "--lr-schedule", "one-cycle", "--init", "torch", "--augment", "crop:1", "--batch", "256", "--epochs", "3",
           "--eval-every", "1000000", "--sample-every", "0")
SEEDS, ACCURACY, SECONDS = range(1, 11), 0.99, 2.0


def mnist99(b):
    """99 % on MNIST: accuracy and seconds, mean of 10 seeds"""
    data = "idx:" + b.need_mnist()
    runs = [json.loads(b.run([b.yoke, "train", "--model", LAYERS, "--data", data, "--threads", str(min(CORES, 16)), *OPTIONS, "--seed",
                              str(seed), "--json", "--quiet", "--out", "none"]).splitlines()[-1]) for seed in SEEDS]
    accuracy, seconds, rate = (statistics.mean(run[name] for run in runs) for name in ("test_accuracy", "train_seconds", "examples_per_second"))
    return [figure(f"{CORES} cores", f"{100 * accuracy:.3f} %", f"{rate:,.0f} images/s", f"{seconds:.2f} s", f">= 99 % in {SECONDS:g} s",
                   accuracy >= ACCURACY and (seconds <= SECONDS if CORES >= 16 else None))]


if __name__ == "__main__":
    sys.exit(main({"mnist99": mnist99}, __doc__))
