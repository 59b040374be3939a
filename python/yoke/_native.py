"""libyoke through ctypes: include/yoke.h documents the functions and structures. ctypes releases the GIL during each call."""
import ctypes
import json
import numbers
import os
import sys
import warnings
from ctypes import (CFUNCTYPE, POINTER, Structure, byref, c_char, c_char_p, c_double, c_float, c_int, c_int32, c_int64, c_size_t,
                    c_uint8, c_uint32, c_uint64, c_void_p)

import numpy as np

from . import _frames
from ._texts import in_python

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "_native")
PROGRAM = os.environ.get("YOKE_PROGRAM") or os.path.join(HERE, "bin", "yoke")


class Error(Exception):
    """The base class of yoke's errors. The text is that of the program, with Python's names; `status` is its exit status."""

    status = 0


class TrainingError(Error, RuntimeError):
    """Training diverged, or a process was lost."""

    status = 1


class UsageError(Error, ValueError):
    """A wrong option or argument."""

    status = 2


class DataError(Error, ValueError):
    """Bad data: the text names the row or file, and the reason."""

    status = 3


class ResourceError(Error, OSError):
    """Out of memory, disk full, failed write."""

    status = 4


ERRORS = {e.status: e for e in (TrainingError, UsageError, DataError, ResourceError)}


class YokeWarning(UserWarning):
    """A warning that the program would print to stderr."""


def _callers_level():
    """The stack level of the code that called this package, for a warning in the function that calls this one."""
    frame, level = sys._getframe(1), 1
    while frame.f_back and frame.f_globals.get("__package__") == __package__:
        frame, level = frame.f_back, level + 1
    return level


def warn(text):
    warnings.warn(text, YokeWarning, stacklevel=_callers_level())


# ---- structures of yoke.h

class CError(Structure):
    _fields_ = [("status", c_int), ("message", c_char * 2048)]


class COption(Structure):
    _fields_ = [(name, c_char_p) for name in ("name", "argument", "group", "help", "default_text")]


class CDense(Structure):
    _fields_ = [("struct_size", c_size_t), ("rows", c_size_t), ("columns", c_size_t), ("f32", c_void_p), ("u8", c_void_p),
                ("labels", c_void_p), ("channels", c_size_t), ("height", c_size_t), ("width", c_size_t), ("classes", c_uint32),
                ("weights", c_void_p), ("targets", c_void_p)]


class CCsr(Structure):
    _fields_ = [("struct_size", c_size_t), ("rows", c_size_t), ("columns", c_size_t), ("start64", c_void_p),
                ("start32", c_void_p), ("index", c_void_p), ("value", c_void_p), ("labels", c_void_p), ("in_place", c_int),
                ("classes", c_uint32), ("field", c_void_p), ("index64", c_void_p), ("weights", c_void_p), ("targets", c_void_p)]


class CArrow(Structure):
    _fields_ = [("struct_size", c_size_t), ("stream", c_void_p), ("options", c_char_p), ("labels", c_void_p), ("rows", c_size_t),
                ("label", c_char_p), ("class_names", c_void_p), ("classes", c_uint32), ("stream_once", c_int),
                ("weights", c_void_p), ("targets", c_void_p)]


class CProgress(Structure):
    _fields_ = [("step", c_uint64), ("examples", c_uint64), ("epoch", c_double), ("loss", c_double),
                ("examples_per_second", c_double), ("steps_per_second", c_double), ("seconds_left", c_double), ("text", c_char_p)]


class CMetrics(Structure):
    _fields_ = [("step", c_uint64), ("examples", c_uint64), ("epoch", c_double), ("seconds", c_double),
                ("train_loss", c_double), ("test_loss", c_double), ("test_accuracy", c_double), ("test_auc", c_double),
                ("majority_accuracy", c_double), ("validation_loss", c_double), ("validation_accuracy", c_double),
                ("validation_auc", c_double)]


LOG = CFUNCTYPE(None, c_void_p, c_int, c_char_p)
PROGRESS = CFUNCTYPE(c_int, c_void_p, POINTER(CProgress))
METRICS = CFUNCTYPE(c_int, c_void_p, POINTER(CMetrics))


