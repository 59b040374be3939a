#!/usr/bin/env python3
"""Connects to the ports of the jobs of a test (processes with its YK_JOB) without knowing their token.

    strangers.py --list    prints "PROGRAM ADDRESS" for each TCP socket that listens and each UDP socket that is bound
    strangers.py COUNT     makes COUNT connections to each TCP and Unix socket that listens, until they are made or the jobs
                           have ended, and prints "PORTS CONNECTIONS FILES KILOBYTES": ports found, connections made, and how many
                           descriptors and how much memory any process of the jobs got in addition, at most
"""
import collections, glob, ipaddress, os, random, re, socket, struct, sys, time

MAGIC = b"yoke 4\n\0"
OPEN = 300 # connections to a port at a time


def processes():
    """The yoke processes of the jobs: {pid: program}."""
    job, found = b"YK_JOB=" + os.environ["YK_JOB"].encode(), {}
    for path in glob.glob("/proc/[0-9]*"):
        try:
            program = os.path.basename(os.readlink(path + "/exe"))
            if "python" not in program and job in open(path + "/environ", "rb").read().split(b"\0"):
                found[path[6:]] = program
        except OSError:
            pass # it has ended
    return found


def address(text):
    words = struct.pack("=%dI" % (len(text) // 8), *(int(text[i:i + 8], 16) for i in range(0, len(text), 8)))
    return ipaddress.ip_address(words)


def sockets(pid):
    """Yields (kind, address, port) of its listening TCP and Unix sockets, and of its bound UDP sockets."""
    mine = set()
    for fd in os.listdir(f"/proc/{pid}/fd"):
        found = re.match(r"socket:\[(\d+)\]", os.readlink(f"/proc/{pid}/fd/{fd}"))
        mine |= {found[1]} if found else set()
    for kind in "tcp", "tcp6", "udp", "udp6":
        for line in open(f"/proc/{pid}/net/{kind}").readlines()[1:]:
            field = line.split()
            where, port = field[1].split(":")
            if field[9] in mine and (field[3] == "0A" if kind[0] == "t" else int(port, 16)):
                yield kind, address(where), int(port, 16)
    for line in open(f"/proc/{pid}/net/unix").readlines()[1:]:
        field = line.split()
        if field[6] in mine and field[3] == "00010000" and field[-1].startswith("@"):
            yield "unix", field[-1], 0


def usage(pid):
    """Its open descriptors and its memory in kB."""
    status = open(f"/proc/{pid}/status").read()
    return len(os.listdir(f"/proc/{pid}/fd")), int(re.search(r"VmRSS:\s+(\d+)", status)[1])


def connect(kind, where, port, rng):
    """A connection that is silent, closed halfway, reset, garbage, a handshake with wrong proofs, or slow: returns it with the
    bytes that it still sends, one at a time."""
    s = socket.socket(socket.AF_UNIX if kind == "unix" else socket.AF_INET)
    s.setblocking(False)
    late = b""
    try:
        s.connect("\0" + where[1:] if kind == "unix" else ("127.0.0.1", port))
    except BlockingIOError:
        pass
    try:
        what = rng.randrange(7)
        if what == 1:
            s.shutdown(socket.SHUT_WR)
        elif what == 2:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            s.close()
        elif what == 3:
            s.send(rng.randbytes(rng.randrange(1, 5000)))
        elif what == 4:
            s.send(MAGIC + rng.randbytes(32) + rng.randbytes(rng.randrange(200)))
        elif what == 5:
            s.send(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n")
        elif what == 6:
            late = MAGIC + rng.randbytes(100)
    except OSError:
        pass # closed by the job
    return s, late


def drip(connections):
    for i, (s, late) in enumerate(connections):
        if late:
            try:
                s.send(late[:1])
            except OSError:
                pass
            connections[i] = s, late[1:]


def main(count):
    rng, made, connections = random.Random(1), collections.Counter(), collections.defaultdict(collections.deque)
    first, most, jobs, looked, ended = {}, [0, 0], {}, 0.0, 0
    while not made or min(made.values()) < count:
        if time.monotonic() - looked > 0.5 or not jobs:
            jobs, looked = processes(), time.monotonic()
            ended = 0 if jobs else ended + 1
        if ended > (0 if made else 100):
            break
        there = set()
        for pid in jobs:
            try:
                there |= {p for p in sockets(pid) if p[0][:3] != "udp"}
                now = usage(pid)
                before = first.setdefault(pid, now)
                most = [max(m, n - b) for m, n, b in zip(most, now, before)]
            except (OSError, TypeError):
                pass # it has ended
        for port in there:
            for _ in range(min(10, count - made[port])):
                try:
                    connections[port].append(connect(*port, rng))
                except OSError:
                    pass # its queue is full, or it does not listen any more
                made[port] += 1
            while len(connections[port]) > OPEN:
                connections[port].popleft()[0].close()
            drip(connections[port])
        time.sleep(0.01)
    print(len(made), sum(made.values()), *most)


if sys.argv[1] == "--list":
    for pid, program in processes().items():
        try:
            for kind, where, _ in sockets(pid):
                if kind != "unix":
                    print(program, where)
        except OSError:
            pass
else:
    main(int(sys.argv[1]))
