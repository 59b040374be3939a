"""yoke_train() with Python's conventions: callbacks in the calling thread, Ctrl-C, exceptions, warnings."""
import json
import logging
import queue
import threading
from ctypes import byref, c_int, c_void_p, pointer, sizeof

import numpy as np

from . import _frames, _native
from ._native import lib, warn as _warn
from ._texts import in_python, summary_in_python

log = logging.getLogger("yoke")

WAIT = 0.1  # seconds

def _fields(structure):
    values = {name: getattr(structure, name) for name, _ in structure._fields_}
    if "text" in values:
        values["text"] = (values["text"] or b"").decode()
    return values

class TrainingResult:
    """The result of yoke_train(): summary, text, directory, and the model."""

    def __init__(self, handle, names=None):
        try:
            self.summary = summary_in_python(json.loads(lib.yoke_run_summary(handle)), names)
            self.text = lib.yoke_run_text(handle).decode()
            directory = lib.yoke_run_directory(handle)
            self.directory = directory and directory.decode()
            model, error = c_void_p(), _native.CError()
            failed = lib.yoke_run_model(handle, byref(model), byref(error))
            self.model = None if failed else _native.Model(model)
        finally:
            lib.yoke_run_free(handle)

class Training:
    """One call of yoke_train(), in a thread of its own. The calling thread handles what it sends."""

    def __init__(self, options, data=None, test=None, start=None, ignored=None, names=None, validation=None,
                 keep_state=0):
        """ignored: kinds of warnings to drop; if it is given, warnings are issued when training has ended. names: what the
        caller calls some options. keep_state: see yoke_training in yoke.h."""
        self.options, self.data, self.test, self.start, self.ignored = options, data, test, start, ignored
        self.names, self.validation, self.keep_state = names, validation, keep_state
        self.warned = []
        self.events = queue.SimpleQueue()
        self.canceled = c_int(0)
        self.starting, self.begun, self.abandoned = threading.Lock(), False, False
        self.interrupted = False  # by Ctrl-C
        self.failure = None  # the exception of a callback

    def _in_python(self, text):
        return in_python(text, self.names, self.data is not None, getattr(self.data, "columns", None) is not None)

    # ---- in threads of the library

    def _on_log(self, _, level, text):
        self.events.put(("warning" if level else "note", self._in_python(text.decode(errors="replace")), None))

    def _on_progress(self, _, p):
        self.events.put(("progress", _fields(p.contents), None))
        return 0

    def _on_metrics(self, _, m):
        """Training waits until the callback has decided. Ctrl-C may lose the event, but then training is canceled. The answer is
        in `canceled`: after a 1, the library would not report the last evaluation, which belongs to the curves."""
        answered = threading.Event()
        self.events.put(("metrics", _fields(m.contents), answered))
        while not answered.wait(WAIT) and not self.canceled.value:
            pass
        return 0

    def _train(self, training, result):
        with self.starting:
            if self.abandoned:
                return
            self.begun = True
        run, error = c_void_p(), _native.CError()
        try:
            lib.yoke_train(byref(training), byref(run), byref(error))
        finally:
            result.update(run=run, error=error)
            self.events.put(("end", None, None))

    # ---- in the calling thread

    def cancel(self):
        self.canceled.value = 1

    def run(self, on_metrics=None, on_progress=None, before_warning=lambda: None):
        """Returns a TrainingResult. on_metrics(dict) and on_progress(dict) cancel training by returning True."""
        def warn(text):
            before_warning()
            _warn(text)

        functions = (_native.LOG(self._on_log),
                     _native.PROGRESS(self._on_progress) if on_progress else _native.PROGRESS(),
                     _native.METRICS(self._on_metrics) if on_metrics else _native.METRICS())
        training = _native.CTraining(
            sizeof(_native.CTraining), self.options.handle, self.data and self.data.handle, self.test and self.test.handle,
            self.start and self.start._handle, None, *functions, pointer(self.canceled), 0,
            self.validation and self.validation.handle, self.keep_state)
        result = {}
        thread = threading.Thread(target=self._train, args=(training, result), name="yoke.train", daemon=True)
        handlers = {"metrics": on_metrics, "progress": on_progress, "note": log.info,
                    "warning": warn if self.ignored is None else self.warned.append}
        try:
            thread.start()
            self._handle_events(thread, result, handlers)
        except BaseException:  # Ctrl-C during the start
            self._abandon(thread)
            raise
        return self._finish(result)

    def _abandon(self, thread):
        """Ensure that nothing trains afterwards. The thread may be running, about to run, or may never run; `threading` lists it anyway."""
        self.cancel()
        with self.starting:
            self.abandoned = True
        if self.begun:
            thread.join()
        else:  # `threading` may keep the thread, and this object, forever
            self.options = self.data = self.test = self.validation = self.start = None

    def _handle_events(self, thread, result, handlers):
        """Returns when training has ended. After Ctrl-C or the exception of a callback, training is canceled first.

        Ctrl-C can arrive between any two instructions and lose an event, so nothing waits forever for an event."""
        while True:
            try:
                while not result or not self.events.empty():
                    self._handle_one(handlers)
                thread.join()
                return
            except KeyboardInterrupt:
                self.cancel()
                self.interrupted = True
            except BaseException as failure:  # raised when training has ended
                self.cancel()
                self.failure = self.failure or failure

    def _handle_one(self, handlers):
        try:
            kind, value, answered = self.events.get(timeout=WAIT)
        except queue.Empty:
            return
        try:
            if kind != "end" and handlers[kind](value) is True:
                self.cancel()
        except BaseException:
            self.cancel()  # before the answer
            raise
        finally:
            if answered:
                answered.set()

    def _finish(self, result):
        run, error = result["run"], result["error"]
        finished = TrainingResult(run, self.names) if run else None
        self._warn_late(finished.summary if finished else {})
        if self.failure:
            raise self.failure
        if error.status:
            try:
                _native.raise_error(error, self._in_python)
            except _native.Error as failure:
                failure.summary = finished and finished.summary
                raise
        return finished

    def _warn_late(self, summary):
        drop = {w["text"] for w in summary.get("warnings") or () if w["kind"] in (self.ignored or ())}
        for text in self.warned:
            if text not in drop:
                _warn(text)

