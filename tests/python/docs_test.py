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
    with open(PAGE) as f:
        head, rows = re.search(r"^\| parameter \|(.*)\n\|[-|]+\n((?:\|.*\n)+)", f.read(), re.M).groups()
    columns = [re.findall(r"`(\w+)`", cell) for cell in head.split("|")[:3]]
    written = {name: {} for names in columns for name in names}
    for row in rows.splitlines():
        parameters, *defaults = row.strip("|").split("|")[:4]
        for names, default in zip(columns, defaults):
            if default.strip() != "-":
                for name in names:
                    known = [p for p in re.findall(r"`(\w+)`", parameters) if p in getattr(yoke, name)().get_params()]
                    written[name].update(dict.fromkeys(known, eval(default.strip(" `"))))
    assert len(written) == 4
    for name, defaults in written.items():
        assert defaults == getattr(yoke, name)().get_params(), name
        described = set(re.findall(r"\w+", getattr(yoke, name).__doc__ + yoke.LogisticRegression.__doc__))
        assert set(defaults) <= described, (name, set(defaults) - described)


if __name__ == "__main__":
    main(globals())