class CTraining(Structure):
    _fields_ = [("struct_size", c_size_t), ("options", c_void_p), ("data", c_void_p), ("test", c_void_p), ("start", c_void_p),
                ("context", c_void_p), ("log", LOG), ("progress", PROGRESS), ("metrics", METRICS), ("cancel", POINTER(c_int)),
                ("discard_model", c_int), ("validation", c_void_p), ("keep_state", c_int)]


class CPrediction(Structure):
    _fields_ = [("struct_size", c_size_t), ("columns", c_char_p), ("raw", c_int)]


class CTensor(Structure):
    _fields_ = [("name", c_char_p), ("rank", c_size_t), ("shape", c_size_t * 4), ("size", c_size_t), ("data", POINTER(c_float))]


# ---- functions: arguments, result (c_int: a yoke_status)

FUNCTIONS = {
    "version": ([], c_char_p),
    "kernels": ([], c_char_p),
    "options_create": ([], c_void_p),
    "options_free": ([c_void_p], None),
    "options_set": ([c_void_p, c_char_p, c_char_p, POINTER(CError)], c_int),
    "option_at": ([c_size_t, POINTER(COption)], c_int),
    "data_from_spec": ([c_char_p, c_int, c_void_p, POINTER(c_void_p), POINTER(CError)], c_int),
    "data_from_dense": ([POINTER(CDense), POINTER(c_void_p), POINTER(CError)], c_int),
    "data_from_csr": ([POINTER(CCsr), POINTER(c_void_p), POINTER(CError)], c_int),
    "data_from_arrow": ([POINTER(CArrow), POINTER(c_void_p), POINTER(CError)], c_int),
    "data_column": ([c_void_p, c_size_t, POINTER(c_char_p)], c_char_p),
    "data_free": ([c_void_p], None),
    "set_log": ([LOG, c_void_p], None),
    "train": ([POINTER(CTraining), POINTER(c_void_p), POINTER(CError)], c_int),
    "run_summary": ([c_void_p], c_char_p),
    "run_text": ([c_void_p], c_char_p),
    "run_directory": ([c_void_p], c_char_p),
    "run_model": ([c_void_p, POINTER(c_void_p), POINTER(CError)], c_int),
    "run_free": ([c_void_p], None),
    "model_load": ([c_char_p, POINTER(c_void_p), POINTER(CError)], c_int),
    "model_save": ([c_void_p, c_char_p, POINTER(CError)], c_int),
    "model_name": ([c_void_p], c_char_p),
    "model_columns": ([c_void_p], c_size_t),
    "model_hashed": ([c_void_p], c_int),
    "model_torch": ([c_void_p], c_void_p),
    "model_schema": ([c_void_p], c_void_p),
    "model_outputs": ([c_void_p], c_size_t),
    "model_regression": ([c_void_p], c_int),
    "model_tensor_at": ([c_void_p, c_size_t, POINTER(CTensor)], c_int),
    "model_tensor_copy": ([c_void_p, c_size_t, c_void_p], None),
    "model_free": ([c_void_p], None),
    "evaluate_metrics": ([c_void_p, c_void_p, POINTER(c_void_p), c_void_p, POINTER(CError)], c_int),
    "predict_with": ([c_void_p, c_void_p, POINTER(CPrediction), c_void_p, c_void_p, POINTER(CError)], c_int),
    "predict_array": ([c_void_p, c_void_p, c_void_p, c_size_t, POINTER(CError)], c_int),
    "predict_csr": ([c_void_p, POINTER(CCsr), c_void_p, c_size_t, POINTER(CError)], c_int),
}


def _load():
    library = ctypes.CDLL(os.environ.get("YOKE_LIBRARY") or os.path.join(HERE, "lib", "libyoke.so.0"))
    for name, (arguments, result) in FUNCTIONS.items():
        function = getattr(library, "yoke_" + name)
        function.argtypes, function.restype = arguments, result
    return library


os.environ.setdefault("YOKE_PROGRAM", PROGRAM)  # jobs with several processes run this one
lib = _load()
_free = ctypes.CDLL(None).free
_free.argtypes, _free.restype = [c_void_p], None


def raise_error(error, translate=in_python):
    raise ERRORS[error.status](translate(error.message.decode(errors="replace")))


