"""yoke.ray.train() on a local cluster of Ray. Exit status 77: Ray is not installed."""
import json
import os
import signal
import sys
import tempfile
import threading
import time

try:
    import ray
except ImportError:
    print("Ray is not installed (pip install ray)")
    sys.exit(77)

import yoke
import yoke.ray
from program import main

DATA = "synth:digits?examples=507"


def test_run_directory_on_shared_storage():
    with tempfile.TemporaryDirectory() as directory:
        run = yoke.ray.train("softmax", DATA, processes=3, batch=10, out=directory + "/run")
        assert run["ranks"] == 3 and run["examples"] == 507, run.summary
        assert run.directory == directory + "/run"
        one = yoke.train("softmax", DATA, batch=10, launch=3, out=directory + "/launched")
        assert run["test_loss"] == one["test_loss"], (run["test_loss"], one["test_loss"])
        assert list(run.curves["test_loss"]) == list(one.curves["test_loss"])


def test_ctrl_c_saves_and_returns_the_run():
    with tempfile.TemporaryDirectory() as directory:
        def interrupt():
            while not os.path.exists(directory + "/run/metrics.jsonl"):
                time.sleep(0.05)
            os.kill(os.getpid(), signal.SIGINT)
        signal.signal(signal.SIGINT, signal.default_int_handler)  # programs in the background ignore it
        thread = threading.Thread(target=interrupt)
        thread.start()
        run = yoke.ray.train("softmax", DATA, processes=2, batch=10, epochs=1000000, out=directory + "/run")
        thread.join()
        assert run["interrupted"] and run["state"] == "stopped" and run.model is not None, run.summary


def test_run_directory_is_returned():
    with tempfile.TemporaryDirectory() as directory:
        os.chdir(directory)
        try:
            run = yoke.ray.train("softmax", DATA, processes=2, batch=10, mode="async", servers=1)
            assert run.directory.startswith("runs/ray-") and run["servers"] == 1, run.summary
            assert run.predict_proba(DATA).shape == (507, 10)
            with open(run.directory + "/summary.json") as f:
                assert json.load(f)["examples"] == 507
            assert not os.path.exists(run.directory + "/join")
        finally:
            os.chdir("/")


def test_errors_are_exceptions():
    for options, error, text in (({"servers": 2}, yoke.UsageError, "--servers 2"),
                                 ({"lr": 1e9, "epochs": 50}, yoke.TrainingError, "diverged")):
        try:
            yoke.ray.train("softmax", DATA, processes=2, out="none", **options)
        except error as e:
            assert text in str(e), e
        else:
            raise AssertionError(f"{options}: no error")


if __name__ == "__main__":
    # 3 processes on any machine; nothing leaves it
    ray.init(num_cpus=3, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    try:
        main(globals())
    finally:
        ray.shutdown()
