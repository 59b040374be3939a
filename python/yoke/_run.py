"""yoke.train() and yoke.load(): runs."""
import json
import os
import subprocess

import numpy as np

from . import _native, _notebook
from ._texts import in_python, summary_in_python
from ._train import Training, as_data, is_regression, until_true

CURVES = ("step", "examples", "epoch", "seconds", "train_loss", "test_loss", "test_accuracy", "test_auc", "majority_accuracy",
          "validation_loss", "validation_accuracy", "validation_auc")


class Run:
    """The result of a training run.

    summary     dict: what `yoke train --json` prints; its sentences name parameters of Python instead of options
    curves      dict of arrays, one element per evaluation: step, epoch, seconds, train_loss, test_loss, test_accuracy, ...
    metrics     dict: all metrics of the test set at the end: loss, auc, pr_auc, brier, calibration_error, macro_f1, ..., classes,
                confusion, reliability; those that are not defined are NaN. {}: there was no test set
    verdict     str: what limited the run; None if it is not known
    directory   str: the run directory; None with out="none"
    model       yoke.Model: the trained parameters; with validation data, those of the best model
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
    def metrics(self):
        return _native.as_metrics(self.summary.get("test_metrics") or {})

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
        """Class numbers; of a regression, numbers."""
        return self.model.probabilities(x)[:, 0] if self.model.regression else self.predict_proba(x).argmax(axis=1)

    def report(self, path=None):
        """Writes the HTML report and returns its path (default: report.html in the run directory)."""
        return write_report(self, path)

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
    """Writes one HTML page about one or more runs, like `yoke report`, and returns its path. Runs are run directories or yoke.Run."""
    if isinstance(directories, (str, bytes, os.PathLike, Run)):
        directories = [directories]
    directories = [d.directory if isinstance(d, Run) else d for d in directories]
    if None in directories:
        raise _native.UsageError("a report needs run directories; do not use out=\"none\"")
    words = [_native.PROGRAM, "report", "--quiet", *map(os.fsdecode, directories)]
    done = subprocess.run(words + (["--out", os.fspath(path)] if path else []), capture_output=True, text=True)
    if done.returncode:
        error = _native.ERRORS.get(done.returncode, _native.ResourceError)
        raise error(in_python(done.stderr.strip().removeprefix("yoke: error: ")))
    return done.stdout.strip().splitlines()[-1]


# Option names of other libraries, and yoke's names for them.
OTHER_NAMES = {"learning_rate": "lr", "batch_size": "batch", "n_epochs": "epochs", "max_iter": "epochs", "random_state": "seed",
               "n_jobs": "workers"}


def model_to_start_from(start):
    """A yoke.Model, from a model, a run, a fitted estimator or a path."""
    if isinstance(start, (str, bytes, os.PathLike)):
        return _native.Model.load(start)
    model = start.model if isinstance(start, Run) else getattr(start, "model_", start)
    if model is not None and not isinstance(model, _native.Model):
        raise _native.UsageError("start must be a yoke.Model, a run, a fitted estimator or the path of a model, not "
                                 f"{type(start).__name__}")
    return model


def check_options(data, test, callback, options):
    for name in options:
        if name in OTHER_NAMES:
            raise _native.UsageError(f"unknown option {name}; did you mean {OTHER_NAMES[name]}?")
    out = options.get("out")
    processes = [name for name in ("launch", "hosts", "hostfile", "join") if options.get(name) not in (None, 0, "0")]
    if callback is not None and processes and out == "none":
        raise _native.UsageError(f"callback: with {processes[0]}, metrics are read from the run directory, but out is \"none\"; "
                                 "give out=DIRECTORY")
    if options.get("resume") and out not in (None, "none"):
        config = read_config(os.fspath(out))
        if any(given is None and config.get(name) == "memory" for name, given in (("data", data), ("test", test))):
            raise _native.UsageError(f"{os.fspath(out)}: the run was trained on data in memory: pass model=, data= and test= again")


def hashes_keys(options):
    """Whether the library will hash column numbers: hash_bits is set, here or in the run that is resumed."""
    bits, out = options.get("hash_bits", options.get("hash-bits")), options.get("out")
    if bits is None and options.get("resume") and out not in (None, "none"):
        bits = read_config(os.fspath(out)).get("hash-bits")
    return bits not in (None, 0, "0")


def train(model=None, data=None, test=None, *, start=None, callback=None, progress=None, copy=True, fields=None, table=None, **options):
    """Trains, and returns a yoke.Run.

    model, data, test and **options are the options of `yoke train` (`yoke.options()` lists them), with _ for -: batch=100,
    mode="async", workers=4, eval_every=50, resume=True, lr={"keyed": 0.1}, class_weight={0: 1, 1: 5}.

    `data` and `test` are specs, as on the command line, or pairs (X, y) of a NumPy array or a SciPy CSR matrix, and the class
    numbers from 0, or frames (pandas, polars or pyarrow tables, or any object with `__arrow_c_stream__`), alone or as a pair
    (frame, label). The label is the name of a column or an array of class numbers. An object without a length, such as
    pyarrow.RecordBatchReader, is a stream, which is read once. (X, y, weights) also has the weight of each row, an array or, for a
    frame, the name of a column. Labels of regression (model="linear", loss="squared") are numbers.

    With hash_bits=B, the column numbers of a CSR matrix are keys of up to 64 bits, which are hashed into 2^B columns in the same way
    as keys in files; the matrix can have any number of columns. The model also hashes the column numbers of CSR matrices that it
    predicts or evaluates.

    validation  data to select the best model with: a fraction of `data`, such as 0.1, a spec, or a pair or frame like `test`;
                monitor="auc" selects by another metric than the loss, and patience=5 ends the run after 5 evaluations
                without improvement
    start       initial parameters: a yoke.Model, a run, a fitted estimator or a path
    callback    callback(metrics) is called with a dict after each evaluation; when it returns True, training ends, and it is not
                called again
    progress    True or False: whether to show progress (default: in notebooks and on terminals)
    copy        False: train on a CSR matrix in place, which takes less memory and may take longer
    fields      field number of each column of X, for models that use fields (wide-deep, deepfm, branches with embed)
    table       options of the frame `data`, as in a spec: {"scale": "standard", "encode": "onehot", "categorical": ["zip"]}

    Ctrl-C saves a checkpoint, unless out="none", and returns the run, whose summary has "interrupted": True.
    """
    check_options(data, test, callback, options)
    validation = options.get("validation")
    from_memory = {name for name, value in (("data", data), ("test", test), ("validation", validation))
                   if value is not None and not _native.is_spec(value) and not (name == "validation" and np.isscalar(value))}
    if fields is not None and not from_memory:
        raise _native.UsageError("fields: only a pair (X, y) needs them; other data has its own field numbers")
    if table and "data" not in from_memory:
        raise _native.UsageError("table: these options are only for frames; a spec contains its options, as in csv:FILE?scale=log")
    settings = {"model": model, "data": data, "test": test, **options}
    handle = _native.Options({name: value for name, value in settings.items() if name not in from_memory})
    hash_keys = hashes_keys(options)
    numbers = is_regression(model, options.get("loss"))
    training = Training(handle, as_data(data, _native.TRAIN, copy, fields, hash_keys, table, numbers) if "data" in from_memory else None,
                        as_data(test, _native.TEST, copy, fields, hash_keys, None, numbers) if "test" in from_memory else None,
                        model_to_start_from(start), validation=as_data(validation, _native.TEST, copy, fields, hash_keys, None, numbers)
                        if "validation" in from_memory else None)
    evaluations = []
    view = _notebook.view(progress, options)

    call = until_true(callback)

    def on_metrics(metrics):
        evaluations.append(metrics)
        view.metrics(metrics)
        return call(metrics)

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


def read_object(text, where):
    """A JSON object as a dict."""
    try:
        found = json.loads(text)
    except ValueError as error:
        raise _native.DataError(f"{where}: the file is damaged: {error}") from None
    if not isinstance(found, dict):
        raise _native.DataError(f"{where}: the file is damaged: not a JSON object")
    return found


def read_evaluations(directory):
    path = os.path.join(directory, "metrics.jsonl")
    found = []
    if os.path.exists(path):
        with open(path, "rb") as f:
            for number, line in enumerate(f, 1):
                if not line.endswith(b"\n"):
                    break  # being written
                entry = read_object(line, f"{path}: line {number}")
                if entry.get("kind") == "eval":
                    found.append(entry)
    return found


def read_config(directory):
    """The options in config.ini, as text; {}: there is no such file."""
    try:
        with open(os.path.join(directory, "config.ini"), errors="replace") as f:
            return dict(line.strip().split(" = ", 1) for line in f if " = " in line)
    except FileNotFoundError:
        return {}


def load(directory):
    """Opens a run directory, including those of the program `yoke`, of failed runs and of runs in progress, which have the
    state "unfinished"."""
    directory = os.fsdecode(directory)
    if not os.path.exists(os.path.join(directory, "config.ini")):
        raise _native.UsageError(f"{directory}: this is not a run directory: it has no config.ini")
    evaluations = read_evaluations(directory)
    path = os.path.join(directory, "summary.json")
    try:
        with open(path, "rb") as f:
            summary = summary_in_python(read_object(f.read(), path))
    except FileNotFoundError:  # in progress, or killed
        config = read_config(directory)
        summary = {"state": "unfinished", "model": config.get("model"), "data": config.get("data"),
                   "steps": evaluations[-1].get("step", 0) if evaluations else 0}
    return Run(summary, evaluations, directory)


def options():
    """The options of yoke.train(): a list of dicts with name, argument, group, help and default_text."""
    return [{"name": option.pop("name").replace("-", "_"), **{key: text and in_python(text) for key, text in option.items()}}
            for option in _native.option_table()]
