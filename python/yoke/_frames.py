"""Frames: pandas, polars and pyarrow tables, and any other object with `__arrow_c_stream__`, as Arrow streams for yoke_data_from_arrow().
pyarrow is imported only for pandas tables. Without it, they are converted column by column, through NumPy."""
import ctypes
import sys
from ctypes import CFUNCTYPE, Structure, c_char_p, c_int, c_int64, c_void_p, py_object

import numpy as np

_pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
_pointer_of.argtypes, _pointer_of.restype = [py_object, c_char_p], c_void_p


def is_pandas(x):
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(x, pandas.DataFrame)


def is_frame(x):
    """Whether x is a table whose columns have names."""
    if is_pandas(x):
        return all(isinstance(name, str) for name in x.columns)
    if type(x).__name__ == "LazyFrame":
        from ._native import UsageError
        raise UsageError("a LazyFrame is a query: pass its result, frame.collect()")
    return hasattr(x, "__arrow_c_stream__")


def rows_of(x):
    """The number of rows; None: a stream, which can be read once."""
    try:
        return len(x)
    except TypeError:
        return None


def column(x, name):
    """A column as an array; None: there is no such column, or x is a stream."""
    if rows_of(x) is None:
        return None
    try:
        found = x[name]
    except Exception:  # each package raises its own exception
        return None
    try:
        return np.asarray(found)
    except (TypeError, ValueError, NotImplementedError):  # a dictionary array of pyarrow
        return np.asarray(found.to_pylist())


def label_name(x, y):
    """A name for the labels y. A column of x with this name is not used as a feature, so it must have the same values as y."""
    name = getattr(y, "name", None)
    name = str(name) if isinstance(name, (str, int)) else "label"
    while (found := column(x, name)) is not None and not _are_equal(found, np.asarray(y)):
        name += "_"
    return name


def _are_equal(a, b):
    try:
        return np.array_equal(a, b)
    except (TypeError, ValueError):  # pandas.NA
        return False


def stream_of(x):
    """The address of an ArrowArrayStream, and an object that must live as long as it is used."""
    names = x.columns if is_pandas(x) else getattr(getattr(x, "schema", None), "names", ())
    for name in names() if callable(names) else names:
        if "\0" in str(name):  # pyarrow truncates it; polars aborts the process
            from ._native import UsageError
            raise UsageError(f"the name of the column {name!r} contains a null character: rename it")
    if is_pandas(x):
        try:
            import pyarrow
        except ImportError:
            stream = NumpyStream(x)
            return ctypes.addressof(stream.stream), stream
        x = pyarrow.Table.from_pandas(x, preserve_index=False)  # x.__arrow_c_stream__() has the index, as a column
    capsule = x.__arrow_c_stream__()
    return _pointer_of(capsule, b"arrow_array_stream"), capsule


# ---- pandas without pyarrow

class CSchema(Structure):
    _fields_ = [("format", c_char_p), ("name", c_char_p), ("metadata", c_char_p), ("flags", c_int64), ("n_children", c_int64),
                ("children", c_void_p), ("dictionary", c_void_p), ("release", c_void_p), ("private_data", c_void_p)]


class CArray(Structure):
    _fields_ = [("length", c_int64), ("null_count", c_int64), ("offset", c_int64), ("n_buffers", c_int64), ("n_children", c_int64),
                ("buffers", c_void_p), ("children", c_void_p), ("dictionary", c_void_p), ("release", c_void_p),
                ("private_data", c_void_p)]


class CStream(Structure):
    _fields_ = [(name, c_void_p) for name in ("get_schema", "get_next", "get_last_error", "release", "private_data")]


