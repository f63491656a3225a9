"""Captures made and read with `dpkt`: a download over HTTP, cut as one likes; two attacks."""

import itertools
from collections.abc import Iterable
from pathlib import Path

import dpkt

CLIENT, SERVER = (b"\x0a\x00\x00\x02", 40000), (b"\x0a\x00\x00\x50", 80)
START = 1000  # sequence number of the server's SYN, where nothing else is asked
ACK = dpkt.tcp.TH_ACK
REQUEST = b"GET /file HTTP/1.1\r\nHost: files.example\r\n\r\n"


def frame(
    sender: tuple, receiver: tuple, sequence: int, data: bytes, flags: int = ACK
) -> bytes:
    """One Ethernet frame with a TCP segment, checksums included."""
    segment = dpkt.tcp.TCP(sport=sender[1], dport=receiver[1], seq=sequence % 2**32,
    flags=flags, data=data)  # fmt: skip
    packet = dpkt.ip.IP(src=sender[0], dst=receiver[0], p=dpkt.ip.IP_PROTO_TCP, data=segment)
    packet.len = len(packet)
    return bytes(dpkt.ethernet.Ethernet(type=dpkt.ethernet.ETH_TYPE_IP, data=packet))


def in_fragments(whole: bytes, size: int = 24) -> list[bytes]:
    """A frame as IPv4 fragments of `size` bytes each, a multiple of eight."""
    made, payload = [], whole[34:]
    for at in range(0, len(payload), size):
        packet = dpkt.ip.IP(whole[14:34])
        more = at + size < len(payload)
        packet.data, packet.sum = payload[at : at + size], 0
        packet.len = 20 + len(packet.data)
        packet._flags_offset = more << 13 | at // 8
        made.append(whole[:14] + bytes(packet))
    return made


def response(file: bytes, chunked: bool = False) -> bytes:
    """The file as the answer to `REQUEST`."""
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\n"
    if not chunked:
        return head + b"Content-Length: %d\r\n\r\n" % len(file) + file
    parts = [file[at : at + 7] for at in range(0, len(file), 7)]
    body = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts)
    return head + b"Transfer-Encoding: chunked\r\n\r\n" + body + b"0\r\n\r\n"


def opening(start: int = START, client: tuple = CLIENT) -> list[bytes]:
    """SYN, SYN+ACK, and the question."""
    syn = dpkt.tcp.TH_SYN
    return [
        frame(client, SERVER, 1, b"", syn),
        frame(SERVER, client, start, b"", syn | ACK),
        frame(client, SERVER, 2, REQUEST),
    ]


def download(
    stream: bytes, cuts: Iterable[int], start: int = START, client: tuple = CLIENT
) -> list[bytes]:
    """The frames of a connection whose server sends `stream`, cut at these places."""
    edges = [0, *sorted({cut for cut in cuts if 0 < cut < len(stream)}), len(stream)]
    body = [
        frame(SERVER, client, start + 1 + a, stream[a:b]) for a, b in itertools.pairwise(edges)
    ]
    fin = frame(SERVER, client, start + 1 + len(stream), b"", dpkt.tcp.TH_FIN | ACK)
    return [*opening(start, client), *body, fin]


def split_attack(file: bytes, signature: bytes) -> list[bytes]:
    """The signature lies across two segments: whoever looks at each packet alone sees
    neither."""
    stream = response(file)
    return download(stream, [stream.index(signature) + len(signature) // 2])


def overlap_attack(file: bytes, signature: bytes) -> list[bytes]:
    """The signature's place is sent twice before its turn, with harmless bytes first.

    A host that keeps the newer copy runs the file; one that keeps the older gets a harmless
    one.
    """
    stream = response(file)
    at = stream.index(signature)
    end, harmless = at + len(signature), b"." * len(signature)
    fin = frame(SERVER, CLIENT, START + 1 + len(stream), b"", dpkt.tcp.TH_FIN | ACK)
    body = [(at, harmless), (at, signature), (0, stream[:at]), (end, stream[end:])]
    return [
        *opening(),
        *(frame(SERVER, CLIENT, START + 1 + where, part) for where, part in body if part),
        fin,
    ]


def write_pcap(path: Path, frames: Iterable[bytes]) -> None:
    """A capture file, a frame a millisecond."""
    with open(path, "wb") as file:
        writer = dpkt.pcap.Writer(file)
        for number, each in enumerate(frames):
            writer.writepkt(each, ts=number / 1000)


def read_pcap(path: Path) -> list[bytes]:
    """The frames of a capture, pcap or pcapng."""
    with open(path, "rb") as file:
        return [raw for _, raw in dpkt.pcap.UniversalReader(file)]
