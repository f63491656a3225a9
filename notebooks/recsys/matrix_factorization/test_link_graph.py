"""Links, filters and splits: what is read, what remains, what is held out."""

import link_graph
import pytest
import torch
from link_graph import Graph

TEXT = "# a comment\n\nA\tB\nA\tC_d\nB\tA\n%C3%85\tA\n"


def graph_of(pairs, pages):
    rows, cols = torch.tensor(pairs).T
    return Graph(rows, cols, [str(n) for n in range(pages)])


def test_links_are_read_with_their_titles_decoded(tmp_path):
    (tmp_path / "links.tsv").write_text(TEXT, encoding="utf-8")
    graph = link_graph.read_links(tmp_path)
    assert graph.titles == ["Å", "A", "B", "C d"]
    assert list(zip(graph.rows.tolist(), graph.cols.tolist(), strict=True)) == [
        (1, 2),
        (1, 3),
        (2, 1),
        (0, 1),
    ]


@pytest.mark.parametrize("line", ["A\n", "A\tB\tC\n", "\tB\n"])
def test_a_line_that_is_no_pair_is_refused(tmp_path, line):
    (tmp_path / "links.tsv").write_text("A\tB\n" + line, encoding="utf-8")
    with pytest.raises(ValueError, match="two titles with a tab"):
        link_graph.read_links(tmp_path)


def test_subjects_are_the_second_word_of_a_category(tmp_path):
    (tmp_path / "categories.tsv").write_text(
        "A_b\tsubject.Art.Art\nA_b\tsubject.People\n", encoding="utf-8"
    )
    assert link_graph.read_subjects(tmp_path) == {"A b": {"Art", "People"}}


def test_the_filter_runs_once_so_pages_below_the_minimum_remain():
    # 0 and 1 link both ways and to 2; 2 links to both; 3 feeds 2 and falls
    graph = graph_of([(0, 1), (1, 0), (0, 2), (1, 2), (2, 0), (2, 3), (3, 2), (3, 0)], 4)
    kept = link_graph.with_links(graph, 2)
    assert kept.titles == ["0", "2"]
    assert torch.bincount(kept.rows, minlength=2).tolist() == [1, 1]  # fewer than two


def test_dangling_pages_are_counted_on_both_sides():
    assert link_graph.dangling(graph_of([(0, 1), (0, 2)], 4)) == (3, 2)


def test_among_keeps_links_inside_and_numbers_anew():
    part = link_graph.among(
        graph_of([(0, 2), (2, 0), (1, 2)], 3), torch.tensor([True, False, True])
    )
    assert (part.rows.tolist(), part.cols.tolist(), part.titles) == ([0, 1], [1, 0], ["0", "2"])


def test_histories_are_sorted_and_one_for_each_row():
    found = link_graph.histories_of(torch.tensor([2, 0, 2]), torch.tensor([5, 1, 3]), 4)
    assert [history.tolist() for history in found] == [[1], [], [3, 5], []]


def test_held_out_rows_are_in_no_training_and_in_one_part_alone():
    graph = link_graph.community_graph(200, 3_000, 5, seed=1)
    split = link_graph.split_rows(graph, seed=3)
    held = [set(part.rows) for part in (split.validation, split.test)]
    assert not held[0] & held[1]
    assert not set(split.rows.tolist()) & (held[0] | held[1])
    histories = link_graph.histories_of(graph.rows, graph.cols, 200)
    for part in (split.validation, split.test):
        for row, seen, wanted in zip(*part, strict=True):
            assert not set(seen.tolist()) & set(wanted.tolist())
            assert sorted(seen.tolist() + wanted.tolist()) == histories[row].tolist()
            assert len(seen) and len(wanted)


def test_seeds_draw_other_rows_and_the_same_seed_the_same():
    graph = link_graph.community_graph(200, 3_000, 5)
    rows = [link_graph.split_rows(graph, seed).test.rows for seed in (0, 0, 1)]
    assert rows[0] == rows[1] != rows[2]


@pytest.mark.parametrize("bad", [{"share": 0.6}, {"share": 0}, {"hidden": 1.0}])
def test_impossible_shares_are_refused(bad):
    with pytest.raises(ValueError, match="allowed are above 0"):
        link_graph.split_rows(graph_of([(0, 1)], 2), **bad)


def test_a_graph_too_small_to_split_is_refused():
    with pytest.raises(ValueError, match="too few to hold"):
        link_graph.split_rows(graph_of([(0, 1), (0, 2), (1, 0), (1, 2)], 3))


def test_most_drawn_links_stay_in_their_community_and_none_comes_twice():
    graph = link_graph.community_graph(500, 8_000, communities=10, inside=0.9)
    same = (graph.rows % 10 == graph.cols % 10).double().mean()
    assert 0.75 < same < 0.97
    assert len(torch.unique(graph.rows * 500 + graph.cols)) == len(graph.rows)


@pytest.mark.parametrize("bad", [(10, 5, 11, 0.5), (10, 0, 2, 0.5), (10, 5, 2, 1.5)])
def test_an_impossible_graph_is_refused(bad):
    with pytest.raises(ValueError, match="communities"):
        link_graph.community_graph(*bad)


def test_six_variants_have_two_minima_of_three_parts():
    graph = link_graph.community_graph(120, 6_000, 3)
    subjects = {
        title: {"Geography"} if int(title) < 80 else {"Science"} for title in graph.titles
    }
    found = link_graph.six_variants(graph, subjects, (2, 5))
    assert list(found) == [
        "all, 2",
        "Geography, 2",
        "Science, 2",
        "all, 5",
        "Geography, 5",
        "Science, 5",
    ]
    assert all(int(title) < 80 for title in found["Geography, 2"].titles)
    assert len(found["all, 5"].rows) <= len(found["all, 2"].rows)
