"""Measures the test loss of sparse logistic regression by optimizer, learning rate and kind of job, after the same examples.

    ./dev bench convergence                  all optimizers, 3 to 4 minutes on 16 cores
    ./dev bench convergence adagrad ftrl     some of them

One epoch of 2 M examples, 33,762,578 features, 39 non-zeros with a power law, batch 100, asynchronous: with one thread, with 16
threads of one process, and with 4 processes of 4 threads. Learning rates cover two decades, with the best in the middle. The loss may be at most 0.002 above
that of one thread. It is the worse of two runs, because threads take turns in a different order each time. With fewer than 16
cores the threads share them, which makes copies older: a loss that is ok is ok, one that is not should be measured again on
16 cores.
"""
import sys

from harness import CORES, CTR, figure, main

EXAMPLES = 2_000_000
ALLOWED = 0.002
RATES = {"sgd": (0.03, 0.1, 0.3, 1, 3), "momentum": (0.003, 0.01, 0.03, 0.1, 0.3), "adagrad": (0.003, 0.01, 0.03, 0.1, 0.3),
         "adam": (0.0001, 0.0003, 0.001, 0.003, 0.01), "ftrl": (0.03, 0.1, 0.3, 1, 3)}
COLUMNS = (("work", "optimizer, learning rate", 26), ("must", "1 thread", 10), ("yoke", "16 threads", 20),
           ("peer", "4 x 4 threads", 20))
DIVERGED = float("inf")


def loss(b, optimizer, rate, *job):
    """The test loss; infinite where training diverges."""
    try:
        s = b.train("--model", "logreg", "--data", f"{CTR}&examples={EXAMPLES}&seed=1", "--optimizer", optimizer, "--lr",
                    str(rate), "--batch", "100", "--epochs", "1", "--mode", "async", "--eval-every", "1000000000", *job)
    except RuntimeError as broken:
        if "diverge" not in str(broken):
            raise
        return DIVERGED
    return s["test_loss"]


def row_of(optimizer):
    def row(b):
        rows = []
        for rate in RATES[optimizer]:
            alone = loss(b, optimizer, rate)
            together = [max(loss(b, optimizer, rate, *job) for _ in range(min(b.rounds, 2)))
                        for job in (("--workers", "16"), ("--launch", "4", "--workers", "4"))]
            texts = ["diverged" if t == DIVERGED else f"{t:.4f} ({t - alone:+.4f})" for t in together]
            rows.append(figure(f"{optimizer}, {rate:g}", *texts, must="diverged" if alone == DIVERGED else f"{alone:.4f}",
                               ok=max(together) <= alone + ALLOWED))
        return rows

    row.__doc__ = f"{optimizer}, learning rates {', '.join(f'{r:g}' for r in RATES[optimizer])}"
    return row


ROWS = {optimizer: row_of(optimizer) for optimizer in RATES}

if __name__ == "__main__":
    if CORES < 16:
        print(f"{CORES} cores for 16 threads: they share them")
    sys.exit(main(ROWS, __doc__, COLUMNS))
