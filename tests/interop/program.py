"""The program under test, for those of the tests beside this file that run it.

    from program import yoke
    text = yoke("train", "--model", "softmax", "--epochs", 3)        # stdout; it must end well
"""
import os
import subprocess
import sys

YOKE = os.path.join(os.environ["YK_BUILD"], "yoke")
if not os.access(YOKE, os.X_OK):
    print(f"there is no {YOKE}")
    sys.exit(77)


def yoke(*words):
    done = subprocess.run([YOKE, *map(str, words)], capture_output=True, text=True)
    assert done.returncode == 0, (words, done.returncode, done.stderr)
    return done.stdout