def until_true(callback):
    """Calls callback(metrics) until it returns True or raises an exception; then returns True. callback: None does nothing."""
    stopped = False

    def call(metrics):
        nonlocal stopped
        if callback is not None and not stopped:
            stopped = True  # even if it raises an exception
            stopped = bool(callback(dict(metrics)))
        return stopped
    return call

def class_names(classes):
    """The names of classes in a schema; None: they are 0, 1, 2, ..., or booleans."""
    numbers = classes.dtype.kind in "biu" and np.array_equal(classes, np.arange(len(classes)))
    return None if numbers else [str(name) for name in classes.tolist()]

def is_regression(model, loss):
    """Whether labels are numbers."""
    return loss == "squared" or (loss is None and isinstance(model, str) and model.strip() == "linear")

def frame_as_data(x, y, split, table, fields, weights=None, numbers=False):
    """A frame as Data. y: the name of the label column, or the labels; None: `table` names it, or it has a usual name."""
    table = dict(table or {}) if split == _native.TRAIN else {}
    if isinstance(weights, str):
        table["weight"], weights = weights, None
    if not isinstance(y, str):
        return _native.Data(x, y, split, fields=fields, table=table, label=_frames.label_name(x, y), weights=weights,
                            numbers=numbers and y is not None)
    table["label"] = y
    values = _frames.column(x, y) if split == _native.TRAIN and "classes" not in table and not numbers else None
    if values is not None and values.dtype.kind not in "biuf":  # the library needs their names
        classes = np.unique(values[values != np.array(None)].astype(str))
        if len(classes) < 1000:
            table["classes"] = classes.tolist()
    return _native.Data(x, None, split, fields=fields, table=table, weights=weights)

def as_data(given, split, copy=True, fields=None, hash_keys=False, table=None, numbers=False):
    """A frame, (X, y) or (X, y, weights) as Data. numbers: the labels are numbers."""
    if _frames.is_frame(given):
        return frame_as_data(given, None, split, table, fields)
    several = isinstance(given, (tuple, list)) and len(given) in (2, 3)
    if several and _frames.is_frame(given[0]):
        return frame_as_data(given[0], given[1], split, table, fields, given[2] if len(given) > 2 else None, numbers)
    if table and split == _native.TRAIN:
        raise _native.UsageError("table: these options are only for frames, but data is not a frame")
    if not several:
        raise _native.UsageError(f"data and test must be a spec, a frame or a pair (X, y), not {type(given).__name__}")
    x, y, *weights = given
    if y is None:
        name = "test" if split == _native.TEST else "data"
        raise _native.UsageError(f"{name} has no labels: pass a pair (X, y) of a matrix and the class numbers of its rows")
    return _native.Data(x, y, split, copy=copy, fields=fields, hash_keys=hash_keys, weights=weights[0] if weights else None,
                        numbers=numbers)
