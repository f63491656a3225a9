"""The model: the published size, fused tables equal to separate ones, refused inputs."""

import pytest
import torch
from click_features import spec
from torch import nn

from .network import Sizes, Tables, WideDeep, glorot_normal, look_up_sum

SMALL = Sizes((50, 7, 30, 4), (6, 3, 6, 2), (5, 11, 3), (4, 4, 3), numbers=5, hidden=(16, 8))


def draw(sizes, rows, seed=0):
    """(categories, multi_hot, numbers), the last bucket and empty slots among them."""
    torch.manual_seed(seed)
    categories = torch.stack([torch.randint(n, (rows,)) for n in sizes.buckets], 1)
    multi_hot = [torch.randint(n, (rows, 3)) for n in sizes.hot_buckets]
    multi_hot = torch.stack(multi_hot, 1) if multi_hot else torch.zeros(rows, 0, 3).long()
    categories[-1] = torch.tensor(sizes.buckets) - 1
    multi_hot[-1], multi_hot[0] = torch.tensor(sizes.hot_buckets)[:, None] - 1, 0
    return categories, multi_hot, torch.randn(rows, sizes.numbers)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("shape", [(5, 3), (4, 2, 3), (0, 3)])
def test_both_ways_to_sum_rows_are_equal_and_skip_row_0(shape, sparse):
    torch.manual_seed(0)
    start, at, found = torch.randn(6, 4), torch.randint(0, 6, shape), []
    for fused in (True, False):
        weight = nn.Parameter(start.clone())
        sums = look_up_sum(weight, at, sparse, fused)
        sums.square().sum().backward()
        grad = torch.zeros(6, 4) if weight.grad is None else weight.grad.to_dense()
        found.append((sums.detach(), grad))
    torch.testing.assert_close(found[0], found[1])
    torch.testing.assert_close(
        found[0][0], torch.where(at[..., None] == 0, 0, start[at]).sum(-2)
    )


def test_glorot_normal_has_its_variance_and_its_cut():
    torch.manual_seed(0)
    drawn = glorot_normal(3000, 200)
    deviation = (2 / 3200) ** 0.5
    assert abs(drawn.std() / deviation - 1) < 0.01
    assert drawn.abs().max() <= 2 * deviation / 0.8796 and abs(drawn.mean()) < 0.01 * deviation


def test_the_published_model_has_91_777_245_parameters():
    with torch.device("meta"):
        model = WideDeep(Sizes.published())
    assert sum(weight.numel() for weight in model.parameters()) == 91_777_245
    wide = sum(weight.numel() for weight in model.wide.parameters())
    assert wide == sum(model.sizes.buckets) + sum(model.sizes.hot_buckets) + 13 + 1
    assert model.deep.tables.width + model.deep.hot.width == 1235


def test_sizes_are_those_of_the_features():
    sizes = Sizes.published()
    assert len(sizes.buckets) == 13 and len(sizes.hot_buckets) == 3 and sizes.numbers == 13
    assert sizes.hidden == (1024,) * 5
    assert sizes.buckets == tuple(spec.BUCKETS.values())
    assert sizes.scaled(buckets=0.013).buckets[0] == 3900


def test_scaling_keeps_two_buckets_and_a_width_of_one():
    sizes = Sizes.published().scaled(1e-9, 1e-9, (8,))
    assert set(sizes.buckets + sizes.hot_buckets) == {2}
    assert set(sizes.dims + sizes.hot_dims) == {1} and sizes.hidden == (8,)


def plain_logits(model, categories, multi_hot, numbers):
    """The equations row by row, feature by feature, from tables cut out of the fused ones."""
    sizes, out = model.sizes, []
    hot_start = torch.tensor([0, *sizes.hot_buckets]).long().cumsum(0)
    start = hot_start[-1] + torch.tensor([0, *sizes.buckets]).cumsum(0)
    for row in range(len(numbers)):
        wide, deep = model.wide.bias[0] + model.wide.numbers @ numbers[row], []
        wide = wide + sum(
            model.wide.weight[start[c] + categories[row, c], 0]
            for c in range(len(sizes.buckets))
        )
        for h in range(len(sizes.hot_buckets)):
            wide = wide + sum(
                model.wide.weight[hot_start[h] + b, 0] for b in multi_hot[row, h] if b
            )
        for tables, buckets in ((model.deep.tables, sizes.buckets), (model.deep.hot, None)):
            for weight, own in zip(tables.weights, tables.features, strict=True):
                at = 0
                for feature in own:
                    if buckets:
                        deep.append(weight[at + categories[row, feature]])
                        at += buckets[feature]
                    else:
                        kept = [weight[at + b] for b in multi_hot[row, feature] if b]
                        deep.append(sum(kept, torch.zeros(weight.shape[1])))
                        at += sizes.hot_buckets[feature]
        out.append(
            wide + model.deep.last(model.deep.layers(torch.cat([*deep, numbers[row]])))[0]
        )
    return torch.stack(out)


@pytest.mark.parametrize("rows", [1, 2, 17])
@pytest.mark.parametrize("sparse", [False, True])
def test_equals_the_equations_row_by_row(rows, sparse):
    torch.manual_seed(1)
    model = WideDeep(SMALL, sparse=sparse).eval()
    for weight in model.wide.parameters():
        nn.init.normal_(weight)
    batch = draw(SMALL, rows)
    torch.testing.assert_close(model(*batch), plain_logits(model, *batch))


def test_without_multi_hot_features_every_bucket_counts():
    sizes = Sizes((3, 2), (2, 2), (), (), numbers=1, hidden=(4,))
    torch.manual_seed(0)
    model, batch = WideDeep(sizes).eval(), draw(sizes, 9)
    nn.init.normal_(model.wide.weight)
    torch.testing.assert_close(model(*batch), plain_logits(model, *batch))