def call(name, *arguments, translate=in_python):
    """Calls a function that returns a yoke_status and takes a yoke_error. Raises the error that it reports."""
    if any(isinstance(argument, bytes) and b"\0" in argument for argument in arguments):  # C would ignore what follows
        raise UsageError("an argument contains a null character")
    error = CError()
    if getattr(lib, "yoke_" + name)(*arguments, byref(error)):
        raise_error(error, translate)


def call_and_warn(name, *arguments):
    """call() of an evaluation or a prediction, with the warnings of the library."""
    messages = []
    log = LOG(lambda _, level, text: messages.append(in_python(text.decode(errors="replace"))) if level else None)
    lib.yoke_set_log(log, None)
    try:
        call(name, *arguments)
    finally:
        lib.yoke_set_log(LOG(), None)
    for text in messages:
        warn(text)


def create(name, *arguments):
    """Calls a function that creates an object, and returns the object."""
    out = c_void_p()
    call(name, *arguments, byref(out))
    return out


# ---- options

def option_text(value):
    """An option's value as on a command line."""
    if isinstance(value, (bool, np.bool_)):
        return "true" if value else "false"
    if isinstance(value, (float, np.floating)):
        return repr(float(value))
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value))
    if isinstance(value, dict):  # of parameter groups or classes
        return ",".join(f"{name}={option_text(item)}" for name, item in value.items())
    return os.fsdecode(value) if isinstance(value, (os.PathLike, bytes)) else str(value)


class Options:
    def __init__(self, values, names=None):
        """names: what the caller calls some options."""
        self.handle = c_void_p(lib.yoke_options_create())
        if not self.handle:
            raise MemoryError
        for name, value in values.items():
            if value is not None:
                text = option_text(value)
                call("options_set", self.handle, name.replace("_", "-").encode(), text.encode(),
                     translate=lambda said: in_python(said, names))

    def __del__(self):
        if getattr(self, "handle", None):
            lib.yoke_options_free(self.handle)


def option_table():
    """Name, argument, group, help and default of every option of yoke train."""
    table, option = [], COption()
    while lib.yoke_option_at(len(table), byref(option)):
        table.append({field: value and value.decode() for field, value in
                      ((name, getattr(option, name)) for name, _ in COption._fields_)})
    return table


def option_default(name):
    """The default of an option as text; None: it has none."""
    return next(option["default_text"] for option in option_table() if option["name"] == name)


# ---- data

TRAIN, TEST = 0, 1


def _address(array):
    return None if array is None else array.ctypes.data


def _is_csr(x):
    return hasattr(x, "indptr") and getattr(x, "format", None) == "csr"


def is_spec(x):
    return isinstance(x, (str, os.PathLike))


def as_rows(x):
    """x as an array, a CSR matrix or a spec. Converts lists, DataFrames and other sparse formats."""
    if is_spec(x):
        return x
    if _frames.is_frame(x) and not hasattr(x, "__array__"):
        raise UsageError("the model was not trained on a table: pass an array, not a frame")
    if hasattr(x, "tocsr"):
        return x.tocsr()
    if isinstance(x, tuple):
        raise UsageError("the rows must be a matrix, an array of images or a spec, not a tuple; to pass labels, too, use (X, y) in "
                         "yoke.train() and Model.evaluate()")
    try:
        rows = np.asarray(x)
        if rows.dtype.kind in "cmM" or np.ma.is_masked(x):
            raise TypeError("some are masked" if np.ma.is_masked(x) else f"not {rows.dtype}")
        rows = rows if rows.dtype.kind in "biuf" else rows.astype(np.float32)
    except (TypeError, ValueError) as error:
        raise UsageError(f"the rows must be numbers, in rows of the same length: {error}") from None
    if not rows.shape:
        raise UsageError(f"the rows must be a matrix, an array of images or a spec, not {type(x).__name__}")
    return rows


