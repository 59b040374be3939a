"""Estimators with scikit-learn's conventions."""
import contextlib
import inspect
import numbers
import os
import re
import types

import numpy as np

from . import _frames, _native
from ._train import Training, class_names, until_true

try:
    from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
    from sklearn.utils import check_consistent_length, check_random_state, column_or_1d
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import check_is_fitted, validate_data
except ImportError as missing:
    raise ImportError("the estimators of yoke need scikit-learn 1.6 or newer: pip install 'scikit-learn>=1.6'") from missing


def _classes_of(y):
    """The classes in ascending order, and the class number of each label. Integers in a small range are not sorted."""
    if y.dtype.kind in "iu" and y.size and int(y.max()) - int(y.min()) < 65536:
        least = y.min()  # y - least can exceed the range of its type, but not that of the unsigned type
        offset = ((y - least).view(f"u{y.itemsize}") if least else y).astype(np.intp, copy=False)
        found = np.flatnonzero(np.bincount(offset))
        classes = (found.astype(y.dtype) + least).astype(y.dtype)  # modulo 2^bits
        if found.size == found[-1] + 1:
            return classes, offset.astype(np.int32)
        number = np.zeros(found[-1] + 1, np.int32)
        number[found] = np.arange(found.size)
        return classes, number[offset]
    check_classification_targets(y)
    classes, labels = np.unique(y, return_inverse=True)
    return classes, labels.astype(np.int32)


_STEPS = 1000  # minimum number of steps if epochs is None

# Parameters of the constructors with these names are passed on.
_OPTIONS = {option["name"].replace("-", "_") for option in _native.option_table()} - {"warm_start"}


def _count(value, default):
    """The value of an option, as a number: 16, 16.0 or "16"."""
    try:
        return max(1, int(float(value)))
    except (TypeError, ValueError):
        return default


@contextlib.contextmanager
def _unchanged_on_failure(estimator):
    """A fit that fails or is interrupted leaves the estimator as it was."""
    before = dict(vars(estimator))
    try:
        yield
    except BaseException:
        vars(estimator).clear()
        vars(estimator).update(before)
        raise


def _is_sparse(X):
    return getattr(X, "format", None) == "csr"


def _products(X, coef):
    """X @ coef.T, computed so that the result for a row depends only on that row. A BLAS library adds the terms of a row in an
    order that depends on the position of the row in the matrix. einsum does not, as long as the columns fit into its buffer
    (np.getbufsize())."""
    if _is_sparse(X):
        return X @ coef.T
    columns = 4096
    return sum(np.einsum("ij,kj->ik", X[:, i:i + columns], coef[:, i:i + columns]) for i in range(0, X.shape[1], columns))


_NUMBERS = {"bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64"}


def _column_types(X, named):
    """The types of a frame's columns, except those in `named`; {"stream"} for a stream, which must not be read here."""
    return {"stream"} if _frames.rows_of(X) is None else {kind for name, kind in _native.Data(X).columns if name not in named}


def _split_off(X, *given):
    """X without the columns that are given by name, and their values; other arguments are returned unchanged."""
    named = [name for name in given if isinstance(name, str)]
    if not named:
        return X, *given
    values = [_frames.column(X, value) if isinstance(value, str) and _frames.is_frame(X) else value for value in given]
    missing = [name for name, value in zip(given, values) if isinstance(name, str) and (value is None or value is name)]
    if missing:
        raise _native.UsageError(f"X has no column {missing[0]!r}: pass the values of y and sample_weight, or names of columns of a frame")
    rest = [name for name, _ in _native.Data(X).columns if name not in named]
    return X[rest] if _frames.is_pandas(X) else X.select(rest), *values


def _both_classes(p):
    """p with one column for each class: a model with one output returns only that of class 1."""
    if p.shape[1] > 1:
        return p
    both = np.empty((p.shape[0], 2), np.float32)
    both[:, 1] = p[:, 0]
    np.subtract(1, p[:, 0], out=both[:, 0])
    return both


