"""A second reader of Vowpal Wabbit's text, by regular expressions, to compare with data/vw.c.

    vw_reference.py write FILE              random lines, good and bad
    vw_reference.py check FILE LIBSVM BITS  LIBSVM must have exactly the rows that FILE's good lines describe
"""
import random
import re
import struct
import sys

MASK = 2**64 - 1
NUMBER = r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"


def mix(z):
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & MASK
    z = (z ^ z >> 27) * 0x94D049BB133111EB & MASK
    return z ^ z >> 31


def hashed(salt, text):
    data = text.encode("latin1")
    h = salt
    for i in range(0, len(data) - 7, 8):
        h = (h ^ int.from_bytes(data[i : i + 8], "little")) * 0xD1342543DE82EF95 & MASK
        h ^= h >> 29
    h ^= int.from_bytes(data[len(data) // 8 * 8 :], "little")
    return mix(h + len(data) * 0x9E3779B97F4A7C15 & MASK)


def single(x):
    try:
        return struct.unpack("f", struct.pack("f", x))[0]
    except OverflowError:
        return float("inf")


def number(text):
    return float(text) if re.fullmatch(NUMBER, text) else None


def parse(line, bits):
    """(label, {index: value}) of a line; None: it is bad; (): it is empty."""
    if "|" not in line:
        return None if re.search("[^\0- ]", line) else ()
    before, rest = line.split("|", 1)
    words = re.findall("[^\0- ]+", before)
    touches = before[-1:] > " "
    tag = None
    if words and (touches or words[-1][0] == "'"):
        tag = words.pop()
    if not words or len(words) > 3 or [w for w in words if number(w) is None]:
        return None
    label, *weights = [number(w) for w in words]
    if label not in (-1, 1) or (weights and weights[0] < 0):
        return None
    if touches and len(words) == 1 and number(tag) is not None:
        return None
    row = {}
    for part in rest.split("|"):
        name = re.match("[^\0- :]*", part).group()
        part = part[len(name) :]
        weight = 1.0
        if part.startswith(":"):
            text = re.match("[^\0- ]*", part[1:]).group()
            part = part[1 + len(text) :]
            weight = number(text)
            if weight is None or abs(single(weight)) == float("inf"):
                return None
        salt = hashed(0, name)
        for token in re.findall("[^\0- ]+", part):
            feature, colon, text = token.partition(":")
            value = number(text) if colon else 1.0
            if not feature or ":" in text or (colon and not text):
                return None
            if value is None:
                if re.fullmatch("[+-]?(nan|inf|infinity)", text, re.I) or re.match(NUMBER + ",", text):
                    return None
                feature, value = token, 1.0
            value = single(single(value) * single(weight))
            if abs(value) == float("inf"):
                return None
            if value:
                index = (hashed(salt, feature) >> 32 << bits) >> 32
                row[index] = row.get(index, 0.0) + value
    return (label > 0, row)


def write(path):
    r = random.Random(7)
    names = ["a", "age", "price", "city", "a-rather-long-name", "12", "0", "exactly8", "sixteen-letters!", "\xe9", "x=1"]
    values = [":1", ":0.25", ":-3", ":1e-3", ":+2.5E1", ":0", ":.5", ":7.", ":paris", ":2024-01-05"]
    bad = [":", ":nan", ":-inf", ":1,5", ":1:2", ":1e999", ":Infinity", ":1e39"]
    before = ["1 ", "-1 ", "+1 ", "1 1 ", "-1 1.0 0 ", "1 'tag", "-1 1 tag", "1 'tag ", "-1\t", "  1 ", "1 1 0 'x", "1.0 x"]
    wrong = ["1", "", "0.5 ", "1 2 ", "1 1 1 ", "x ", "1:2 ", "1 2", "'tag ", "1 1 0 0 ", "1 'a b "]
    with open(path, "w", encoding="latin1", newline="\n") as f:
        for _ in range(4000):
            line = r.choice(wrong if r.random() < 0.1 else before)
            for _ in range(r.randrange(1, 4)):
                line += "|" + r.choice(["", "", "n", "user", "namespace"])
                if r.random() < 0.2:
                    line += r.choice([":2", ":0.5", ":-1"] if r.random() < 0.9 else [":", ":x", ":1e50"])
                for _ in range(r.randrange(40 if r.random() < 0.1 else 5)):
                    line += r.choice([" ", " ", "  ", "\t", "\0", "\v \r"]) + r.choice(names)
                    if r.random() < 0.5:
                        line += r.choice(bad if r.random() < 0.02 else values)
                line += r.choice(["", " "])
            if r.random() < 0.02:
                line = r.choice(["", " ", "1 a b", "|", "1 |", "1 ||a", "1 |a|b|c", "1 | :1", "1 |:1 a", "1 |a " + "b" * 300])
            f.write(line + r.choice(["\n", "\n", "\r\n"]))


def check(path, libsvm, bits):
    with open(path, encoding="latin1", newline="\n") as f:
        wanted = [parse(line.rstrip("\r\n"), bits) for line in f]
    rows = [w for w in wanted if w]
    with open(libsvm) as f:
        found = f.read().splitlines()
    assert len(rows) == len(found), (len(rows), len(found))
    assert 1000 < len(rows) < len(wanted) - 300
    for (label, row), line in zip(rows, found):
        words = line.split()
        assert (float(words[0]) > 0) == label, line
        got = {int(i) - 1: float(v) for i, v in (w.split(":") for w in words[1:])}
        assert got.keys() == row.keys(), (line, row)
        assert all(abs(got[i] - v) <= 1e-5 * max(1, abs(v)) for i, v in row.items()), (line, row)
    print(len(rows), len([w for w in wanted if w is None]))


if sys.argv[1] == "write":
    write(sys.argv[2])
else:
    check(sys.argv[2], sys.argv[3], int(sys.argv[4]))