def image_of(shape, forced=None):
    """(channels, height, width) of an array of images, from its shape; None: it has no images."""
    if len(shape) > 4:
        raise UsageError(f"the array has shape {tuple(shape)}; expected [rows][columns], or for images [rows][height][width] or "
                         "[rows][channels][height][width]")
    if len(shape) < 3:
        return None
    image = (1,) * (4 - len(shape)) + tuple(shape[1:])
    c, h, w = image
    if w in (1, 3, 4) and c not in (1, 3, 4) and w < h and image != forced:
        raise UsageError(f"the array has shape {tuple(shape)}, which looks like [rows][height][width][channels]; images must be "
                         "[rows][channels][height][width]: use X.transpose(0, 3, 1, 2). If the shape is correct, use "
                         f"yoke.Network with image={image}")
    return image


def as_fields(fields, columns):
    """The field number of each column, in the type that the library expects."""
    given = np.asarray(fields)
    if given.shape != (columns,) or given.dtype.kind not in "iu":
        raise UsageError(f"fields must be an integer array of shape ({columns},), one per column, "
                         f"not {given.dtype} of shape {given.shape}")
    if given.size and (given.min() < 0 or given.max() > 65535):
        raise UsageError(f"fields: field numbers must be from 0 to 65535, but they range from {given.min()} to {given.max()}")
    return np.ascontiguousarray(given, np.uint16)


def _csr(x, labels=None, in_place=True, classes=0, fields=None, hash_keys=False, weights=None, targets=None):
    """The structure, and the arrays that it points to. fields: the field number of each column. hash_keys: the column numbers
    are 64-bit keys, which the library hashes."""
    if x.shape[1] >= 2**31 - 1 and not hash_keys:
        raise UsageError(f"the matrix has {x.shape[1]} columns, but at most 2^31 - 2 are supported; yoke.train(..., hash_bits=B) "
                         "hashes column numbers of any size into 2^B columns")
    wide = x.indptr.dtype == np.int64
    if not hash_keys and x.indices.dtype != np.int32:  # the library checks 32-bit indices
        _check_columns(x)
    arrays = (np.ascontiguousarray(x.indptr, np.int64 if wide else np.int32),
              np.ascontiguousarray(x.indices, np.int64 if hash_keys else np.int32), np.ascontiguousarray(x.data, np.float32))
    if fields is not None:
        arrays += (as_fields(fields, x.shape[1]).take(arrays[1], mode="clip"),)  # the library checks column numbers
    start, index, value, field = map(_address, arrays if len(arrays) == 4 else (*arrays, None))
    return CCsr(ctypes.sizeof(CCsr), *x.shape, start if wide else None, None if wide else start, None if hash_keys else index, value,
                _address(labels), int(in_place and not hash_keys), classes, field, index if hash_keys else None,
                _address(weights), _address(targets)), arrays


def _check_columns(x):
    """Raise DataError if a column number is out of range: truncated to 32 bits, it could look valid."""
    if not x.indices.size or 0 <= x.indices.min() <= x.indices.max() < x.shape[1]:
        return
    at = int(np.argmax((x.indices < 0) | (x.indices >= x.shape[1])))
    row = int(np.searchsorted(x.indptr, at, side="right")) - 1
    raise DataError(f"row {row}: index {x.indices[at]} is out of range for {x.shape[1]} columns; yoke.train(..., hash_bits=B) hashes "
                    "column numbers of any size")


def _is_missing(label):
    """None, NaN, NaT or pandas.NA, which is equal to nothing, not even to itself."""
    equal = label == label
    return label is None or type(label).__name__ == "NAType" or (isinstance(equal, (bool, np.bool_)) and not equal)


def check_present(labels):
    """Raises DataError if one of the labels is missing. NumPy and scikit-learn would compare it with the others."""
    given = np.asarray(labels)
    if given.ndim and given.size and given.dtype.kind in "Of":
        missing = [_is_missing(label) for label in given.reshape(len(given), -1)[:, 0]] if given.dtype.kind == "O" else np.isnan(given)
        if np.any(missing):
            raise DataError(f"row {np.argwhere(missing)[0][0]}: the label is missing: leave out the rows that have no label")


def _is_class_number(label):
    return isinstance(label, numbers.Real) and -2**31 <= label < 2**31 and label == int(label)


