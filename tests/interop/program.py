"""Runs the program under test, for the tests in this directory.

    from program import find_torch, packages, saved, yoke
    with packages():                                                 # skips the test if one is not installed
        import numpy as np
    text = yoke("train", "--model", "softmax", "--epochs", 3)        # returns stdout; exit status must be 0
    model = saved("run")                                             # the path of its safetensors file
    torch = find_torch()                                             # PyTorch, or None: ./dev test does not install it
"""
import contextlib
import glob
import os
import subprocess
import sys

YOKE = os.path.join(os.environ["YK_BUILD"], "yoke")
if not os.access(YOKE, os.X_OK):
    print(f"{YOKE} does not exist")
    sys.exit(77)


@contextlib.contextmanager
def packages():
    try:
        yield
    except ImportError as missing:
        print(f"Python package {missing.name} is not installed (./dev peers installs it)")
        sys.exit(77)


def saved(run):
    return glob.glob(os.path.join(run, "checkpoints", "step-*", "model.safetensors"))[-1]


def find_torch():
    """PyTorch; None: it is not installed, which the summary of ./dev test says."""
    try:
        import torch
        torch.set_num_threads(1)
        return torch
    except ImportError:
        print("skip: the comparison with PyTorch: Python package torch is not installed (./dev peers installs it)")
        return None


def yoke(*words):
    done = subprocess.run([YOKE, *map(str, words)], capture_output=True, text=True)
    assert done.returncode == 0, (words, done.returncode, done.stderr)
    return done.stdout
