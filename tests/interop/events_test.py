"""TensorBoard's own loader reads back every value of yoke's event files, and every file of real runs.

Exit status: 0 passed, 77 skipped (the last line says why), else failed. YK_BUILD is the build directory.
"""
import math
import os
import shutil
import struct
import subprocess
import tempfile

from program import packages

with packages():
    from tensorboard.backend.event_processing import (data_provider, event_accumulator, event_file_loader,
                                                      plugin_event_multiplexer)
    from tensorboard.context import RequestContext
    from tensorboard.plugins import base_plugin
    from tensorboard.plugins.hparams import api_pb2, backend_context, get_experiment, list_session_groups

PROGRAM = os.path.join(os.environ["YK_BUILD"], "test_events")
YOKE = os.path.join(os.environ["YK_BUILD"], "yoke")


def f32(x):
    return struct.unpack("f", struct.pack("f", x))[0]


def close(a, b):
    return abs(a - b) <= 1e-6 * abs(b)


def accumulator_reads(directory):
    """The reader that TensorBoard's pages use."""
    keep_all = {"scalars": 0, "histograms": 0, "tensors": 0, "compressedHistograms": 0}
    events = event_accumulator.EventAccumulator(directory, size_guidance=keep_all)
    events.Reload()
    loss = [(e.wall_time, e.step, e.value) for e in events.Scalars("loss")]
    assert len(loss) == 200, len(loss)
    for i, (wall, step, value) in enumerate(loss):
        assert wall == 1700000000.25 + i and step == 10 * i and close(value, 1 / (i + 1)), (i, wall, step, value)
    rates = [e.value for e in events.Scalars("rate/examples")]
    assert rates == [f32(i * 1e6) for i in range(200)], rates[:5]
    assert [e.value for e in events.Scalars("größe")] == [-0.5] * 200
    odd = [e.value for e in events.Scalars("odd")]
    assert math.isnan(odd[0]) and odd[1] == -math.inf, odd
    (histogram,) = events.Histograms("staleness")
    h = histogram.histogram_value
    assert (histogram.step, h.min, h.max, h.num, h.sum, h.sum_squares) == (42, 0, 7, 60, 100, 250), histogram
    assert list(h.bucket_limit) == [0, 1, 3, 7] and list(h.bucket) == [10, 20, 25, 5], h


def graph_of(directory):
    """The graph, through TensorBoard's own parser."""
    events = event_accumulator.EventAccumulator(directory)
    events.Reload()
    assert events.Tags()["graph"], events.Tags()
    return events.Graph()


def graph_is_read(directory):
    nodes = {n.name: n for n in graph_of(directory).node}
    assert list(nodes) == ["input", "conv_1", "loss"], list(nodes)
    conv = nodes["conv_1"]
    assert conv.op == "conv" and list(conv.input) == ["input"], conv
    assert conv.attr["parameters"].i == 156 and conv.attr["layer"].s == b"conv 6 5x5 same", conv
    (shape,) = conv.attr["_output_shapes"].list.shape
    assert [d.size for d in shape.dim] == [-1, 6, 28, 28], shape


def modern_loader_reads(directory):
    """The reader that converts old summaries to new ones: it keeps the counts of a histogram."""
    (name,) = os.listdir(directory)
    assert name.startswith("events.out.tfevents."), name
    events = list(event_file_loader.EventFileLoader(os.path.join(directory, name)).Load())
    assert events[0].file_version == "brain.Event:2", events[0]
    values = {}
    for e in events[1:]:
        for v in e.summary.value:
            values.setdefault(v.tag, []).append((e.step, v))
    assert len(values["loss"]) == 200 and values["loss"][3][1].metadata.plugin_data.plugin_name == "scalars"
    ((step, h),) = values["staleness"]
    assert step == 42 and h.metadata.plugin_data.plugin_name == "histograms", h