def _as_labels(labels):
    given = np.atleast_1d(np.asarray(labels))
    if given.dtype.kind in "biuf":
        with np.errstate(invalid="ignore"):  # NaN
            wrong = given.astype(np.int32, copy=False) != given
    else:
        wrong = np.reshape([not _is_class_number(label) for label in given.ravel()], given.shape).astype(bool)
    if wrong.any():
        check_present(given)
        raise UsageError(f"the labels must be class numbers 0, 1, 2, ..., not {given.dtype}: row {np.argwhere(wrong)[0][0]} has "
                         f"{given[wrong].tolist()[0]!r}" + '; for regression, use loss="squared"' * (given.dtype.kind == "f")
                         + "; the estimators accept other labels")
    return np.ascontiguousarray(given, np.int32)


def _as_floats(name, given, rows):
    """Weights, or labels that are numbers, as an array; None: not given."""
    if given is None:
        return None
    try:
        array = np.ascontiguousarray(given, np.float32)
    except (TypeError, ValueError) as error:
        raise UsageError(f"the {name} must be numbers: {error}") from None
    if array.shape != (rows,):
        raise UsageError(f"the {name} of a stream must be one of its columns" if rows is None else
                         f"the {name} must have shape ({rows},), one per row, not {array.shape}: select the same rows as in X")
    return array


def c_text(text):
    """For a structure of C, which would ignore what follows a null character."""
    if "\0" in text:
        raise UsageError(f"{text!r} contains a null character")
    return text.encode()


def table_options(given):
    """The options of a table, {"scale": "log", "categorical": ["a", "b"]}, as in a spec."""
    for name, value in given.items():
        words = value if isinstance(value, (list, tuple)) else [value]
        if any("&" in str(word) or (name != "label" and "," in str(word)) for word in words):
            raise UsageError(f"table: {name}={value!r}: a name must not contain & or ,")
    return "&".join(f"{name}={','.join(map(str, value)) if isinstance(value, (list, tuple)) else option_text(value)}"
                    for name, value in given.items() if value is not None)


