import pytest
import torch
from byte_account import account, by_layer, by_rule, bytes_of, kept
from torch import nn
from torch.nn import functional as F
from tutorial_network import classifier


def test_the_tutorials_network_has_its_parameters():
    assert account(classifier(), (1, 3, 180, 180), "sgd")["weights"] == 4 * 3_989_285


@pytest.mark.parametrize("norm", ["none", "batch", "group"])
@pytest.mark.parametrize("inplace", [False, True])
@pytest.mark.parametrize(("batch", "side"), [(1, 8), (3, 33), (5, 40)])
def test_the_prediction_is_what_autograd_keeps(norm, inplace, batch, side):
    model = classifier(side, norm=norm, inplace=inplace)
    shape = (batch, 3, side, side)
    assert account(model, shape, "sgd")["activations"] == pytest.approx(
        kept(model, torch.rand(shape)), rel=0.01
    )


class Calls(nn.Module):
    """A network whose forward calls functions: no layer of a hook sees them."""

    def __init__(self, side):
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 8, 3, padding=1)
        self.last = nn.Linear(8 * (side // 2) ** 2, 5)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.first(x)), 2)
        x = x + torch.tanh(self.second(x))
        return self.last(F.dropout(x.flatten(1), 0.3, self.training))


class Attends(nn.Module):
    def forward(self, x):
        return F.scaled_dot_product_attention(x, x, x)


class Asks(nn.Module):
    def forward(self, x):
        return x / x.max().item()


def mixed_bag(side):
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.PReLU(), nn.AvgPool2d(2), nn.Dropout2d(0.2),
        nn.Conv2d(8, 8, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Dropout(0.5),
        nn.Linear(128, 5),
    )  # fmt: skip


def frozen(side, layers):
    model = classifier(side)
    for p in list(model.parameters())[: 2 * layers]:
        p.requires_grad_(False)
    return model


@pytest.mark.parametrize(
    "model", [Calls(16), mixed_bag(16), *(frozen(16, layers) for layers in (1, 2, 4, 5))]
)
@pytest.mark.parametrize("training", [True, False])
def test_calls_dropout_pools_and_frozen_layers_are_counted(model, training):
    model.train(training)
    told = account(model, (5, 3, 16, 16), "adam")
    assert told["activations"] == kept(model, torch.rand(5, 3, 16, 16))
    trained = bytes_of(p for p in model.parameters() if p.requires_grad)
    assert told["gradients"] == trained and told["optimizer"] == 2 * trained


def test_what_functions_keep_stands_in_a_row_of_its_own():
    names = [row.name for row in by_layer(Calls(16), (5, 3, 16, 16))]
    assert names == ["first", "calls", "second", "calls", "last"]


def test_a_called_pool_has_indices():
    assert account(Calls(16), (5, 3, 16, 16), "sgd")["pooling_indices"] == 8 * 5 * 8 * 64


@pytest.mark.parametrize("norm", ["none", "batch", "group"])
def test_the_rules_of_the_layers_add_up_to_what_autograd_notes(norm):
    x, total, seen = torch.rand(3, 3, 16, 16), 0, set()
    model = nn.Sequential(*classifier(16, norm=norm), nn.Dropout(0.5))
    for layer in model:
        y = layer(x)
        tensors, further = by_rule(layer, x, y)
        total += further + bytes_of(t for t in tensors if id(t) not in seen)
        seen.update(map(id, tensors))
        x = y
    assert account(model, (3, 3, 16, 16), "sgd")["activations"] == total


def test_a_layer_without_a_rule_is_refused_by_the_rules_alone():
    with pytest.raises(ValueError, match="PReLU has no rule"):
        by_rule(nn.PReLU(), None, None)


def test_pooling_indices_are_eight_bytes_an_output():
    model = nn.Sequential(nn.Conv2d(1, 2, 1), nn.MaxPool2d(2))
    assert account(model, (3, 1, 8, 8), "sgd")["pooling_indices"] == 8 * 3 * 2 * 4 * 4


@pytest.mark.parametrize(
    ("name", "options"),
    [("SGD", {}), ("SGD", {"momentum": 0.9}), ("Adam", {"amsgrad": True}), ("AdamW", {})],
)
def test_the_optimisers_state_is_what_it_makes(name, options):
    model = nn.Linear(5, 3)
    optimizer = getattr(torch.optim, name)(model.parameters(), lr=0.1, **options)
    told = account(model, (2, 5), optimizer)
    model(torch.ones(2, 5)).sum().backward()
    optimizer.step()
    made = [t for state in optimizer.state.values() for t in state.values() if t is not None]
    assert told["optimizer"] + told["optimizer_steps"] == sum(t.numel() * 4 for t in made)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("RMSprop", {}),
        ("RMSprop", {"momentum": 0.9, "centered": True}),
        ("Adagrad", {}),
        ("NAdam", {}),
        ("Adamax", {}),
        ("SGD", {"momentum": 0.9, "nesterov": True}),
    ],
)
def test_other_optimisers_are_tried_on_a_small_weight(name, options):
    model = nn.Linear(5, 3)
    optimizer = getattr(torch.optim, name)(model.parameters(), lr=0.1, **options)
    before = [p.clone() for p in model.parameters()], len(optimizer.state)
    told = account(model, (2, 5), optimizer)["optimizer"]
    assert all(torch.equal(a, b) for a, b in zip(before[0], model.parameters(), strict=True))
    assert len(optimizer.state) == before[1], "the optimiser itself has not stepped"
    model(torch.ones(2, 5)).sum().backward()
    optimizer.step()
    made = [t for one in optimizer.state.values() for t in one.values() if torch.is_tensor(t)]
    assert told == bytes_of(t for t in made if t.ndim)
    assert account(model, (2, 5), optimizer)["optimizer"] == told, "after a step, too"


