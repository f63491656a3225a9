"""Four routers, each in a network namespace of its own, and real frames between two hosts.

    python -m label_stack.namespaces

A child process makes the namespaces and links them by pairs of virtual Ethernet devices; all
goes when it ends. The hosts are the kernel's: one sends a datagram by UDP, the other receives
it. The kernel here knows no MPLS, so the routers are `Router`, behind raw sockets
(`AF_PACKET`). Their tables come from the control plane.
"""

import ctypes
import itertools
import json
import os
import select
import socket
import subprocess
import sys
import time
from pathlib import Path

from .control import Control, LinkState, converge, exchange_labels
from .forwarding import Out, Router
from .labels import read_stack

ROW = ("source", "edge", "second", "third", "last", "target")  # hosts at both ends
SOURCE, TARGET, PORT = "10.1.0.1", "10.9.0.1", 4791
ALL, IPV4, MPLS, OUTGOING = 3, 0x0800, 0x8847, 4  # kinds of frames; a copy of what we sent
NEW_NETWORK, NO_CHECKSUM, RECEIVE_TTL = 0x40000000, 11, 12  # as Linux numbers them
SECONDS, FORBIDDEN = 5.0, 77  # to wait for a frame; the exit status that says so
CHILD = ("unshare", "--user", "--map-root-user", "--net", sys.executable, "-m")


def trace(command: tuple = CHILD) -> dict | None:
    """{"seen": [[router, labels, TTL], …], "received": [text, TTL]}; None where the machine
    forbids namespaces or raw sockets, or has no `ip` or `unshare`. What fails else, raises."""
    paths = [str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    how = {"env": os.environ | {"PYTHONPATH": os.pathsep.join(paths)}, "timeout": 60}
    try:
        made = subprocess.run([*command, "label_stack.namespaces"], capture_output=True, **how)
    except FileNotFoundError:
        return None
    if made.returncode == FORBIDDEN or made.stderr.startswith(b"unshare:"):
        return None
    if made.returncode:
        raise RuntimeError(f"the routers failed: {made.stderr.decode()[-500:]}")
    return json.loads(made.stdout)


def routers() -> dict[str, Router]:
    """The four of the row, with tables from the control plane."""
    names = ROW[1:-1]
    links = {name: {} for name in names}
    for left, right in itertools.pairwise(names):
        links[left][right] = links[right][left] = 1
    own = {"edge": {(0x0A010000, 16): "source"}, "last": {(0x0A090000, 16): "target"}}
    speakers = [LinkState(name, links[name], own.get(name, {})) for name in names]
    converge(speakers)
    controls = [Control(one.name, [one]) for one in speakers]
    exchange_labels(controls)
    made = {name: Router(name) for name in names}
    for one in controls:
        one.install(made[one.name])
    return made


def ip(words: str) -> None:
    subprocess.run(["ip", *words.split()], check=True, capture_output=True)


def address(name: str, beside: str) -> str:
    """The Ethernet address of the device that leads from a name to the one beside it."""
    return f"02:00:00:00:{ROW.index(name):02x}:{ROW.index(beside):02x}"


class Namespaces:
    """A namespace for each name of the row, linked to its neighbours."""

    def __init__(self):
        self.system, self.files = ctypes.CDLL(None, use_errno=True), {}
        for name in ROW:
            self._done(self.system.unshare(NEW_NETWORK))
            self.files[name] = os.open("/proc/self/ns/net", os.O_RDONLY)
        for left, right in itertools.pairwise(ROW):
            self.enter(left)
            peer = f"peer name to_{left} address {address(right, left)}"
            there = f"netns /proc/{os.getpid()}/fd/{self.files[right]}"
            ip(f"link add to_{right} address {address(left, right)} type veth {peer} {there}")
            ip(f"link set to_{right} up")
            self.enter(right)
            ip(f"link set to_{left} up")
        for host, own, beside in (("source", SOURCE, "edge"), ("target", TARGET, "last")):
            self.enter(host)
            gate, device = own[:-1] + "254", f"dev to_{beside}"
            ip(f"address add {own}/24 {device}")
            ip(f"route add default via {gate} {device}")
            ip(f"neighbour add {gate} lladdr {address(beside, host)} {device} nud permanent")

    def enter(self, name: str) -> None:
        self._done(self.system.setns(self.files[name], NEW_NETWORK))

    @staticmethod
    def _done(failed: int) -> None:
        if failed:
            raise OSError(ctypes.get_errno(), "no network namespace")

    def datagrams(self, name: str, option: int, level: int) -> socket.socket:
        self.enter(name)
        made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        made.setsockopt(level, option, 1)
        return made

    def raw(self, name: str) -> dict[str, socket.socket]:
        """{neighbour: a raw socket on the device that leads there}."""
        self.enter(name)
        made, at = {}, ROW.index(name)
        for beside in (ROW[at - 1], ROW[at + 1]):
            made[beside] = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
            made[beside].bind((f"to_{beside}", ALL))
        return made


def forward(text: bytes) -> dict:
    """Send a datagram from host to host, through the routers."""
    try:
        network, tables = Namespaces(), routers()
        sockets = {name: network.raw(name) for name in tables}
    except (OSError, subprocess.CalledProcessError) as error:
        print(error, file=sys.stderr)
        sys.exit(FORBIDDEN)
    owner = {one: name for name, several in sockets.items() for one in several.values()}
    target = network.datagrams("target", RECEIVE_TTL, socket.IPPROTO_IP)
    target.bind((TARGET, PORT))
    source = network.datagrams("source", NO_CHECKSUM, socket.SOL_SOCKET)
    source.sendto(text, (TARGET, PORT))
    seen, until = [], time.monotonic() + SECONDS
    while time.monotonic() < until:
        ready, _, _ = select.select([target, *owner], [], [], SECONDS)
        if target in ready:
            received, ((_, _, ttl), *_), _, _ = target.recvmsg(2048, 64)
            came = [received.decode(), int.from_bytes(ttl, sys.byteorder)]
            return {"seen": seen, "received": came}
        for one in ready:
            raw, (_, kind, direction, *_) = one.recvfrom(2048)
            if direction != OUTGOING and kind in (IPV4, MPLS):
                seen.append([owner[one], *_top(raw[14:], kind)])
                out = tables[owner[one]].forward(raw[14:], kind == MPLS)
                if out:
                    beside = sockets[owner[one]][out.neighbour]
                    beside.send(_head(owner[one], out) + out.packet)
    raise TimeoutError(f"nothing arrived; the routers saw {seen}")


def _top(packet: bytes, kind: int) -> tuple[list[int], int]:
    """Labels, and the TTL that counts."""
    stack = read_stack(packet)[0] if kind == MPLS else []
    return [entry.label for entry in stack], stack[0].ttl if stack else packet[8]


def _head(name: str, out: Out) -> bytes:
    """The Ethernet header of what a router sends."""
    pair = address(out.neighbour, name) + address(name, out.neighbour)
    kind = MPLS if out.labelled else IPV4
    return bytes.fromhex(pair.replace(":", "")) + kind.to_bytes(2, "big")


if __name__ == "__main__":
    print(json.dumps(forward(b"through four routers")))