class Data:
    """Rows in memory, a frame or a spec. Keeps the arrays, which the library borrows.

    For a frame, `columns` has the names and types of its columns. Its labels are class numbers; None: the labels are a column,
    which `table` may name. weights: one per row; None: all are 1. numbers: the labels are numbers, for regression.
    """

    columns = None

    def __init__(self, x, labels=None, split=TRAIN, image=None, classes=0, copy=True, fields=None, hash_keys=False, table=None,
                 label=None, class_names=None, weights=None, numbers=False):
        """label, class_names: names of the label and of the classes of a frame, for the schema of the model."""
        self.handle = None
        if _frames.is_frame(x):
            if fields is not None:
                raise UsageError("fields: the columns of a frame are its fields; leave out fields")
            self._from_frame(x, labels, table or {}, label, class_names, classes, weights, numbers)
            return
        if table:
            raise UsageError("table: these options are only for frames, but X is not a frame")
        x = as_rows(x)
        if is_spec(x):
            if not (labels is None and weights is None):
                raise UsageError(f"{os.fspath(x)}: a spec has its own labels and weights: pass only the spec")
            self.rows = None
            self.handle = create("data_from_spec", os.fspath(x).encode(), split, None)
            return
        self.rows = x.shape[0]
        self._set_labels(labels, weights, numbers)
        if self.labels is not None and self.labels.shape != (self.rows,):
            raise UsageError(f"the labels must have shape ({self.rows},), one per row, not {self.labels.shape}")
        if _is_csr(x):
            self.handle = self._from_csr(x, classes, copy, fields, hash_keys)
        elif fields is not None:
            raise UsageError("fields: only CSR matrices have fields; use scipy.sparse.csr_matrix(X)")
        else:
            self.handle = self._from_dense(x, image, classes)

    def _set_labels(self, labels, weights, numbers):
        self.targets = _as_floats("labels", labels, self.rows) if numbers else None
        self.labels = None if labels is None or numbers else _as_labels(labels)
        self.weights = _as_floats("weights", weights, self.rows)

    def _from_frame(self, x, labels, table, label, class_names, classes, weights, numbers):
        self.rows = _frames.rows_of(x)
        self._set_labels(labels, weights, numbers)
        if self.labels is not None and self.labels.shape != (self.rows,):
            raise UsageError("the label of a stream must be one of its columns: pass the name of the column" if self.rows is None else
                             f"the labels must have shape ({self.rows},), one per row, not {self.labels.shape}")
        try:
            stream, self.kept = _frames.stream_of(x)
        except (TypeError, ValueError, NotImplementedError) as error:  # of pyarrow
            raise UsageError(f"frame: {error}") from error
        names = (c_char_p * len(class_names))(*map(c_text, class_names)) if class_names else None
        self.handle = create("data_from_arrow", byref(CArrow(
            ctypes.sizeof(CArrow), stream, c_text(table_options(table)), _address(self.labels), self.rows or 0,
            None if label is None else c_text(str(label)), names and ctypes.addressof(names), classes, self.rows is None,
            _address(self.weights), _address(self.targets))))
        self.columns, kind = [], c_char_p()
        while (name := lib.yoke_data_column(self.handle, len(self.columns), byref(kind))) is not None:
            self.columns.append((name.decode(), kind.value.decode()))

    def _from_dense(self, x, image, classes):
        image = image or image_of(x.shape)
        x = x.reshape(x.shape[0], int(np.prod(x.shape[1:])))
        self.x = np.ascontiguousarray(x, np.uint8 if x.dtype == np.uint8 else np.float32)
        pixels = self.x.dtype == np.uint8
        c, h, w = image or (0, 0, 0)
        return create("data_from_dense", byref(CDense(
            ctypes.sizeof(CDense), *self.x.shape, None if pixels else _address(self.x), _address(self.x) if pixels else None,
            _address(self.labels), c, h, w, classes, _address(self.weights), _address(self.targets))))

    def _from_csr(self, x, classes, copy, fields, hash_keys):
        if hash_keys and not copy:
            raise UsageError("copy=False: rows whose column numbers are hashed (hash_bits) are always copied; use copy=True")
        csr, self.arrays = _csr(x, self.labels, not copy, classes, fields, hash_keys, self.weights, self.targets)
        try:
            return create("data_from_csr", byref(csr))
        except UsageError as error:
            if not copy and "ascend" in str(error):
                raise UsageError("copy=False needs column numbers that ascend within each row, without duplicates: call "
                                 "X.sum_duplicates(), which also sorts, or use copy=True") from None
            raise

    def __del__(self):
        if getattr(self, "handle", None):
            lib.yoke_data_free(self.handle)


# ---- models

def as_metrics(found):
    """Metrics of the library, with NaN instead of None; always the same NaN, so that equal metrics compare equal."""
    return {name: np.nan if value is None else value for name, value in found.items()}


