"""TensorBoard's own loader reads back every value of our event files.

Exit status: 0 passed, 77 skipped (the last line says why), else failed. YK_BUILD names the build folder.
"""
import math
import os
import struct
import subprocess
import sys
import tempfile

try:
    from tensorboard.backend.event_processing import event_accumulator, event_file_loader
except ImportError as missing:
    print(f"no Python package {missing.name} (./dev peers installs it)")
    sys.exit(77)

PROGRAM = os.path.join(os.environ["YK_BUILD"], "test_events")


def f32(x):
    return struct.unpack("f", struct.pack("f", x))[0]


def close(a, b):
    return abs(a - b) <= 1e-6 * abs(b)


def accumulator_reads(folder):
    """The reader behind TensorBoard's pages."""
    keep_all = {"scalars": 0, "histograms": 0, "tensors": 0, "compressedHistograms": 0}
    events = event_accumulator.EventAccumulator(folder, size_guidance=keep_all)
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


def modern_loader_reads(folder):
    """The reader that turns old summaries into new ones: it knows our text, and keeps the counts of a histogram."""
    (name,) = os.listdir(folder)
    assert name.startswith("events.out.tfevents."), name
    events = list(event_file_loader.EventFileLoader(os.path.join(folder, name)).Load())
    assert events[0].file_version == "brain.Event:2", events[0]
    values = {}
    for e in events[1:]:
        for v in e.summary.value:
            values.setdefault(v.tag, []).append((e.step, v))
    assert len(values["loss"]) == 200 and values["loss"][3][1].metadata.plugin_data.plugin_name == "scalars"
    ((step, text),) = values["config"]
    assert step == 0 and text.metadata.plugin_data.plugin_name == "text", text
    assert text.tensor.string_val[0].decode() == "| a | b |\n|---|---|\n| 1 | ü |", text
    ((step, h),) = values["staleness"]
    assert step == 42 and h.metadata.plugin_data.plugin_name == "histograms", h


with tempfile.TemporaryDirectory() as where:
    run = os.path.join(where, "run")
    subprocess.run([PROGRAM, "--write", run], check=True)
    accumulator_reads(run)
    modern_loader_reads(run)
print("events: TensorBoard read every value back")
