"""Runs the program under test, for the tests in this directory.

    from program import yoke
    text = yoke("train", "--model", "softmax", "--epochs", 3)        # returns stdout; exit status must be 0
"""
import os
import subprocess
import sys

YOKE = os.path.join(os.environ["YK_BUILD"], "yoke")
if not os.access(YOKE, os.X_OK):
    print(f"{YOKE} does not exist")
    sys.exit(77)


def yoke(*words):
    done = subprocess.run([YOKE, *map(str, words)], capture_output=True, text=True)
    assert done.returncode == 0, (words, done.returncode, done.stderr)
    return done.stdout
