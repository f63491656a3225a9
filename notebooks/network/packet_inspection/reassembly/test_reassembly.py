"""Streams put in order whatever arrives, files taken from them, both attacks, bounded
memory."""

import random
import shutil
import subprocess

import dpkt
import pytest
import stream_rules
from hypothesis import given, settings
from hypothesis import strategies as st

from . import (
    FirewallRule,
    Fragments,
    HttpFiles,
    Inspector,
    TcpStream,
    Window,
    ahead,
    download,
    in_fragments,
    opening,
    overlap_attack,
    read_pcap,
    response,
    split_attack,
    write_pcap,
)
from .captures import CLIENT, REQUEST, SERVER, START, frame
from .http_files import HEADER_BYTES

RULE = """
rule evil { strings: $a = "EvilSignature" condition: $a }
rule executable { condition: uint16(0) == 0x5A4D }
rule small { condition: filesize < 30 }
"""
FILE = b"MZ......EvilSignature........"


@pytest.fixture(scope="module")
def matcher():
    return stream_rules.compile(RULE)[0]


def run(inspector: Inspector, frames) -> list[str]:
    return [name for each in frames for name in inspector.frame(each)] + inspector.finish()


ALL = ["evil", "executable", "small"]


@settings(max_examples=60, deadline=None)
@given(
    st.binary(min_size=1, max_size=50),
    st.integers(2**32 - 60, 2**32 - 1) | st.integers(0, 2**32 - 1),
    st.sampled_from(["first", "last"]),
    st.data(),
)
def test_a_stream_is_put_in_order_across_the_wrap(file, start, policy, data):
    spans = data.draw(st.lists(st.tuples(st.integers(0, 49), st.integers(1, 20)), max_size=12))
    pieces = [(at, file[at : at + size]) for at, size in spans]
    pieces += [
        (at, file[at : at + 5]) for at in data.draw(st.permutations(range(0, len(file), 5)))
    ]
    stream = TcpStream(policy)
    assert stream.segment(start, b"", syn=True) == b""
    made = b"".join(stream.segment((start + 1 + at) % 2**32, piece) for at, piece in pieces)
    assert made == file and stream.state_bytes() == 16
    assert stream.counts["bytes that disagree"] == 0
    stream.segment((start + 1 + len(file)) % 2**32, b"", fin=True)
    assert stream.ended


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 12), st.binary(min_size=1, max_size=6)), max_size=9),
    st.sampled_from(["first", "last"]),
)
def test_the_policy_decides_each_byte_that_waits(pieces, policy):
    window, wanted = Window(policy=policy), {}
    for offset, piece in pieces:
        assert window.put(offset, piece) == b""
        for at, byte in enumerate(piece, offset):
            if policy == "last" or at not in wanted:
                wanted[at] = byte
    made, at = window.put(0, b"!"), 1
    while at in wanted:
        assert made[at] == wanted[at]
        at += 1
    assert len(made) == at


def test_what_a_host_would_not_take_neither_ends_nor_fills_a_stream():
    stream = TcpStream()
    stream.segment(9, b"", syn=True)
    assert stream.segment(10, b"ab") == b"ab"
    assert stream.segment(11, b"", fin=True) == b""  # an end that lies behind
    assert stream.segment(11, b"....", syn=True) == b""  # data of a second SYN
    assert stream.segment(12, b"cd") == b"cd" and not stream.ended
    stream.segment(15, b"beyond the end")
    stream.segment(15, b"", fin=True)
    assert stream.segment(14, b"e") == b"e" and stream.ended


@given(st.integers(0, 2**32 - 1), st.integers(-(2**31), 2**31 - 1))
def test_distance_on_the_circle(base, distance):
    assert ahead((base + distance) % 2**32, base) == distance


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(-500, 500), st.binary(max_size=90)), max_size=40))
def test_a_window_never_holds_more_than_it_may(pieces):
    window = Window(size=64)
    for offset, piece in pieces:
        window.put(offset, piece)
        assert len(window) <= 128 and len(window.waiting) == len(window.filled)


def test_a_policy_that_nobody_has_is_refused():
    with pytest.raises(ValueError):
        Window(policy="newest")


@pytest.mark.parametrize("chunked", [False, True])
def test_a_verdict_is_the_same_for_every_cut_and_for_single_bytes(matcher, chunked):
    stream = response(FILE, chunked)
    for cut in range(1, len(stream)):
        assert sorted(run(Inspector(matcher), download(stream, [cut]))) == ALL
    assert (
        sorted(run(Inspector(matcher), download(stream, range(len(stream)), start=2**32 - 20)))
        == ALL
    )