class Model:
    """A trained model. It makes predictions and returns its parameters as arrays with the names and shapes of PyTorch.

    fields      the field number of each column of matrices, for models that were trained with `fields`. Set it
                after `load`, because files do not contain it
    hashed      whether the column numbers of CSR matrices are keys to be hashed. Initially True if the model was trained on hashed keys,
                in files or in matrices. Set it to False for matrices whose column numbers are already hashes
    """

    _bytes = None

    def __init__(self, handle, fields=None):
        self._handle = handle
        self.fields = fields
        self.hashed = bool(lib.yoke_model_hashed(handle))

    @classmethod
    def load(cls, path):
        """Loads a model from a run directory, a checkpoint directory, or a model.safetensors file."""
        return cls(create("model_load", os.fsencode(path)))

    def save(self, path):
        """Writes one safetensors file."""
        call("model_save", self._handle, os.fsencode(path), translate=lambda said: in_python(said, {"out": "path"}))

    def __del__(self):
        if getattr(self, "_handle", None):
            lib.yoke_model_free(self._handle)

    @property
    def name(self):
        return lib.yoke_model_name(self._handle).decode()

    @property
    def columns(self):
        return lib.yoke_model_columns(self._handle)

    @property
    def outputs(self):
        """The number of probabilities per example: 1 (that of class 1), or one per class."""
        return lib.yoke_model_outputs(self._handle)

    @property
    def regression(self):
        """Whether labels and predictions are numbers, not classes and probabilities."""
        return bool(lib.yoke_model_regression(self._handle))

    def tensors(self):
        """{"0.weight": array, ...}. Arrays are read-only; large ones share the memory of the model."""
        found, tensor = {}, CTensor()
        while lib.yoke_model_tensor_at(self._handle, len(found), byref(tensor)):
            shape = tuple(tensor.shape[:tensor.rank])
            if tensor.data:
                memory = (c_float * tensor.size).from_address(ctypes.addressof(tensor.data.contents))
                memory._model = self  # the array keeps the model alive
                array = np.frombuffer(memory, np.float32).reshape(shape)
            else:
                array = np.empty(shape, np.float32)
                lib.yoke_model_tensor_copy(self._handle, len(found), array.ctypes.data)
            array.flags.writeable = False
            found[tensor.name.decode()] = array
        return found

    @property
    def schema(self):
        """What the model knows about its data: a dict with the columns of a table, their roles and encodings. None: nothing."""
        text = lib.yoke_model_schema(self._handle)
        found = json.loads(ctypes.string_at(text)) if text else None
        _free(text)
        return found

    @property
    def _trained_on_bytes(self):
        if self._bytes is None:
            text = lib.yoke_model_torch(self._handle)
            self._bytes = bool(text) and b"bytes divided by 255" in ctypes.string_at(text)
            _free(text)
        return self._bytes

    def _check_scale(self, x):
        if x.dtype != np.uint8 and x.size and self._trained_on_bytes and x.max() > 1:
            warn("the model was trained on bytes, which are divided by 255, but the array has values above 1 of type "
                 f"{x.dtype}: pass uint8, or divide by 255")

    @property
    def feature_names(self):
        """The names of the columns of a linear model's weights: "price", or "city=Rome" for a one-hot value. None: not known,
        because the model was not trained on a table, or categories were hashed."""
        schema = self.schema or {}
        columns = [c for c in schema.get("columns", ()) if c["role"] in ("numeric", "categorical")]
        names = [c["name"] for c in columns if c["role"] == "numeric"]
        if len(names) < len(columns) and schema.get("encode") == "hash":
            return None
        names += [f"{c['name']}={value}" for c in columns if c["role"] == "categorical" for value in c.get("values", ())]
        return names or None

    def _class_numbers(self, labels):
        """The class numbers of labels that are names of classes, as in fit(); other labels are returned unchanged."""
        names = (self.schema or {}).get("classes")
        if labels is None or self.regression or not isinstance(names, list):
            return labels
        given, as_name = np.ravel(labels), str
        if given.dtype.kind in "biuf":
            try:
                names, as_name = [float(name) for name in names], float
            except ValueError:  # the labels are class numbers
                return labels
        known = {name: number for number, name in enumerate(names)}
        numbers = [known.get(as_name(label)) for label in given.tolist()]
        if None in numbers:
            row = numbers.index(None)
            check_present(given)
            raise UsageError(f"row {row}: the label {given.tolist()[row]!r} is not a class of the model: " + ", ".join(map(str, names[:10])))
        return np.asarray(numbers, np.int32)

    def _frame(self, x, labels=None, weights=None):
        """A frame as Data; None: x is not a frame, or the model was not trained on a table."""
        if not _frames.is_frame(x):
            return None
        known = {c["name"]: c["role"] for c in (self.schema or {}).get("columns", ())}
        if not known:
            return None
        if isinstance(labels, str):
            name, labels = labels, None
            if known.get(name) != "label" and (labels := _frames.column(x, name)) is None:
                raise UsageError(f"the frame has no column {name!r} for the labels")
        data = Data(x, self._class_numbers(labels), weights=weights, numbers=labels is not None and self.regression)
        extra = [name for name, _ in data.columns if name not in known]
        if extra:
            warn(f"frame: {len(extra)} column{' is' if len(extra) == 1 else 's are'} not in the model, and ignored: "
                 + ", ".join(extra[:10]) + (", ..." if len(extra) > 10 else ""))
        return data

    def probabilities(self, x, raw=False):
        """Probabilities, [rows][outputs], for a matrix, an array of images, a frame, or a data spec. The columns of a frame are
        matched by name. raw (frames and specs): log-odds if there is one output, else log-probabilities."""
        frame = self._frame(x)
        if frame is not None:
            return self._probabilities_of_frame(frame, raw)
        x = as_rows(x)
        if is_spec(x):
            return self._probabilities_of_spec(Data(x, split=TEST), raw)
        if _is_csr(x):
            return self.probabilities_of_csr(x, self.outputs)
        self._check_scale(x)
        data = Data(x)
        out = np.empty((data.rows, self.outputs), np.float32)
        call_and_warn("predict_array", self._handle, data.handle, out.ctypes.data, data.rows)
        return out

    def probabilities_of_csr(self, x, columns):
        """Probabilities, [rows][columns]; with two columns and one output p: 1 - p and p."""
        if self.name not in ("logreg", "softmax", "linear") and not self.hashed and not getattr(x, "has_canonical_format", True):
            x = x.copy()
            x.sum_duplicates()  # training does so; linear models need not. The library does it for keys
        csr, arrays = _csr(x, fields=self.fields, hash_keys=self.hashed)
        out = np.empty((x.shape[0], columns), np.float32)
        call_and_warn("predict_csr", self._handle, byref(csr), out.ctypes.data, columns)
        del arrays  # the library borrowed them
        return out

    def _probabilities_of_frame(self, data, raw):
        if raw or data.rows is None:
            return self._probabilities_of_spec(data, raw)
        out = np.empty((data.rows, self.outputs), np.float32)
        call_and_warn("predict_array", self._handle, data.handle, out.ctypes.data, data.rows)
        return out

    def _probabilities_of_spec(self, data, raw=False):
        blocks = []

        class CPredictions(Structure):
            _fields_ = [("n", c_size_t), ("outputs", c_size_t), ("probability", POINTER(c_float)), ("file", c_void_p)]

        @CFUNCTYPE(c_int, c_void_p, POINTER(CPredictions))
        def each(_, some):
            n, outputs = some.contents.n, some.contents.outputs
            blocks.append(np.ctypeslib.as_array(some.contents.probability, (n, outputs)).copy())
            return 0

        how = CPrediction(ctypes.sizeof(CPrediction), None, raw)
        call_and_warn("predict_with", self._handle, data.handle, byref(how), ctypes.cast(each, c_void_p), None)
        return np.concatenate(blocks)

    def evaluate(self, x, labels=None, sample_weight=None):
        """{"examples": ..., "loss": ..., "accuracy": ..., ...} on a matrix with labels, evaluate(X, y), evaluate((X, y)) or
        evaluate((X, y, sample_weight)), or on a data spec: all metrics of `yoke eval --json`; those that are not defined are NaN. The
        labels of a frame may be the name of a column; they are not needed if it has the column that was the label in training. Labels
        are class numbers, or the labels of fit() if the model was trained on a frame."""
        if labels is None and isinstance(x, (tuple, list)) and len(x) in (2, 3):
            x, labels, *weights = x
            sample_weight = weights[0] if weights else sample_weight
        data, text = self._frame(x, labels, sample_weight), c_void_p()
        if data is None:
            x = as_rows(x)
            if not is_spec(x):
                if labels is None:
                    raise UsageError("evaluate() needs the labels: pass the class numbers of the rows, evaluate(X, y)")
                if not _is_csr(x):
                    self._check_scale(x)
                labels = self._class_numbers(labels)
            data = Data(x, labels, split=TEST, fields=self.fields if _is_csr(x) else None, hash_keys=self.hashed,
                        weights=sample_weight, numbers=labels is not None and self.regression)
        call_and_warn("evaluate_metrics", self._handle, data.handle, byref(text), None)
        found = json.loads(ctypes.string_at(text))
        _free(text)
        return as_metrics(found)

    def __getstate__(self):
        import tempfile
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "model.safetensors")
            self.save(path)
            with open(path, "rb") as f:
                return {"safetensors": f.read(), "fields": self.fields, "hashed": self.hashed}

    def __setstate__(self, state):
        import tempfile
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "model.safetensors")
            with open(path, "wb") as f:
                f.write(state["safetensors"])
            self.__init__(create("model_load", path.encode()), state.get("fields"))
        self.hashed = state.get("hashed", self.hashed)

    def __repr__(self):
        return f"Model({self.name!r}, columns={self.columns}, outputs={self.outputs})"
