"""yoke.sweep(): many runs, by the program `yoke sweep`."""
import json
import os
import re
import subprocess

import numpy as np

from . import _native
from ._texts import as_literal, in_python


def _text(name, value):
    """A value of an option in a sweep file; None: the option is left out."""
    text = _native.option_text(value)
    if '"' in text or "\n" in text:
        raise _native.UsageError(f"{name}={text[:100]!r}: a value of a sweep cannot contain double quotes or line breaks")
    return "-" if value is None else f'"{text}"'


def _file(grid, settings, options):
    """The text of a sweep file (src/sweep/file.h)."""
    lines = ["[sweep]", *(f"{name} = {value}" for name, value in settings.items() if value is not None), "[train]"]
    lines += [f"{name.replace('_', '-')} = {_text(name, value)}" for name, value in options.items() if value is not None]
    lines.append("[grid]")
    for name, values in grid.items():
        names = (name,) if isinstance(name, str) else name
        if isinstance(values, (str, dict)) or not np.iterable(values) or not len(values):
            raise _native.UsageError(f"grid: {name!r}: {values!r}: must be a list of at least one value")
        choices = [(value,) if isinstance(name, str) else value for value in values]
        wrong = [choice for choice in choices if not isinstance(choice, (list, tuple)) or len(choice) != len(names)]
        if wrong:
            raise _native.UsageError(f"grid: {name!r}: {wrong[0]!r}: must be a tuple with a value for each of the {len(names)} options")
        left = ", ".join(n.replace("_", "-") for n in names)
        lines.append(f"{left} = {' | '.join(' '.join(map(_text, names, choice)) for choice in choices)}")
    return "\n".join(lines) + "\n"


def sweep(grid, search="grid", *, repeats=1, runs=None, seconds=None, examples=None, out=None, **options):
    """Trains a model for every combination of a grid of options, and returns a list of dicts, one for each run.

    grid      dict: option -> list of values, such as {"lr": [0.1, 0.3], "batch": [32, 128]}; a tuple of options varies together:
              {("mode", "workers"): [("sync", 1), ("async", 2)]}
    search    "grid": trains all runs to the end. "halving": trains all for a short part, the better half for twice as long, and so
              on, by monitor on the validation data, else by the test loss
    repeats   runs of each combination, with different seeds
    runs, seconds    halving: tries this many random combinations, or as many as fit into this time
    examples  the number of examples that each run trains on, instead of epochs or steps
    out       directory of the sweep, for the run directories; the same call continues an interrupted sweep. None or "none": nothing is
              kept
    options   the options that all runs share, as for yoke.train(): model="softmax", data="idx:mnist", epochs=8. Data must be a spec

    Each dict has the options of the grid, seed, state ("done", "diverged", "failed", "not run"), error, directory (None without `out`),
    with "halving" the rung that the run reached, the numbers of runs.csv and of its summary, None if unknown, such as test_loss of a run
    that diverged: pandas.DataFrame(yoke.sweep(...)).
    """
    import tempfile  # here, so that the package is imported quickly

    for name, value in options.items():
        if name in ("data", "test", "validation") and value is not None and not isinstance(value, (str, float, int, os.PathLike)):
            raise _native.UsageError(f"{name}: a sweep needs a spec, such as csv:FILE; use yoke.train() for data in memory")
    if not isinstance(grid, dict):
        raise _native.UsageError(f"grid must be a dict, such as {{\"lr\": [0.1, 0.3]}}, not {type(grid).__name__}")
    grid = {name: values if hasattr(values, "__len__") or not np.iterable(values) else list(values) for name, values in grid.items()}
    out = None if out == "none" else out
    settings = {"search": search, "repeats": repeats, "runs": runs, "seconds": seconds, "examples": examples}
    with tempfile.TemporaryDirectory(prefix="yoke-sweep-") as directory:
        file = os.path.join(directory, "sweep.ini")
        with open(file, "w") as f:
            f.write(_file(grid, settings, options))
        done = subprocess.run([_native.PROGRAM, "sweep", file, "--json", "--quiet", "--no-report", "--out",
                               os.path.join(directory, "runs") if out is None else os.fspath(out)], capture_output=True, text=True)
    try:
        results = json.loads(done.stdout.splitlines()[-1])["runs"]
    except (IndexError, KeyError, ValueError):
        error = _native.ERRORS.get(done.returncode, _native.ResourceError)
        text = re.sub(rf"{re.escape(file)}:(\d+:)?", "sweep:", done.stderr.strip().removeprefix("yoke: error: "))
        raise error(in_python(re.sub(r"\b([a-z]+) = ([^\s:;,]+)", lambda m: f"{m[1]}={as_literal(m[2])}", text))) from None
    given = {n.replace("_", "-"): [v if isinstance(name, str) else v[i] for v in values] for name, values in grid.items()
             for i, n in enumerate((name,) if isinstance(name, str) else name)}
    rows = [_row(run, given, out) for run in results]
    unknown = dict.fromkeys(name for row in rows for name in row)
    return [{**unknown, **row} for row in rows]


def _row(run, given, out):
    """The values of the grid have the types that the caller gave."""
    values = {name: next((v for v in given[name] if _text(name, v).strip('"') == text), text) for name, text in run["options"].items()}
    results = {name: value for name, value in {**run, **(run["summary"] or {})}.items()
               if name != "summary" and (isinstance(value, (int, float)) or value is None)}
    directory = None if out is None else os.path.join(os.fspath(out), run["folder"])
    return {**results, **{name.replace("-", "_"): value for name, value in values.items()}, "seed": run["seed"], "state": run["state"],
            "diverged": run["state"] == "diverged", "error": run["error"], "directory": directory}
