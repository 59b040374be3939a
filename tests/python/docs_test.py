"""The Python examples of docs/python.md run, in order, and its table of defaults agrees with the code.

Runs with the wheel in an environment of its own (./dev test python). Exit status: 0 passed, else failed.
"""
import os
import re
import tempfile

from program import main

PAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs", "python.md")


def test_python_page():
    with open(PAGE) as f:
        blocks = [block for block in re.findall(r"```python\n(.*?)```", f.read(), re.S) if "import torch" not in block]
    assert len(blocks) > 3
    names, here = {}, os.getcwd()
    with tempfile.TemporaryDirectory() as directory:
        os.chdir(directory)
        try:
            for block in blocks:
                exec(block, names)
        finally:
            os.chdir(here)
    assert names["model"].score(names["X"], names["y"]) > 0.8, names["model"].score(names["X"], names["y"])
    assert names["network"].score(names["images"], names["bright"]) > 0.9


def test_defaults():
    import yoke
    linear = ["LogisticRegression", "SoftmaxRegression"]
    written = {name: {} for name in (*linear, "ClickModel", "Network")}
    with open(PAGE) as f:
        tables = re.findall(r"^\| parameter \|(.*)\n\|[-|]+\n((?:\|.*\n)+)", f.read(), re.M)
    for head, rows in tables:
        columns = [linear, ["ClickModel"], ["Network"]] if "linear" in head else [list(written)]
        for row in rows.splitlines():
            parameters, *defaults = row.strip("|").split("|")[:1 + len(columns)]
            for names, default in zip(columns, defaults):
                if default.strip() != "-":
                    for name in names:
                        known = [p for p in re.findall(r"`(\w+)`", parameters) if p in getattr(yoke, name)().get_params()]
                        written[name].update(dict.fromkeys(known, eval(default.strip(" `"))))
    assert len(tables) == 2
    for name, defaults in written.items():
        assert defaults == getattr(yoke, name)().get_params(), name
        described = set(re.findall(r"\w+", getattr(yoke, name).__doc__ + yoke.LogisticRegression.__doc__))
        assert set(defaults) <= described, (name, set(defaults) - described)


if __name__ == "__main__":
    main(globals())
