"""yoke's safetensors files and Python's have the same format: each side reads what the other wrote.

Exit status: 0 passed, 77 skipped (the last line says why), else failed. YK_BUILD is the build directory.
"""
import os
import subprocess
import tempfile

from program import packages

with packages():
    import numpy as np
    import safetensors
    from safetensors.numpy import save_file

PROGRAM = os.path.join(os.environ["YK_BUILD"], "test_safetensors")


def check(ours, expected, what):
    assert ours.dtype == expected.dtype, (what, ours.dtype, expected.dtype)
    assert ours.shape == expected.shape, (what, ours.shape, expected.shape)
    assert ours.tobytes() == expected.tobytes(), (what, ours, expected)


def python_reads_ours(directory):
    path = os.path.join(directory, "ours.safetensors")
    subprocess.run([PROGRAM, "--write", path], check=True)
    expected = {
        "bytes": np.array([1, 2, 255], np.uint8),
        "weight": np.array([[0.5, -1.25, 3e-30], [4e30, 0, -0.0]], np.float32),
        "losses": np.array([0.1, 1e300], np.float64),
        "step": np.array(-5000000000, np.int64),
        "clés": np.array([33762577, 4000000000], np.uint32),
        "empty": np.zeros((0, 7), np.int32),
        "long": np.arange(312501, dtype=np.uint64),
    }
    with safetensors.safe_open(path, "numpy") as f:
        assert set(f.keys()) == set(expected), f.keys()
        for name, value in expected.items():
            check(f.get_tensor(name), value, name)
        assert f.metadata() == {"step": "1200", "said": 'a "quoted"\nline'}, f.metadata()


def we_read_pythons(directory):
    path = os.path.join(directory, "theirs.safetensors")
    rng = np.random.default_rng(1)
    tensors = {
        "a.weight": rng.normal(size=(3, 5)).astype(np.float32),
        "b": np.arange(7, dtype=np.uint8),
        "scalar": np.array(3.25, np.float64),
        "ü": np.array([[[-1]], [[2**31 - 1]]], np.int32),
        "big": np.array([2**63 + 5], np.uint64),
        "none": np.zeros((3, 0), np.int64),
        "keys": np.array([2**32 - 1], np.uint32),
    }
    save_file(tensors, path, metadata={"said": "hello"})
    out = subprocess.run([PROGRAM, "--read", path], check=True, capture_output=True, text=True).stdout
    names = {"float32": "F32", "float64": "F64", "uint8": "U8", "int32": "I32", "int64": "I64",
             "uint32": "U32", "uint64": "U64"}
    lines = set(out.splitlines())
    for name, value in tensors.items():
        shape = "".join(f" {n}" for n in value.shape)
        data = "".join(f" {b:02x}" for b in value.tobytes())
        line = f"{name} {names[value.dtype.name]}{shape} ={data}"
        assert line in lines, (line, out)
    assert "said hello" in lines, out
    assert len(lines) == len(tensors) + 1, out


def both_refuse(directory):
    """Files that Python's reader rejects are rejected by yoke, too."""
    good = os.path.join(directory, "ours.safetensors")
    data = open(good, "rb").read()
    begin = 8 + int.from_bytes(data[:8], "little")
    broken = {
        "cut": data[:-1],
        "longer": data + b"\0",
        "header cut": data[:40],
        "length": (2**40).to_bytes(8, "little") + data[8:],
        "offsets": data[:begin].replace(b'"data_offsets":[0,16]', b'"data_offsets":[1,17]') + data[begin:],
        "brace": data[:8] + b"[" + data[9:],
    }
    for what, content in broken.items():
        assert content != data, what
        path = os.path.join(directory, "broken.safetensors")
        with open(path, "wb") as f:
            f.write(content)
        try:
            with safetensors.safe_open(path, "numpy"):
                raise AssertionError(f"Python accepted it: {what}")
        except safetensors.SafetensorError:
            pass
        ours = subprocess.run([PROGRAM, "--read", path], capture_output=True, text=True)
        assert ours.returncode == 1 and path in ours.stdout, (what, ours)


with tempfile.TemporaryDirectory() as where:
    python_reads_ours(where)
    we_read_pythons(where)
    both_refuse(where)
print("safetensors: both sides read each other")
