"""Three hosts on this one: network namespaces with names and addresses of their own, joined by a bridge.

Needs root, iproute2, and a kernel with veth, bridges, tbf and netem. Everything is removed at the end.
"""
import os
import shutil
import subprocess


def sh(*command, check=True):
    return subprocess.run(command, check=check, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def why_not():
    if os.geteuid():
        return "only root may make network namespaces"
    if not shutil.which("ip") or not shutil.which("tc"):
        return "no ip or tc here (iproute2)"
    if sh("unshare", "--net", "--uts", "true", check=False).returncode:
        return "this machine does not allow namespaces"
    return ""


class Lan:
    """Hosts are called host1 .. host3 in the summary, so that a row can name them."""

    def __init__(self, directory):
        self.directory, self.id = directory, os.getpid() % 100000
        self.net = f"10.{64 + os.getpid() % 64}.{os.getpid() // 64 % 256}"
        self.made = []

    def name(self, i):
        return f"yki{self.id}x{i}"

    def __enter__(self):
        bridge = f"yki{self.id}"
        try:
            self.make(bridge)
            for i in range(4):
                self.make(self.name(i))
            sh("ip", "-n", bridge, "link", "add", "br0", "type", "bridge")
            sh("ip", "-n", bridge, "link", "set", "br0", "up")
            for i in range(4):
                host = self.name(i)
                sh("ip", "link", "add", f"v{i}", "netns", bridge, "type", "veth", "peer", "name", "eth0", "netns", host)
                sh("ip", "-n", bridge, "link", "set", f"v{i}", "master", "br0", "up")
                sh("ip", "-n", host, "link", "set", "lo", "up")
                sh("ip", "-n", host, "addr", "add", f"{self.net}.{i or 100}/24", "dev", "eth0")
                sh("ip", "-n", host, "link", "set", "eth0", "up")
            sh("ip", "netns", "exec", self.name(0), "ping", "-c", "1", "-w", "5", f"{self.net}.3", check=False)
        except subprocess.CalledProcessError as e:
            self.__exit__()
            raise OSError(e.stderr) from e
        agent = os.path.join(self.directory, "agent")
        with open(agent, "w") as f:  # what ssh does, in that host's namespace and under its name
            f.write('#!/bin/sh\nnumber=${1##*.}\nshift\nexec ip netns exec "yki%dx$number" unshare --uts sh -c '
                    '\'hostname "host$0"; exec sh -c "$*"\' "$number" "$@"\n' % self.id)
        os.chmod(agent, 0o755)
        return self

    def make(self, name):
        sh("ip", "netns", "add", name)
        self.made.append(name)

    def __exit__(self, *_):
        for name in self.made:
            sh("ip", "netns", "del", name, check=False)
        self.made = []

    def shape(self, links):
        for i, link in enumerate(links, 1):
            host = self.name(i)
            sh("ip", "netns", "exec", host, "tc", "qdisc", "del", "dev", "eth0", "root", check=False)
            kind = ["netem", *link.split()] if link.startswith("delay") else ["tbf", *link.split(), "burst", "128kb", "latency", "50ms"]
            if sh("ip", "netns", "exec", host, "tc", "qdisc", "replace", "dev", "eth0", "root", *kind, check=False).returncode:
                return f"this kernel has no {kind[0]}"
        return ""

    def command(self, yoke, options):
        return ["ip", "netns", "exec", self.name(0), "unshare", "--uts", "sh", "-c", 'hostname host0; exec "$@"', "sh", yoke, "train",
                *options, "--hosts", ",".join(f"{self.net}.{i}" for i in (1, 2, 3)), "--agent", os.path.join(self.directory, "agent")]