class NumpyStream:
    """One Arrow array with the columns of a DataFrame. Contiguous columns of numbers are not copied."""

    FORMATS = {"i1": b"c", "u1": b"C", "i2": b"s", "u2": b"S", "i4": b"i", "u4": b"I", "i8": b"l", "u8": b"L", "f2": b"e", "f4": b"f",
               "f8": b"g"}

    def __init__(self, frame):
        self.kept = []  # memory that the structures point to
        self.taken = False
        columns = [self._column(name, frame.iloc[:, i]) for i, name in enumerate(frame.columns)]
        schemas, arrays = zip(*columns) if columns else ((), ())
        self.schema, self.array = self._pair(b"+s", "", len(frame), [None], children=(schemas, arrays))
        get, end = CFUNCTYPE(c_int, c_void_p, c_void_p), CFUNCTYPE(None, c_void_p)
        functions = (get(self._get_schema), get(self._get_next), CFUNCTYPE(c_char_p, c_void_p)(lambda _: None),
                     end(lambda stream: self._release(CStream, stream)))
        self.kept += functions
        self.stream = CStream(*(ctypes.cast(f, c_void_p) for f in functions))

    # ---- functions of the stream

    @staticmethod
    def _release(kind, address):
        kind.from_address(address).release = None

    def _hand_over(self, kind, filled, out):
        release = CFUNCTYPE(None, c_void_p)(lambda address: self._release(kind, address))
        self.kept.append(release)
        filled.release = ctypes.cast(release, c_void_p)
        ctypes.memmove(out, ctypes.addressof(filled), ctypes.sizeof(filled))
        return 0

    def _get_schema(self, _, out):
        return self._hand_over(CSchema, self.schema, out)

    def _get_next(self, _, out):
        if self.taken:
            ctypes.memset(out, 0, ctypes.sizeof(CArray))
            return 0
        self.taken = True
        return self._hand_over(CArray, self.array, out)

    # ---- columns

    def _addresses(self, values):
        array = (c_void_p * max(1, len(values)))(*values)
        self.kept.append(array)
        return ctypes.addressof(array)

    def _pair(self, form, name, length, buffers, children=((), ()), dictionary=(None, None), nulls=0):
        """The schema and the array of a column, or of the table."""
        self.kept += [*buffers, *children[0], *children[1], *dictionary]
        at = [[ctypes.addressof(child) for child in part] for part in children]
        inner = [part and ctypes.addressof(part) for part in dictionary]
        schema = CSchema(form, name.encode(), None, 2, len(at[0]), self._addresses(at[0]), inner[0], None, None)
        array = CArray(length, nulls, 0, len(buffers), len(at[1]), self._addresses(
            [None if b is None else b.ctypes.data for b in buffers]), self._addresses(at[1]), inner[1], None, None)
        return schema, array

    def _numbers(self, name, values, valid, form=None):
        values = np.require(values, requirements=("C", "A"))
        form = form or self.FORMATS[values.dtype.str[1:]]
        return self._pair(form, name, len(values), [valid, values], nulls=0 if valid is None else -1)

    def _texts(self, name, texts):
        texts = [text if isinstance(text, bytes) else str(text).encode() for text in texts]
        offsets = np.cumsum([0, *map(len, texts)], dtype=np.int64)
        return self._pair(b"U", name, len(texts), [None, offsets, np.frombuffer(b"".join(texts) + b"\0", np.uint8)])

    def _categories(self, name, codes, dictionary, valid):
        codes = np.ascontiguousarray(codes)
        return self._pair(self.FORMATS[codes.dtype.str[1:]], name, len(codes), [valid, codes], dictionary=dictionary,
                          nulls=0 if valid is None else -1)

    def _column(self, name, s):
        missing = s.isna().to_numpy()
        valid = np.packbits(~missing, bitorder="little") if missing.any() else None
        if hasattr(s, "cat"):
            values = s.cat.categories
            dictionary = self._column("", values.to_series()) if getattr(values.dtype, "kind", "O") in "biufM" else self._texts("", values)
            return self._categories(name, s.cat.codes.to_numpy(), dictionary, valid)
        kind = getattr(s.dtype, "kind", "O")
        if kind == "f" and isinstance(s.dtype, np.dtype):
            return self._numbers(name, s.to_numpy(), None)  # NaN is a missing value
        if kind in "biuf":
            values = s.to_numpy() if isinstance(s.dtype, np.dtype) else s.to_numpy(s.dtype.numpy_dtype, na_value=0)
            return self._booleans(name, values, valid) if kind == "b" else self._numbers(name, values, valid)
        if kind in "Mm":
            return self._times(name, s, valid)
        return self._objects(name, s, valid)

    def _booleans(self, name, values, valid):
        return self._pair(b"b", name, len(values), [valid, np.packbits(values, bitorder="little")],
                          nulls=0 if valid is None else -1)

    def _times(self, name, s, valid):
        if getattr(s.dt, "tz", None) is not None:
            s = s.dt.tz_convert("UTC").dt.tz_localize(None)
        values = s.to_numpy()
        unit = {"s": "s", "ms": "m", "us": "u", "ns": "n"}[np.datetime_data(values.dtype)[0]]
        form = f"ts{unit}:" if values.dtype.kind == "M" else f"tD{unit}"
        return self._numbers(name, values.view(np.int64), valid, form.encode())

    def _objects(self, name, s, valid):
        """Strings; or what pyarrow would make of Python objects: numbers, booleans, dates."""
        import datetime
        codes, values = s.factorize()
        types = {type(value) for value in values}
        at = np.maximum(codes, 0)
        if types and types <= {bool, np.bool_}:
            return self._booleans(name, np.asarray(values, bool)[at], valid)
        if types and types <= {int, float, np.int64, np.float64}:
            return self._numbers(name, np.asarray(values, float)[at], valid)
        if types == {datetime.date}:
            return self._numbers(name, np.asarray(values, "datetime64[D]").astype(np.int32)[at], valid, b"tdD")
        if types <= {str, bytes}:
            return self._categories(name, codes, self._texts("", values), valid)
        from ._native import UsageError
        raise UsageError(f"the column {name!r} has values of different types ({', '.join(sorted(t.__name__ for t in types))}): "
                         "convert it to numbers or strings, or leave it out")