def test_frames_out_of_order_and_twice_change_nothing(matcher):
    frames = download(response(FILE), range(0, 200, 9))
    for seed in range(10):
        later = frames[3:] + frames[3:6]
        random.Random(seed).shuffle(later)
        inspector = Inspector(matcher)
        assert sorted(run(inspector, frames[:3] + later)) == ALL
        assert inspector.counts["files"] == 1


def test_each_packet_alone_misses_what_the_stream_shows(matcher):
    frames = split_attack(FILE, b"EvilSignature")
    alone = matcher.another()
    assert all(
        "evil"
        not in alone.feed(bytes(dpkt.ethernet.Ethernet(f).data.data.data)) + alone.finish()
        for f in frames
    )
    for policy in ("first", "last"):
        assert "evil" in run(Inspector(matcher, policy=policy), frames)


def test_where_segments_disagree_the_policy_decides(matcher):
    frames = overlap_attack(FILE, b"EvilSignature")
    assert "evil" not in run(Inspector(matcher, policy="first"), frames)
    inspector = Inspector(matcher, policy="last")
    assert "evil" in run(inspector, frames)
    assert inspector.counts["bytes that disagree"] == len(b"EvilSignature")


def test_a_segment_that_the_host_would_not_take_changes_nothing(matcher):
    frames = download(response(FILE), [60, 120])
    bad = bytearray(frames[4])
    bad[-1] ^= 1
    inspector = Inspector(matcher)
    assert sorted(run(inspector, [*frames[:4], bytes(bad), *frames[4:]])) == ALL
    assert inspector.counts["wrong checksums"] == 1


def test_a_copy_without_ack_hides_nothing(matcher):
    stream = response(FILE)
    at = stream.index(b"EvilSignature")
    false = frame(SERVER, CLIENT, START + 1 + at, b"." * 13, dpkt.tcp.TH_PUSH)
    inspector, frames = Inspector(matcher, policy="first"), download(stream, [at])
    assert sorted(run(inspector, [*frames[:3], false, *frames[3:]])) == ALL
    assert inspector.counts["segments without ACK"] == 1


def test_an_answer_before_its_question_is_read_once_that_is_seen(matcher):
    frames = download(response(FILE), [60])
    late = [*frames[:2], *frames[3:], frames[2]]
    assert sorted(run(Inspector(matcher), late)) == ALL
    inspector = Inspector(matcher)
    assert run(inspector, late[:-1]) == []
    assert inspector.counts["bytes not inspected"] == len(response(FILE))


def test_a_question_of_http_1_0_needs_no_host(matcher):
    files = HttpFiles()
    files.requests(b"GET /file HTTP/1.0\r\n\r\n")
    body = b"HTTP/1.0 200 OK\r\n\r\n" + FILE
    assert files.responses(body) + files.close() == [("data", FILE), ("end", b"")]


def test_a_connection_that_is_given_up_is_judged_first(matcher):
    inspector = Inspector(matcher, most_flows=1)
    short = b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nshort"
    made = [name for f in [*download(short, [])[:-1], opening(client=(b"1234", 9))[0]]
            for name in inspector.frame(f)]  # fmt: skip
    assert made == ["small"] and inspector.counts["connections given up"] == 1


def test_a_network_that_is_none_is_refused_at_once():
    for bad in ({"source": "10.0.0.5/8"}, {"target": "nobody"}):
        with pytest.raises(ValueError):
            FirewallRule(**bad)


def test_a_reset_beside_the_stream_blinds_nobody(matcher):
    frames = download(response(FILE), [60])
    rst = frame(SERVER, CLIENT, START + 5000, b"", dpkt.tcp.TH_RST)
    assert sorted(run(Inspector(matcher), [*frames[:4], rst, *frames[4:]])) == ALL


def test_the_firewall_goes_first(matcher):
    inspector = Inspector(matcher, [FirewallRule(target="10.0.0.0/24", port=80)])
    assert run(inspector, download(response(FILE), [])) == []
    assert inspector.counts["frames that the firewall drops"] == 2
    elsewhere = Inspector(matcher, [FirewallRule(source="192.168.0.0/16")])
    assert sorted(run(elsewhere, download(response(FILE), []))) == ALL


def test_a_capture_is_read_back_as_it_was_written(tmp_path, matcher):
    frames = download(response(FILE), [50, 90])
    write_pcap(tmp_path / "a.pcap", frames)
    assert read_pcap(tmp_path / "a.pcap") == frames
    assert sorted(run(Inspector(matcher), read_pcap(tmp_path / "a.pcap"))) == ALL


