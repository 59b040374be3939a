"""Training on a Ray cluster.

    import ray, yoke.ray
    ray.init(address="auto")
    run = yoke.ray.train("softmax", "csv:/shared/a.csv?label=y", processes=4, cpus=2, mode="async", out="/shared/runs/a")

Each process of the job is `yoke train`, which a Ray actor runs with the variables that torchrun would set. yoke must be installed on
every node. The processes connect to each other directly, and authenticate with a token that the caller creates.
"""
import collections
import io
import json
import os
import signal
import socket
import subprocess
import sys
import tarfile
import tempfile
import time

import ray

from . import _native, _run
from ._texts import summary_in_python

_ENGINES = ("OMPI_", "PMI_", "PMIX_", "SLURM_", "YOKE_", "MPI_")


@ray.remote(max_concurrency=2, max_restarts=0)
class _Process:
    """One process of the job; stop() runs while run() waits for it."""

    def __init__(self):
        self.process, self.stopped = None, False

    def where(self):
        """The node, its address, and a free port there."""
        with socket.socket() as s:
            s.bind(("", 0))
            return ray.get_runtime_context().get_node_id(), ray.util.get_node_ip_address(), s.getsockname()[1]

    def run(self, words, variables, temporary):
        """Returns the exit status, stdout, the last lines of stderr, and the run directory as a tar file if it is temporary."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith(_ENGINES)}
        with tempfile.TemporaryDirectory(prefix="yoke-ray-") as directory:
            words = [_native.PROGRAM, "train", *words, "--json"] + (["--out", directory + "/run"] if temporary else [])
            self.process = subprocess.Popen(words, env={**environment, **variables}, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                            text=True, errors="replace")
            if self.stopped:
                self.stop()
            last = collections.deque(maxlen=20)
            for line in self.process.stderr:
                last.append(line)
                sys.stderr.write(line)  # Ray shows it to the caller
            out = self.process.stdout.read()
            packed = io.BytesIO()
            if temporary and os.path.isdir(directory + "/run"):
                with tarfile.open(fileobj=packed, mode="w") as tar:
                    tar.add(directory + "/run", ".")
            return self.process.wait(), out, "".join(last), packed.getvalue()

    def stop(self):
        self.stopped = True
        if self.process:
            self.process.send_signal(signal.SIGTERM)


def _words(options):
    """Arguments of yoke train."""
    words = []
    for name, value in options.items():
        if value is not None and value is not False:
            words += ["--" + name.replace("_", "-")] + ([] if value is True else [_native.option_text(value)])
    return words


def _wait(actors, results):
    """Ctrl-C saves and ends the job."""
    while True:
        try:
            return ray.get(results)
        except KeyboardInterrupt:
            ray.get([a.stop.remote() for a in actors])
        except ray.exceptions.RayError as error:
            raise _native.TrainingError(f"a process of the job was lost: {error}") from None


def train(model=None, data=None, test=None, *, processes, cpus=1, resources=None, out=None, **options):
    """Trains with `processes` processes on the cluster, and returns a yoke.Run.

    model, data, test and **options are the options of `yoke train`, as in yoke.train(). Data is a path or spec that every node can
    read. cpus is the number of cores of each process (workers=cpus unless it is given), resources as in Ray.

    out     a directory on storage that all nodes share; "none": nothing is saved; None: the run directory is copied to the caller,
            to a new directory in runs/
    """
    options.setdefault("workers", cpus)
    if out is not None:
        options["out"] = os.fspath(out)
    actors = [_Process.options(num_cpus=cpus, resources=resources, scheduling_strategy="SPREAD").remote() for _ in range(processes)]
    try:
        places = ray.get([a.where.remote() for a in actors])
        nodes = [node for node, _, _ in places]
        common = {"WORLD_SIZE": str(processes), "MASTER_ADDR": places[0][1], "YOKE_PORT": str(places[0][2]),
                  "YOKE_TOKEN": os.urandom(32).hex()}
        words = _words({"model": model, "data": data, "test": test, **options})
        results = _wait(actors, [a.run.remote(words, {**common, "RANK": str(r), "LOCAL_RANK": str(nodes[:r].count(nodes[r])),
                                                      "LOCAL_WORLD_SIZE": str(nodes.count(nodes[r]))}, out is None)
                                 for r, a in enumerate(actors)])
    finally:
        for a in actors:
            ray.kill(a)
    failed = [r for r, (status, *_) in enumerate(results) if status]
    if failed:  # ranks that were ended by another one fail, too; rank 0 has the error of the job
        status, _, last, _ = results[failed[0]]
        raise _native.ERRORS.get(status, _native.TrainingError)(last.strip() or f"rank {failed[0]} ended with status {status}")
    directory = None if out == "none" else options.get("out")
    if out is None:
        directory = f"runs/ray-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}"
        with tarfile.open(fileobj=io.BytesIO(results[0][3])) as tar:
            tar.extractall(directory, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
    summary = summary_in_python(json.loads(results[0][1].splitlines()[-1]))
    return _run.Run(summary, _run.read_evaluations(directory) if directory else [], directory)
