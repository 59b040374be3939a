"""The code of examples/assignment.ipynb runs from the first cell to the last.

Runs with the wheel in an environment of its own (./dev test python). Exit status: 0 passed, else failed.
"""
import json
import os
import shutil

from program import main

NOTEBOOK = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples", "assignment.ipynb")


def test_notebook():
    with open(NOTEBOOK) as f:
        notebook = json.load(f)
    names = {}
    try:
        for number, cell in enumerate(notebook["cells"]):
            if cell["cell_type"] == "code":
                assert not cell["outputs"], f"cell {number}: clear the outputs before a commit"
                exec(compile("".join(cell["source"]), f"cell {number}", "exec"), names)
        assert os.path.getsize(names["page"]) > 1000
    finally:
        shutil.rmtree(names.get("directory", "/nonexistent"), ignore_errors=True)


if __name__ == "__main__":
    main(globals())