def test_sparse_gradients_equal_dense_ones():
    batch, grads = draw(SMALL, 64), []
    for sparse in (False, True):
        torch.manual_seed(3)
        model = WideDeep(SMALL, dropout=0, sparse=sparse)
        model(*batch).square().sum().backward()
        grads.append([w.grad.to_dense() for w in model.parameters()])
        kinds = {n for n, w in model.named_parameters() if w.grad.is_sparse}
        tables = {"wide.weight", *(n for n, _ in model.named_parameters() if ".weights." in n)}
        assert kinds == (tables if sparse else set())
    torch.testing.assert_close(grads[0], grads[1])


@pytest.mark.parametrize("sparse", [False, True])
def test_an_empty_slot_has_no_gradient_and_no_effect(sparse):
    model = WideDeep(SMALL, sparse=sparse).eval()
    categories, multi_hot, numbers = draw(SMALL, 9)
    multi_hot[:] = 0
    before = model(categories, multi_hot, numbers)
    before.sum().backward()
    for weight in model.deep.hot.weights:
        assert not weight.grad.to_dense().any()
    with torch.no_grad():
        for weight in model.deep.hot.weights:
            weight += 1e6
    torch.testing.assert_close(model(categories, multi_hot, numbers), before)


def test_parts_add_up():
    batch = draw(SMALL, 12)
    model = WideDeep(SMALL).eval()
    nn.init.normal_(model.wide.weight)
    both = model(*batch)
    torch.testing.assert_close(both, model.wide(*batch) + model.deep(*batch))
    assert WideDeep(SMALL, "wide").deep is None and WideDeep(SMALL, "deep").wide is None


def test_mixed_precision_keeps_full_logits():
    model, batch = WideDeep(SMALL).eval(), draw(SMALL, 500)
    nn.init.normal_(model.wide.numbers)
    exact, wide = model(*batch), model.wide(*batch)
    with torch.autocast("cpu", torch.bfloat16):
        found = model(*batch)
        assert torch.equal(model.wide(*batch), wide)
    assert found.dtype == torch.float32 and not torch.equal(found, exact)
    assert (model.deep(*batch).bfloat16().float() != found - wide).any()
    torch.testing.assert_close(found, exact, rtol=0.05, atol=0.05)


def test_the_wide_part_starts_at_zero_and_the_seed_fixes_the_rest():
    batch, logits = draw(SMALL, 12), []
    for _ in range(2):
        torch.manual_seed(5)
        logits.append(WideDeep(SMALL).eval()(*batch))
    assert torch.equal(*logits)
    assert not WideDeep(SMALL, "wide")(*batch).any()


def test_an_empty_batch_has_no_logits():
    assert WideDeep(SMALL)(*(x[:0] for x in draw(SMALL, 2))).shape == (0,)


def test_compiled_equals_eager():
    torch.manual_seed(0)
    model, batch = WideDeep(SMALL, dropout=0), draw(SMALL, 33)
    compiled, found = torch.compile(model, backend="aot_eager", fullgraph=True), []
    for forward in (compiled, model):
        logits = forward(*batch)
        found.append((logits.detach(), torch.autograd.grad(logits.sum(), model.parameters())))
    torch.testing.assert_close(*found)


@pytest.mark.parametrize("feature, bucket", [(0, 50), (1, 7), (3, -1)])
def test_a_bucket_of_the_neighbour_is_refused(feature, bucket):
    categories, multi_hot, numbers = draw(SMALL, 4)
    categories[2, feature] = bucket
    with pytest.raises(ValueError, match=f"categories: feature {feature} has buckets"):
        WideDeep(SMALL)(categories, multi_hot, numbers)


def test_a_bucket_beyond_a_multi_hot_feature_is_refused():
    categories, multi_hot, numbers = draw(SMALL, 4)
    multi_hot[1, 2, 2] = 3
    with pytest.raises(ValueError, match="multi_hot: feature 2 has buckets .* to 3"):
        WideDeep(SMALL)(categories, multi_hot, numbers)


@pytest.mark.parametrize("broken", [0, 1, 2])
def test_wrong_shapes_are_refused(broken):
    batch = list(draw(SMALL, 4))
    batch[broken] = batch[broken][:, :-1]
    with pytest.raises(ValueError, match="features in . axes are needed"):
        WideDeep(SMALL)(*batch)


def test_rows_that_differ_in_number_are_refused():
    categories, multi_hot, numbers = draw(SMALL, 4)
    with pytest.raises(ValueError, match="categories has shape"):
        WideDeep(SMALL)(categories[:3], multi_hot, numbers)


def test_unknown_parts_and_sizes_are_refused():
    with pytest.raises(ValueError, match="allowed are"):
        WideDeep(SMALL, parts="narrow")
    with pytest.raises(ValueError, match="each feature needs buckets and a width"):
        Sizes((3, 4), (1,), (), ())
    with pytest.raises(ValueError, match="count from 1"):
        Sizes((3, 0), (1, 1), (), ())


def test_tables_of_one_width_are_one_table():
    tables = Tables((300, 4, 20), (8, 3, 8))
    assert [tuple(weight.shape) for weight in tables.weights] == [(320, 8), (4, 3)]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_gpu_equals_cpu():
    torch.manual_seed(0)
    model, batch = WideDeep(SMALL).eval(), draw(SMALL, 300)
    here = model(*batch)
    there = model.cuda()(*(x.cuda() for x in batch)).cpu()
    torch.testing.assert_close(there, here, rtol=1e-4, atol=1e-4)  # TF32 may be allowed
