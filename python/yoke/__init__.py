"""yoke: linear models, factorization machines and convolutional networks by distributed stochastic gradient descent.

    clf = yoke.LogisticRegression(epochs=3).fit(X, y)              # scikit-learn's conventions
    run = yoke.train("softmax", "idx:mnist", mode="async", workers=4)    # the options of the program `yoke train`
    run.curves["test_accuracy"], run.verdict, run.report()
    run = yoke.load("runs/clicks")                                 # any run directory

Only the estimators need scikit-learn, which is imported when the first of them is used.
"""
from ._native import DataError, Error, Model, ResourceError, TrainingError, UsageError, YokeWarning, lib as _lib
from ._run import Run, load, options, train, write_report as report
from ._sweep import sweep

__version__ = _lib.yoke_version().decode()
_ESTIMATORS = ("LogisticRegression", "SoftmaxRegression", "LinearRegression", "ClickModel", "ClickRegressor", "Network", "NetworkRegressor")
__all__ = ["train", "sweep", "load", "report", "options", "Run", "Model", *_ESTIMATORS,
           "Error", "TrainingError", "UsageError", "DataError", "ResourceError", "YokeWarning"]


def __getattr__(name):
    if name in _ESTIMATORS:
        from . import _estimators
        return getattr(_estimators, name)
    raise AttributeError(f"module 'yoke' has no attribute {name!r}")


def __dir__():
    return sorted(__all__ + ["__version__"])