def _constructor(first=None, **parameters):
    """An __init__ that sets an attribute for each parameter, given with its default; `first` may be positional."""
    kinds = inspect.Parameter
    signature = inspect.Signature([kinds("self", kinds.POSITIONAL_OR_KEYWORD)] + [
        kinds(name, kinds.POSITIONAL_OR_KEYWORD if name == first else kinds.KEYWORD_ONLY, default=default)
        for name, default in parameters.items()])

    def __init__(self, *args, **given):
        try:
            bound = signature.bind(self, *args, **given)
        except TypeError as error:
            raise TypeError(f"{type(self).__name__}.__init__() {error}") from None
        bound.apply_defaults()
        vars(self).update((name, value) for name, value in bound.arguments.items() if name != "self")

    __init__.__signature__ = signature
    return __init__


_STEP = {"epochs": None, "batch": 16, "lr": None, "optimizer": "sgd", "l1": 0.0, "l2": 0.0, "momentum": None,
         "lr_schedule": None, "lr_decay": None, "lr_decay_every": None, "warm_up": None, "clip_norm": None, "shuffle": True,
         "mode": "sync", "staleness": None, "workers": 1}
_KEYED = {"fit_intercept": True, "hash_bits": None, "copy": True}  # of models for sparse data
_END = {"early_stopping": False, "validation_fraction": 0.1, "n_iter_no_change": 5, "warm_start": False, "verbose": False,
        "callback": None, "table": None, "random_state": None}


def _as_csr(X):
    if _is_sparse(X):
        return X
    from scipy.sparse import csr_matrix
    return csr_matrix(X)


def _print_metrics(metrics):
    losses = [f"{name.split('_')[0]} loss {metrics[name]:.6g}" for name in ("train_loss", "validation_loss") if metrics[name] == metrics[name]]
    print(f"epoch {metrics['epoch']:g}, step {metrics['step']}: " + ", ".join(losses), flush=True)