@pytest.mark.parametrize("name", ["LBFGS", "Adafactor"])
def test_an_optimiser_whose_state_has_other_sizes_is_refused(name):
    model = nn.Linear(5, 3)
    with pytest.raises(ValueError, match=f"is a {name}: allowed are sgd"):
        account(model, (2, 5), getattr(torch.optim, name)(model.parameters()))


def test_groups_may_differ():
    model = nn.Linear(5, 3)
    groups = [{"params": [model.weight], "momentum": 0.9}, {"params": [model.bias]}]
    assert account(model, (2, 5), torch.optim.SGD(groups, lr=0.1))["optimizer"] == 4 * 15


def test_frozen_weights_have_no_gradient():
    assert account(nn.Linear(5, 3).requires_grad_(False), (2, 5), "adam")["gradients"] == 0


def test_the_account_leaves_the_model_where_it_is():
    model = nn.Linear(5, 3)
    by_layer(model, (2, 5))
    assert model.weight.device.type == "cpu" and not model._forward_hooks


@pytest.mark.parametrize(
    ("model", "shape", "optimizer", "message"),
    [
        (nn.Linear(5, 3), (5,), "sgd", "batch comes first"),
        (nn.Linear(5, 3), (0, 5), "sgd", "batch comes first"),
        (nn.Linear(5, 3), (2, 5), "lion", "allowed are sgd"),
        (nn.Linear(5, 3), (2, 5), None, "is a NoneType: allowed are sgd"),
        (Attends(), (2, 4, 5, 8), "sgd", "scaled_dot_product_attention"),
        (Asks(), (2, 5), "sgd", "needs no tensor's value"),
        (nn.Sequential(nn.LSTM(5, 3)), (2, 4, 5), "sgd", "forward calls lstm"),
        (nn.TransformerEncoderLayer(8, 2, 16), (2, 4, 8), "sgd", "multi_head_attention"),
    ],
)
def test_what_cannot_be_counted_is_refused(model, shape, optimizer, message):
    with pytest.raises(ValueError, match=message):
        account(model, shape, optimizer)
