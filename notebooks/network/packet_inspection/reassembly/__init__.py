"""From frames to files: IPv4 fragments, TCP streams, HTTP bodies; a firewall before all of
it."""

from .captures import (
    download,
    in_fragments,
    opening,
    overlap_attack,
    read_pcap,
    response,
    split_attack,
    write_pcap,
)
from .fragments import Fragments
from .http_files import HttpFiles
from .inspector import FirewallRule, Inspector
from .streams import TcpStream, Window, ahead

__all__ = [
    "FirewallRule", "Fragments", "HttpFiles", "Inspector", "TcpStream", "Window", "ahead",
    "download", "in_fragments", "opening", "overlap_attack", "read_pcap", "response",
    "split_attack", "write_pcap",
]  # fmt: skip