class _Estimator(BaseEstimator):
    """What classifiers and regressors share. A mixin has _labels_of(), _outputs() and what follows from the kind of labels."""

    _sparse = True
    _types = np.float32
    _epochs = 5  # default number of epochs; small data gets more
    # parameters that yoke.train() calls by another name
    _names = {"seed": "random_state", "validation": "validation_fraction", "patience": "n_iter_no_change",
              "no-bias": "fit_intercept", "no-shuffle": "shuffle"}

    def __init_subclass__(cls, **others):
        """Inherited methods become functions of public classes, because a TypeError names the class of the function."""
        super().__init_subclass__(**others)
        if cls.__name__.startswith("_"):
            return
        for name, f in [item for base in cls.__mro__[1:] if base.__module__ == __name__ for item in vars(base).items()]:
            if isinstance(f, types.FunctionType) and name not in vars(cls) and (name == "__init__" or not name.startswith("_")):
                own = types.FunctionType(f.__code__, f.__globals__, name, f.__defaults__, f.__closure__)
                own.__kwdefaults__, own.__doc__, own.__qualname__ = f.__kwdefaults__, f.__doc__, f"{cls.__name__}.{name}"
                setattr(cls, name, own)

    def _model_text(self, classes):
        raise NotImplementedError

    def _image(self):
        return None

    # ---- training

    def _options(self, epochs):
        given = {name: getattr(self, name) for name in self._get_param_names() if name in _OPTIONS}
        seed = self.random_state
        if seed is not None and not isinstance(seed, numbers.Integral):
            seed = check_random_state(seed).randint(2**31 - 1)
        if self.early_stopping:
            given.update(validation=self.validation_fraction, patience=self.n_iter_no_change)
        given.update({"no-shuffle": not self.shuffle, "no-bias": not getattr(self, "fit_intercept", True)})
        return {**given, **self._label_options(), "model": self._model_text(self._outputs()), "epochs": epochs, "seed": seed,
                "test": "none", "out": "none", "sample-every": 0, "no-stop-on-divergence": True}  # fit() warns, but returns a model

    def _hashes(self):
        """Whether column numbers are keys to be hashed. Rows are sparse then."""
        return getattr(self, "hash_bits", None) not in (None, 0, "0")

    def _train(self, X, labels, weights, epochs, start, keep_state):
        fields = getattr(self, "fields", None)
        data = _native.Data(X, labels, image=self._image(), copy=getattr(self, "copy", True), fields=fields, weights=weights,
                            hash_keys=self._hashes(), **self._label_kind())
        return self._train_on(data, epochs, start, keep_state, fields, _is_sparse(X))

    def _evaluated(self):
        """What to do after each evaluation, at the end of an epoch; None: nothing."""
        if self.callback is None and not self.verbose:
            return None
        call = until_true(self.callback)

        def evaluated(metrics):
            if self.verbose:
                _print_metrics(metrics)
            return call(metrics)
        return evaluated

    def _train_on(self, data, epochs, start, keep_state, fields=None, sparse=False):
        self._framed = data.columns is not None
        # GridSearchCV keeps all cores busy; that is no reason for a warning per fit
        names = self._names if self.early_stopping else {**self._names, "validation": "early_stopping=True"}
        training = Training(_native.Options(self._options(epochs), names), data, start=start, ignored=("busy_host",),
                            names=names, keep_state=keep_state)
        finished = training.run(self._evaluated())
        if training.interrupted:
            raise KeyboardInterrupt
        self.model_ = finished.model
        self.model_.fields = fields
        self._optimizer = self.optimizer  # whose state the model has
        self.summary_ = finished.summary
        self._sparse_rows = sparse
        if self._framed and start is None:
            names = [c["name"] for c in self.model_.schema["columns"] if c["role"] in ("numeric", "categorical")]
            self.feature_names_in_, self.n_features_in_ = np.array(names, object), len(names)
        return self

    # ---- frames

    def _table(self):
        """The options of a frame."""
        return dict(self.table or {})

    def _is_frame(self, X, named=()):
        """Whether X is handled as a frame, not as a matrix. named: columns that are not features."""
        return _frames.is_frame(X)

    def _framed_data(self, X, y, weights=None, first=True):
        """Data from a frame, its label y, and its weights, each an array or the name of a column. `first`: it determines the classes."""
        name = y if isinstance(y, str) else _frames.label_name(X, y)
        values = _frames.column(X, y) if isinstance(y, str) else y
        given = {"fields": getattr(self, "fields", None), "table": self._table() if first else {}}
        if isinstance(weights, str):
            given["table"]["weight"] = weights
        elif weights is not None:
            given["weights"] = self._weights_of(_frames.rows_of(X), weights)
        if isinstance(y, str) and values is None and _frames.rows_of(X) is not None:
            raise _native.UsageError(f"the frame has no column {y!r}, which y names as the label")
        if values is None:  # a stream
            if y is None:
                raise _native.UsageError("y is None: pass the labels, or the name of the label column")
            given["table"].update(self._stream_label(y, first))
            return _native.Data(X, **given)
        if _frames.rows_of(X) is None:
            raise _native.UsageError("the label of a stream must be one of its columns: pass the name of the column as y")
        _native.check_present(values)
        values = column_or_1d(values, warn=True)
        check_consistent_length(X, values)
        return _native.Data(X, self._labels_of(values, first), label=name, **self._label_kind(names=True), **given)

    def _framed_probabilities(self, X, raw=False):
        """The probabilities for a frame; None: X must be handled as a matrix."""
        if not getattr(self, "_framed", False):
            return None
        if _frames.is_frame(X):
            return self.model_.probabilities(X, raw)
        schema = self.model_.schema
        if schema.get("scale", "none") != "none" or any(c["role"] == "categorical" for c in schema["columns"]):
            raise _native.UsageError("this estimator was fitted on a frame with categories or scaled columns: pass a frame with the "
                                     "columns " + ", ".join(self.feature_names_in_[:10]))
        return None

    def _check(self, X, **others):
        if _is_sparse(X):
            others["ensure_all_finite"] = False  # the library checks its rows
        checked = validate_data(self, X, accept_sparse="csr" if self._sparse else False, order="C", **{"dtype": self._types, **others})
        if not self._hashes():
            return checked
        return (_as_csr(checked[0]), *checked[1:]) if isinstance(checked, tuple) else _as_csr(checked)

    def fit(self, X, y, sample_weight=None):
        """Trains on X (array, CSR matrix or frame), the labels y and the weights of the rows; for a frame, y and sample_weight may be
        names of columns. Returns self."""
        with _unchanged_on_failure(self):
            self._check_validation()
            return self._fit(X, y, sample_weight, not (self.warm_start and hasattr(self, "model_")), self.epochs)

    def _check_validation(self):
        fraction = self.validation_fraction
        try:
            good = 0 < float(str(fraction).removeprefix("last:")) < 1
        except ValueError:
            good = False
        if not good:
            raise _native.UsageError(f"validation_fraction={fraction!r}: must be a number between 0 and 1, such as 0.1; "
                                     '"last:0.1" holds back the last rows')
        if isinstance(self.n_iter_no_change, numbers.Real) and self.n_iter_no_change < 1:
            raise _native.UsageError(f"n_iter_no_change={self.n_iter_no_change!r}: must be at least 1; with None, training does not "
                                     "stop early")

    def _fit(self, X, y, sample_weight, first, epochs, keep_state=2):
        """first: begin with a new model, otherwise with model_. keep_state: see yoke_training in yoke.h."""
        named = [name for name in (y, sample_weight) if isinstance(name, str)]
        framed = self._is_frame(X, named) if first else self._framed and _frames.is_frame(X)
        if not first and self._framed and not framed:
            raise _native.UsageError("this estimator was fitted on a frame: pass a frame with the columns "
                                     + ", ".join(self.feature_names_in_[:10]))
        start = None if first else self.model_
        if framed:
            data = self._framed_data(X, y, sample_weight, first)
            if epochs is None:
                epochs = 1 if data.rows is None else self._default_epochs(max(1, data.rows))
            return self._train_on(data, epochs, start, keep_state)
        X, y, sample_weight = _split_off(X, y, sample_weight)
        _native.check_present(y)
        X, y = self._check(X, y=y, reset=first)
        labels = self._labels_of(y, first)
        if epochs is None:
            epochs = self._default_epochs(len(labels))
        return self._train(X if first else self._as_trained(X), labels, self._weights_of(X.shape[0], sample_weight), epochs, start, keep_state)

    def _weights_of(self, rows, sample_weight):
        return np.full(rows, sample_weight, np.float32) if rows and isinstance(sample_weight, numbers.Number) else sample_weight

    def _default_epochs(self, rows):
        examples = _count(self.batch, 64)  # per step
        if self.staleness in (None, -1, "-1"):
            synchronous = self.mode != "async"
        else:
            synchronous = str(self.staleness) == "0" or "=" in str(self.staleness)
        if synchronous:
            cores = len(os.sched_getaffinity(0)) // _count(getattr(self, "threads", 1), 1)
            examples *= max(1, cores) if self.workers == "auto" else _count(self.workers, 1)
        return max(self._epochs, -(-_STEPS * examples // rows))

    def _partial_fit(self, X, y, sample_weight):
        if self.early_stopping:
            raise ValueError("partial_fit does not support early_stopping=True: it has no validation data")
        if self.lr_schedule in ("cosine", "one-cycle", "plateau"):
            raise ValueError(f"partial_fit does not support lr_schedule={self.lr_schedule!r}: use 'constant', 'step' or 'inverse'")
        same = self.optimizer == getattr(self, "_optimizer", self.optimizer)
        return self._fit(X, y, sample_weight, not hasattr(self, "model_"), 1, keep_state=1 if same else 2)

    def _as_trained(self, X):
        """X as an array or a CSR matrix, whichever the model was trained on."""
        if _is_sparse(X) and not self._sparse_rows:
            return X.toarray()
        return _as_csr(X) if self._sparse_rows else X

    # ---- use

    def _predictions(self, X):
        """[rows][outputs]: probabilities, or numbers."""
        check_is_fitted(self)
        p = self._framed_probabilities(X)
        if p is not None:
            return p
        X = self._check(X, reset=False)
        if _is_sparse(X) and not self._sparse_rows:  # a block of rows at a time needs little memory
            block = max(1, 2**22 // X.shape[1])
            return np.concatenate([self._predictions(X[i:i + block].toarray()) for i in range(0, X.shape[0], block)])
        X = self._as_trained(X)
        return self.model_.probabilities_of_csr(X, self._columns()) if _is_sparse(X) else self.model_.probabilities(X)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self._sparse
        return tags


class _Classifier(ClassifierMixin):
    def _outputs(self):
        return len(self.classes_)

    _columns = _outputs

    def _label_kind(self, names=False):
        return {"classes": len(self.classes_), **({"class_names": class_names(self.classes_)} if names else {})}

    def _label_options(self):
        weight = self.class_weight
        if weight is None or isinstance(weight, str) and weight == "balanced":
            return {}
        if not isinstance(weight, dict):
            raise ValueError(f'class_weight={weight!r}: use {{class: weight}}, "balanced" or None')
        known = {name: number for number, name in enumerate(self.classes_.tolist())}
        unknown = [name for name in weight if name not in known]
        if unknown:
            raise ValueError(f"class_weight: {unknown[0]!r} is not one of the classes {list(known)}")
        negative = [name for name, value in weight.items() if not value >= 0]
        if negative:
            raise ValueError(f"class_weight={weight!r}: the weight of {negative[0]!r} must be at least 0")
        names = self._framed and class_names(self.classes_) or range(len(self.classes_))  # frames have names
        return {"class_weight": ",".join(f"{names[known[name]]}={float(value)!r}" for name, value in weight.items()) or None}

    def _stream_label(self, y, first):
        """The label of a stream."""
        if not hasattr(self, "classes_") or first and not self._given:
            self.classes_ = np.arange(2)
        return {"label": y, "classes": len(self.classes_)}

    def _labels_of(self, y, first):
        """Class numbers. `first`: y determines the classes, unless partial_fit was given them."""
        if first and not self._given:
            self.classes_, labels = _classes_of(y)
            self._check_classes("the data has")
            return labels
        labels = np.searchsorted(self.classes_, y)
        known = labels < len(self.classes_)
        if not known.all() or not np.array_equal(self.classes_[labels], y):
            raise ValueError("y has labels that are not in classes")
        return labels

    _given = False  # during the first partial_fit: classes_ is given

    def partial_fit(self, X, y, classes=None, sample_weight=None):
        """Trains for one more epoch, on these rows. The first call needs all classes. The optimizer's state and the step of the
        schedule are kept, also those of fit (not by pickle): with shuffle=False and whole batches, calls on parts of the data equal one epoch
        of fit. Each call has a new row order and new dropout masks, which random_state determines."""
        with _unchanged_on_failure(self):
            first = not hasattr(self, "model_")
            if first and classes is None:
                raise ValueError("classes must be passed on the first call to partial_fit")
            if self.class_weight == "balanced":
                raise ValueError("partial_fit does not support class_weight=\"balanced\": it does not see all rows; pass a dict")
            if first:
                self.classes_ = np.unique(classes)
                self._check_classes("`classes` has")
            elif classes is not None and not np.array_equal(np.unique(classes), self.classes_):
                raise ValueError(f"classes={classes!r} are not those of the first call to partial_fit: {self.classes_!r}")
            self._given = True
            try:
                return self._partial_fit(X, y, sample_weight)
            finally:
                vars(self).pop("_given", None)

    def _check_classes(self, given):
        if len(self.classes_) < 2:
            raise ValueError(f"{type(self).__name__} needs samples of at least 2 classes, but {given} only one class"
                             + "".join(f": {name!r}" for name in self.classes_.tolist()))

    def predict_proba(self, X):
        """Probabilities, [rows][classes]; the columns are in the order of classes_."""
        return _both_classes(self._predictions(X))

    def predict_log_proba(self, X):
        """Logarithms of the probabilities, [rows][classes]."""
        return np.log(self.predict_proba(X))

    def predict(self, X):
        """The most probable class of each row."""
        p = self.predict_proba(X)
        return self.classes_[p.argmax(axis=1)]

    def score(self, X, y, sample_weight=None):
        """The mean accuracy; y and sample_weight may be names of columns of a frame."""
        return super().score(*_split_off(X, y, sample_weight))


class _TwoClasses(_Classifier):
    def _check_classes(self, given):
        super()._check_classes(given)
        if len(self.classes_) > 2:
            raise ValueError("Only binary classification is supported. The type of the target is multiclass; "
                             "use yoke.SoftmaxRegression")

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags


class _Regressor(RegressorMixin):
    def _outputs(self):
        return 1

    _columns = _outputs

    def _label_kind(self, names=False):
        return {"numbers": True}

    def _label_options(self):
        return {"loss": "squared"}

    def _stream_label(self, y, first):
        return {"label": y}

    def _labels_of(self, y, first):
        return np.asarray(y, np.float32)

    def _check(self, X, **others):
        return super()._check(X, **({**others, "y_numeric": True} if "y" in others else others))

    def partial_fit(self, X, y, sample_weight=None):
        """Trains for one more epoch, on these rows. Keeps the optimizer's state, as that of a classifier."""
        with _unchanged_on_failure(self):
            return self._partial_fit(X, y, sample_weight)

    def predict(self, X):
        """A number for each row."""
        return self._predictions(X)[:, 0]

    def score(self, X, y, sample_weight=None):
        """R2, the share of the variance that is explained; y and sample_weight may be names of columns of a frame."""
        return super().score(*_split_off(X, y, sample_weight))


class _Linear(_Estimator):
    @property
    def coef_(self):
        return self._tensor("0.weight")

    @property
    def intercept_(self):
        found = self._tensor("0.bias")
        return np.zeros(self.model_.outputs, np.float32) if found is None else found

    def _tensor(self, name):
        if not hasattr(self, "model_"):
            raise AttributeError(f"this {type(self).__name__} is not fitted")
        return self.model_.tensors().get(name)


class _LinearClassifier(_Linear):
    def decision_function(self, X):
        """Two classes: the log-odds of classes_[1], [rows]. More classes: the values before the softmax, [rows][classes]."""
        check_is_fitted(self)
        scores = self._framed_probabilities(X, raw=True)  # several classes: log-probabilities, the logits minus a constant per row
        if scores is None:
            X = self._check(X, reset=False)
            scores = (self.model_._probabilities_of_spec(_native.Data(X, hash_keys=True), raw=True) if self.model_.hashed
                      else _products(X, self.coef_) + self.intercept_)
        if scores.shape[1] > 2:
            return scores
        return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores[:, 0]


class LogisticRegression(_TwoClasses, _LinearClassifier):
    """Logistic regression for two classes, on dense or sparse data.

    epochs        passes over the data; None: 5, or more if that is needed to reach 1000 steps (small data sets need more epochs)
    batch         examples per worker per step (default: 16; Network: 32)
    lr            learning rate; None: the default of the optimizer, 0.1 for sgd
    optimizer     "sgd" (default; Network: "adam"; ClickModel: None), "momentum", "nesterov", "adagrad", "ftrl", "adam" or
                  "adamw"
    momentum      of the optimizers "momentum" and "nesterov"; None: 0.9
    lr_schedule   "constant" (default), "step", "inverse", "cosine", "one-cycle" or, with early_stopping, "plateau"; lr_decay,
                  lr_decay_every and warm_up (steps) are its parameters (see docs/models.md)
    clip_norm     limit of the norm of the gradient; None: no limit
    shuffle       False: use the rows in their order
    l1, l2        regularization: l1 |w| + l2/2 |w|^2 is added to the mean loss (default: 0)
    mode          "sync" (default) or "async"
    staleness     staleness bound of asynchronous workers, in steps
    workers       number of threads, or "auto" (default: 1)
    threads       of ClickModel and Network: threads per worker (default: 1)
    fit_intercept False: no bias
    hash_bits     hash the column numbers of CSR matrices, which may be any 64-bit keys, into 2^hash_bits columns; None: no hashing
    copy          False: train on a CSR matrix in place, which takes less memory and may take longer
    class_weight  {class: weight}, or "balanced": factors of the weights of the rows in training (default: 1)
    early_stopping, validation_fraction, n_iter_no_change
                  True: hold back this fraction of the rows (default: 0.1), keep the model with the smallest loss on them, and
                  end after this many epochs without improvement (default: 5). summary_["best_step"] is the step of the model
    warm_start    True: fit begins with the parameters of the last fit
    verbose       True: print the losses after each epoch
    callback      callback(metrics) is called after each epoch with a dict; when it returns True, training ends
    table         options of a frame, as in a data spec: {"scale": "standard", "encode": "onehot", "categorical": ["zip"]}
    random_state  seed for the order of the examples; None: a fixed seed

    After fit: classes_, coef_, intercept_, model_ (a yoke.Model), summary_ (the dict that `yoke train --json` prints).
    """

    __init__ = _constructor(**_STEP, **_KEYED, class_weight=None, **_END)

    def _model_text(self, outputs):
        return "logreg"


class SoftmaxRegression(_Classifier, _LinearClassifier):
    """Multinomial logistic regression for any number of classes, on dense or sparse data. Parameters: see LogisticRegression."""

    __init__ = _constructor(**_STEP, **_KEYED, class_weight=None, **_END)

    def _model_text(self, outputs):
        return "softmax"


def _median_deviation(columns):
    """The median of the standard deviations of the columns that are not constant; 1 if there is none."""
    found = [np.nanstd(np.asarray(column, np.float64)) for column in columns]
    found = [deviation for deviation in found if 0 < deviation < np.inf]
    return float(np.median(found)) if found else 1.0


class LinearRegression(_Regressor, _Linear):
    """Linear regression by the squared loss, on dense or sparse data. Parameters: see LogisticRegression, except that there is no
    class_weight, and that by default optimizer is "adagrad" and lr a tenth of the standard deviation of y, divided by that of the
    columns (their median; at the first call of partial_fit). After fit: coef_, intercept_, model_, summary_.
    """

    __init__ = _constructor(**{**_STEP, "optimizer": "adagrad"}, **_KEYED, **_END)

    def _model_text(self, outputs):
        return "linear"

    def _labels_of(self, y, first):
        labels = super()._labels_of(y, first)
        if first or not hasattr(self, "_deviation"):
            self._deviation = float(labels.std(dtype=float)) or 1.0
            self._far = max(1.0, 3.0 * abs(float(labels.mean(dtype=float))) / self._deviation)  # the mean
        return labels

    def _train(self, X, labels, weights, epochs, start, keep_state):
        if start is None:
            self._size = None if _is_sparse(X) else _median_deviation(X[::max(1, X.shape[0] // 10000)].T)
        return super()._train(X, labels, weights, epochs, start, keep_state)

    def _framed_data(self, X, y, weights=None, first=True):
        data = super()._framed_data(X, y, weights, first)
        names = [name for name, _ in data.columns if not any(isinstance(other, str) and name == other for other in (y, weights))]
        if first:
            dense = data.rows is not None and {kind for _, kind in data.columns} <= _NUMBERS and not (
                {"categorical", "numeric"} & self._table().keys())
            self._size = None if not dense else 1.0 if "scale" in self._table() else _median_deviation(
                _frames.column(X, name) for name in names)
        return data

    def _options(self, epochs):
        """The first step of adagrad changes a weight by lr, which should suit the weights, and the bias by lr * bias_lr, which should
        suit the deviation and the mean of the labels."""
        options = super()._options(epochs)
        if self.lr is None and self.optimizer == "adagrad" and hasattr(self, "_deviation"):
            size = getattr(self, "_size", None)
            options.update({"lr": 0.1 * self._deviation / (size or 1.0), "bias-lr": size and size * self._far})
        return options


_CLICKS = {"model": "fm:8", "fields": None, **_STEP, "optimizer": None, "threads": 1, **_KEYED}


class _Click(_Estimator):
    def _model_text(self, outputs):
        return self.model

    def _is_frame(self, X, named=()):
        """Frames of numbers are handled as matrices, which become sparse rows; rows of a table of numbers would be dense."""
        return super()._is_frame(X) and not _column_types(X, named) <= _NUMBERS

    def _check(self, X, **others):
        checked = super()._check(X, **others)
        return (_as_csr(checked[0]), *checked[1:]) if isinstance(checked, tuple) else _as_csr(checked)


class ClickModel(_TwoClasses, _Click):
    """Factorization machines and deep models for two classes, on sparse data. Dense data becomes sparse: zeros are not stored.

    model         "fm:8" (factorization machine with 8 latent factors), "wide-deep:16", "deepfm:16", or a sum of branches such
                  as "linear + fm 8 name=v + (embed 8 name=v, dense 32, relu, dense 1)"
    fields        array with the field number of each column, from 0, for models with `embed`; None: the position of an
                  entry in its row, if all rows have the same number of entries in separate ranges of columns; else an error
    optimizer     None: adagrad for the weights and embeddings of columns, adam for the layers of the network
    Other parameters: see LogisticRegression.
    """

    __init__ = _constructor("model", **_CLICKS, class_weight=None, **_END)


class ClickRegressor(_Regressor, _Click):
    """The same models with the squared loss: they predict numbers. Parameters: see ClickModel, without class_weight."""

    __init__ = _constructor("model", **_CLICKS, **_END)


_NETWORK = {"layers": "dense 100, relu", "image": None, **_STEP, "batch": 32, "optimizer": "adam", "threads": 1, "init": None,
            "standardize": None, "augment": None}


class _Network(_Estimator):
    _sparse = False
    _types = [np.float32, np.uint8]
    _epochs = 10
    _names = {**_Estimator._names, "model": "layers"}

    def _model_text(self, outputs):
        if not isinstance(self.layers, str) and not (isinstance(self.layers, (list, tuple))
                                                     and all(isinstance(layer, str) for layer in self.layers)):
            raise _native.UsageError(f"layers={self.layers!r}: must be a string or a list of strings, such as "
                                     "\"dense 100, relu\" or [\"dense 100\", \"relu\"]")
        text = self.layers if isinstance(self.layers, str) else ", ".join(self.layers)
        if "," not in text and " " not in text.strip():
            return text  # a network with a name
        return text if re.search(rf"\bdense\s+{outputs}\s*$", text) else f"{text}, dense {outputs}"

    def _image(self):
        return self.image_

    def _is_frame(self, X, named=()):
        """A frame of uint8 columns is handled as a matrix of pixels."""
        return self.image is None and super()._is_frame(X) and _column_types(X, named) != {"uint8"}

    def _table(self):
        return {"encode": "dense", **super()._table()}

    def _check(self, X, *, reset, **others):
        given = self._checked_image() if reset else self.image_
        image = _native.image_of(getattr(X, "shape", ()), given)
        if image:
            X = np.asarray(X).reshape(X.shape[0], int(np.prod(X.shape[1:])))  # not -1: there may be no rows
        if image and given and image != given:
            raise _native.UsageError(f"the array has images of shape {image}, (channels, height, width), but "
                                     + ("image is" if reset else "the network was trained on images of shape") + f" {given}")
        if reset:
            self.image_ = image or given
        if _frames.is_frame(X) and _column_types(X, ()) == {"uint8"}:
            others["dtype"] = np.uint8  # scikit-learn knows the types of pandas only
        return super()._check(X, reset=reset, **others)

    def _checked_image(self):
        """image as a tuple; None: not given."""
        if self.image is None:
            return None
        image = tuple(np.ravel(self.image).tolist())
        if len(image) != 3 or not all(isinstance(size, int) and size > 0 for size in image):
            raise _native.UsageError(f"image={self.image!r}: must be (channels, height, width), such as (1, 28, 28)")
        return image


class Network(_Classifier, _Network):
    """A network of layers, on dense data or images.

    layers        as on the command line: "lenet5", or a list such as "conv 6 5x5 same, relu, maxpool 2, dense 84, relu", or the
                  same as a list of strings. An output layer, "dense CLASSES", is added if it is missing
    image         (channels, height, width) of the rows. Arrays [rows][channels][height][width] and [rows][height][width] have
                  it in their shape
    epochs        passes over the data; None: 10, or more if that is needed to reach 1000 steps
    init, standardize, augment     see `yoke train --help`
    Other parameters: see LogisticRegression.

    uint8 values are treated as pixels and divided by 255.
    """

    __init__ = _constructor("layers", **_NETWORK, class_weight=None, **_END)


class NetworkRegressor(_Regressor, _Network):
    """A network with one output and the squared loss: it predicts numbers. Parameters: see Network, without class_weight."""

    __init__ = _constructor("layers", **_NETWORK, **_END)
