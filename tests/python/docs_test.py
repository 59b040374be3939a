"""The Python examples of docs/python.md run, in order.

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


if __name__ == "__main__":
    main(globals())