@pytest.mark.skipif(not shutil.which("tshark"), reason="tshark is not installed")
def test_tshark_reads_the_same_file(tmp_path):
    write_pcap(tmp_path / "a.pcap", download(response(FILE), [50, 90]))
    out = tmp_path / "objects"
    command = ["tshark", "-q", "-r", "a.pcap", "--export-objects", f"http,{out}"]
    subprocess.run(command, cwd=tmp_path, capture_output=True, check=True, timeout=60)
    assert [path.read_bytes() for path in out.iterdir()] == [FILE]


def test_fragments_are_joined_in_any_order(matcher):
    frames = download(response(FILE), [])
    parts = in_fragments(frames[3])
    for order in (parts, parts[::-1], [parts[0], *parts]):
        assert sorted(run(Inspector(matcher), [*frames[:3], *order, frames[4]])) == ALL


def test_fragments_that_overlap_or_never_end_are_dropped():
    joined = Fragments(most_datagrams=4, most_pieces=5)
    assert joined.add(("a",), 0, True, bytes(16)) is None
    assert joined.add(("a",), 8, False, b"x" * 8) is None
    for number in range(900):
        joined.add((number,), 8, True, bytes(8))
        assert len(joined.open) <= 4 and joined.state_bytes() <= joined.most_bytes()
    for number in range(900):
        joined.add(("long",), 8 * number, True, bytes(8))
    assert joined.counts["datagrams with overlapping fragments"] == 1
    assert joined.counts["datagrams never completed"] > 800
    assert joined.counts["datagrams of too many fragments"] > 100
    assert joined.add(("b",), 65528, False, bytes(64)) is None


NOTHING = stream_rules.compile("rule r { condition: false }")[0]


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 4), st.integers(0, 300), st.binary(max_size=4), st.integers(0, 300))
def test_truncated_frames_and_lies_are_counted_and_never_raise(which, end, lie, place):
    inspector = Inspector(NOTHING)
    frames = download(response(FILE), [70])
    bad = bytearray(frames[which][:end])
    bad[place : place + len(lie)] = lie
    assert run(inspector, [*frames[:2], bytes(bad), *frames[2:]]) == []
    assert inspector.state_bytes() == 0


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.binary(max_size=40)
        | st.sampled_from([b"HTTP/1.1 200 OK\r\n", b"\r\n", b"Content-Length: 99\r\n"]),
        max_size=6,
    )
)
def test_a_server_may_say_anything(pieces):
    inspector = Inspector(NOTHING)
    stream = b"".join(pieces)
    if stream:
        run(inspector, download(stream, range(0, len(stream), 11)))
    assert inspector.state_bytes() == 0


def test_a_body_shorter_than_said_is_judged_as_far_as_it_came(matcher):
    stream = response(FILE + b"more")[:-4]
    assert sorted(run(Inspector(matcher), download(stream, [30]))) == ALL


def test_a_header_without_end_is_given_up(matcher):
    inspector = Inspector(matcher)
    for each in download(b"HTTP/1.1 200 OK\r\nX: " + b"a" * 100_000, range(0, 100_000, 1000)):
        inspector.frame(each)
    inspector.finish()
    assert inspector.counts["responses that are no HTTP"] == 1
    assert inspector.counts["bytes not inspected"] > 50_000


def test_a_server_that_nobody_asked_and_a_client_that_asks_on_are_given_up(matcher):
    files = HttpFiles()
    for _ in range(900):
        files.responses(response(FILE))
        assert files.state_bytes() < 2 * HEADER_BYTES
    assert files.counts["responses that are no HTTP"] == 1
    files = HttpFiles()
    for _ in range(900):
        files.requests(REQUEST)
        assert files.state_bytes() < 2 * HEADER_BYTES
    assert files.counts["requests that are no HTTP"] == 1


def test_two_files_on_one_connection_are_two_files(matcher):
    frames = opening() + [
        frame(CLIENT, SERVER, 2 + len(REQUEST), b"GET /b HTTP/1.1\r\nHost: x\r\n\r\n")
    ]
    stream = response(b"MZ" + b"." * 40) + response(b"....EvilSignature" + b"." * 40)
    frames += [
        frame(SERVER, CLIENT, START + 1 + at, stream[at : at + 13])
        for at in range(0, len(stream), 13)
    ]
    inspector = Inspector(matcher)
    assert run(inspector, frames) == ["executable", "evil"] and inspector.counts["files"] == 2


def test_connections_beyond_the_limit_push_out_the_oldest(matcher):
    inspector = Inspector(matcher, most_flows=5)
    for port in range(40001, 40101):
        for each in opening(client=(CLIENT[0], port)):
            inspector.frame(each)
        inspector.frame(frame(SERVER, (CLIENT[0], port), START + 100, b"x" * 900))
        assert len(inspector.flows) <= 5 and inspector.state_bytes() <= inspector.most_bytes()
    assert inspector.counts["connections given up"] == 95