def run_is_read(where, name, options, workers, layers):
    """A real run: one directory per worker, the documented tags, and the layers as a chain in the graph."""
    out = os.path.join(where, name)
    subprocess.run([YOKE, "train", *options, "--workers", str(workers), "--out", out, "--quiet", "--sample-every", "0.1",
                    "--tensorboard-workers"],
                   check=True, stdout=subprocess.DEVNULL)
    chief = {"train/loss", "train/mean_loss", "train/learning_rate", "test/loss", "test/accuracy",
             "speed/global_step_per_second", "rank0/cpu", "rank0/memory", "rank0/sent", "rank0/received",
             "rank0/disk_read", "rank0/disk_written", "rank0/host_cpu", "rank0/host_memory"}
    for i in range(-1, workers):
        directory = out if i < 0 else os.path.join(out, f"worker-{i}")
        (path,) = [p for p in os.listdir(directory) if p.startswith("events.out.tfevents.")]
        loaded = list(event_file_loader.EventFileLoader(os.path.join(directory, path)).Load())
        assert loaded[0].file_version == "brain.Event:2" and len(loaded) > 2, (path, len(loaded))
        events = event_accumulator.EventAccumulator(directory, size_guidance={"scalars": 0, "histograms": 0})
        events.Reload()
        tags = set(events.Tags()["scalars"])
        wanted = {"speed/examples_per_second", "phases/compute"} | (chief if i < 0 else set())
        assert wanted <= tags, (name, i, wanted - tags)
        shares = [[e.value for e in events.Scalars(t)] for t in tags if t.startswith("phases/")]
        assert len(shares) == 9 and all(abs(sum(at) - 1) < 1e-3 for at in zip(*shares)), (name, i, shares)
        if "async" in options:
            h = events.Histograms("train/staleness")[-1].histogram_value
            assert h.num > 0 and abs(sum(h.bucket) - h.num) < 1e-9, h
    nodes = [(n.name, n.op, list(n.input)) for n in graph_of(out).node]
    assert [op for _, op, _ in nodes] == layers, nodes
    for before, after in zip(nodes, nodes[1:]):
        assert after[2] == [before[0]], nodes


def hyperparameters_are_read(where):
    """The runs as rows of the HParams tab, through the plug-in itself."""
    events = plugin_event_multiplexer.EventMultiplexer()
    events.AddRunsFromDirectory(where)
    events.Reload()
    data = data_provider.MultiplexerDataProvider(events, where)
    context = backend_context.Context(base_plugin.TBContext(data_provider=data))
    request = RequestContext()
    experiment = get_experiment.Handler(request, context, "", api_pb2.GetExperimentRequest()).run()
    assert {"model", "mode", "optimizer", "lr", "batch", "workers"} <= {h.name for h in experiment.hparam_infos}, experiment
    rows = api_pb2.ListSessionGroupsRequest(slice_size=9, allowed_statuses=[api_pb2.STATUS_SUCCESS])
    for metric in experiment.metric_infos:
        rows.col_params.add().metric.CopyFrom(metric.name)
    found = {g.name: g for g in list_session_groups.Handler(request, context, "", rows).run().session_groups}
    assert set(found) == {"sync", "async", "net"}, found
    sync = found["sync"]
    assert sync.hparams["batch"].number_value == 10 and sync.hparams["model"].string_value == "softmax", sync
    assert sync.hparams["lr"].number_value == 0.1 and found["async"].hparams["mode"].string_value == "async", found
    assert any(v.name.tag == "test/accuracy" and v.value > 0.5 for v in sync.metric_values), sync


with tempfile.TemporaryDirectory() as where:
    run = os.path.join(where, "run")
    subprocess.run([PROGRAM, "--write", run], check=True)
    accumulator_reads(run)
    modern_loader_reads(run)
    graph_is_read(run)
    shutil.rmtree(run)
    digits = ["--data", "synth:digits?examples=4000"]
    run_is_read(where, "sync", ["--model", "softmax", *digits, "--epochs", "30", "--batch", "10"], 2,
                ["input", "softmax", "loss"])
    run_is_read(where, "async", ["--model", "logreg", "--data", "synth:ctr?features=100000&examples=400000", "--mode",
                                 "async", "--batch", "100", "--epochs", "4"], 2, ["input", "logreg", "loss"])
    run_is_read(where, "net", ["--model", "conv 4 5x5, relu, maxpool 2, dense 10", *digits, "--epochs", "2"], 1,
                ["input", "conv", "relu", "maxpool", "dense", "loss"])
    hyperparameters_are_read(where)
print("events: TensorBoard read every value back, and every file of three runs")
