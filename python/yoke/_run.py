"""yoke.train() and yoke.load(): runs."""
import json
import os
import subprocess

import numpy as np

from . import _native, _notebook
from ._train import Training, as_data

CURVES = ("step", "examples", "epoch", "seconds", "train_loss", "test_loss", "test_accuracy", "test_auc", "majority_accuracy")


class Run:
    """The result of a training run.

    summary     dict: what `yoke train --json` prints
    curves      dict of arrays, one element per evaluation: step, epoch, seconds, train_loss, test_loss, test_accuracy, ...
    verdict     str: what limited the run; None if it is not known
    directory   str: the run directory; None with out="none"
    model       yoke.Model: the trained parameters
    """

    def __init__(self, summary, evaluations, directory=None, text="", model=None):
        self.summary = summary
        self.directory = directory
        self.text = text
        self._model = model
        self.curves = {name: np.array([np.nan if e.get(name) is None else e[name] for e in evaluations], float)
                       for name in CURVES}
        for name in ("step", "examples"):
            self.curves[name] = self.curves[name].astype(np.int64)

    @property
    def verdict(self):
        return self.summary.get("verdict")

    @property
    def model(self):
        if self._model is None:
            if not self.directory:
                raise _native.UsageError("the run has no model: it was a dry run, failed, or wrote no run directory (out)")
            self._model = _native.Model.load(self.directory)
        return self._model

    def predict_proba(self, x):
        """Probabilities, [rows][classes], for a matrix, an array of images, or a data spec."""
        p = self.model.probabilities(x)
        return np.hstack([1 - p, p]) if p.shape[1] == 1 else p

    def predict(self, x):
        """Class numbers."""
        return self.predict_proba(x).argmax(axis=1)

    def report(self, path=None):
        """Writes the HTML report and returns its path (default: report.html in the run directory)."""
        if not self.directory:
            raise _native.UsageError("a report needs a run directory; do not use out=\"none\"")
        return write_report([self.directory], path)

    def __getitem__(self, name):
        return self.summary[name]

    def __repr__(self):
        accuracy = self.summary.get("test_accuracy")
        return (f"<yoke.Run {self.summary.get('model')} on {self.summary.get('data')}: {self.summary.get('steps')} steps"
                + (", unfinished" if self.summary.get("state") == "unfinished" else "")
                + (f", test accuracy {accuracy:.4f}" if accuracy is not None else "")
                + (f", {self.directory}" if self.directory else "") + ">")

    def _repr_html_(self):
        return _notebook.html_of_run(self)


def write_report(directories, path=None):
    """`yoke report`: writes one HTML page about run directories. Returns its path."""
    words = [_native.PROGRAM, "report", "--quiet", *map(os.fspath, directories)]
    done = subprocess.run(words + (["--out", os.fspath(path)] if path else []), capture_output=True, text=True)
    if done.returncode:
        error = _native.ERRORS.get(done.returncode, _native.ResourceError)
        raise error(done.stderr.strip().removeprefix("yoke: error: "))
    return done.stdout.strip().splitlines()[-1]


def train(model=None, data=None, test=None, *, start=None, callback=None, progress=None, copy=True, fields=None, **options):
    """Trains, and returns a yoke.Run.

    model, data, test and **options are the options of `yoke train` (`yoke.options()` lists them), with _ for -: batch=100,
    mode="async", workers=4, eval_every=50, resume=True. `data` and `test` are specs, as on the command line, or pairs (X, y) of
    a NumPy array, a SciPy CSR matrix or a DataFrame, and the class numbers from 0.

    start       a yoke.Model: initial parameters
    callback    callback(metrics) is called with a dict after each evaluation; training ends when it returns True
    progress    True or False: whether to show progress (default: in notebooks and on terminals)
    copy        False: train on a CSR matrix in place, which takes less memory and may take longer
    fields      field number of each column of X, for models that use fields (wide-deep, deepfm, branches with embed)

    Ctrl-C saves a checkpoint, unless out="none", and returns the run, whose summary has "interrupted": True.
    """
    from_memory = {name for name, value in (("data", data), ("test", test)) if value is not None and not _native.is_spec(value)}
    if fields is not None and not from_memory:
        raise _native.UsageError("fields: only a pair (X, y) needs them; other data has its own field numbers")
    settings = {"model": model, "data": data, "test": test, **options}
    handle = _native.Options({name: value for name, value in settings.items() if name not in from_memory})
    training = Training(handle, as_data(data, _native.TRAIN, copy, fields) if "data" in from_memory else None,
                        as_data(test, _native.TEST, copy, fields) if "test" in from_memory else None, start)
    evaluations = []
    view = _notebook.view(progress, options)

    def on_metrics(metrics):
        evaluations.append(metrics)
        view.metrics(metrics)
        return callback is not None and bool(callback(dict(metrics)))

    try:
        finished = training.run(on_metrics, view.progress if view.wanted else None, view.close)
    except BaseException:
        view.fail()
        raise
    finally:
        view.close()
    directory = finished.directory
    if directory:
        evaluations = read_evaluations(directory) or evaluations
    if finished.model is not None:
        finished.model.fields = fields
    run = Run(finished.summary, evaluations, directory, finished.text, finished.model)
    view.finish(run)
    return run


def read_evaluations(directory):
    path = os.path.join(directory, "metrics.jsonl")
    found = []
    if os.path.exists(path):
        with open(path) as f:
            for line in f:
                if not line.endswith("\n"):
                    break  # being written
                entry = json.loads(line)
                if entry.get("kind") == "eval":
                    found.append(entry)
    return found


def load(directory):
    """Opens a run directory, including those of the program `yoke`, of failed runs and of runs in progress, which have the
    state "unfinished"."""
    directory = os.fspath(directory)
    if not os.path.exists(os.path.join(directory, "config.ini")):
        raise _native.UsageError(f"{directory}: this is not a run directory: it has no config.ini")
    evaluations = read_evaluations(directory)
    try:
        with open(os.path.join(directory, "summary.json")) as f:
            summary = json.load(f)
    except FileNotFoundError:  # in progress, or killed
        with open(os.path.join(directory, "config.ini")) as f:
            config = dict(line.strip().split(" = ", 1) for line in f if " = " in line)
        summary = {"state": "unfinished", "model": config.get("model"), "data": config.get("data"),
                   "steps": evaluations[-1]["step"] if evaluations else 0}
    return Run(summary, evaluations, directory)


def options():
    """The options of yoke.train(): a list of dicts with name, argument, group, help and default_text."""
    return _native.option_table()
