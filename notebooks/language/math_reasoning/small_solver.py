"""A small decoder-only language model, and answers that share a prompt.

The architecture is GPT-2's (Radford and others 2019): learned positions, norms before attention
and before the feed-forward part, GELU in its tanh form, one matrix for input and output, so
that other engines load the same weights. `k` answers of one prompt share its keys and values:
these are computed once; each answer then keeps its own for what it writes.

It learns from lines packed into windows, by AdamW with a warm-up and a cosine. The weights that
ship were made by `python -m small_solver` in this folder, and are kept in 16 bits. Its training
stops early: after 6,000 steps 58 of 60 problems of the training side are right at once, and
votes have nothing to do; after 2,500 it is 34 of 60.

Shape legend: `B` sequences, `T` tokens, `P` prompt tokens, `K` answers, `D` width, `H` heads.
"""

import argparse
import math
from dataclasses import dataclass
from pathlib import Path

import torch
from templated_maths import encode, items, written
from torch.nn import functional as F

WEIGHTS = Path(__file__).with_name("small_solver.safetensors")


@dataclass(frozen=True)
class Shape:
    """Sizes of a model."""

    tokens: int = 96
    context: int = 224
    width: int = 64
    layers: int = 3
    heads: int = 4


class Block(torch.nn.Module):
    """Attention and a feed-forward part, each behind a norm and added to what came in."""

    def __init__(self, shape: Shape):
        super().__init__()
        width = shape.width
        self.heads = shape.heads
        self.norm_1, self.norm_2 = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)
        self.qkv, self.out = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)
        self.up = torch.nn.Linear(width, 4 * width)
        self.down = torch.nn.Linear(4 * width, width)

    def split(self, x_BTD):
        """Queries, keys and values, each (B, H, T, D/H)."""
        size_B, size_T, _ = x_BTD.shape
        qkv = self.qkv(self.norm_1(x_BTD)).view(size_B, size_T, 3, self.heads, -1)
        return qkv.permute(2, 0, 3, 1, 4).unbind(0)

    def join(self, x_BTD, seen_BHTd):
        """The block's output for what the heads have seen."""
        x_BTD = x_BTD + self.out(seen_BHTd.transpose(1, 2).flatten(2))
        inner = F.gelu(self.up(self.norm_2(x_BTD)), approximate="tanh")
        return x_BTD + self.down(inner)

    def forward(self, x_BTD):
        """All positions at once, each seeing itself and those before it."""
        q, k, v = self.split(x_BTD)
        return self.join(x_BTD, F.scaled_dot_product_attention(q, k, v, is_causal=True)), k, v


class Solver(torch.nn.Module):
    """The model: `Solver(Shape())(tokens)` gives (B, T, tokens) logits for (B, T) int64."""

    def __init__(self, shape: Shape = Shape()):  # noqa: B008 (frozen)
        super().__init__()
        self.shape = shape
        self.embed = torch.nn.Embedding(shape.tokens, shape.width)
        self.place = torch.nn.Embedding(shape.context, shape.width)
        self.blocks = torch.nn.ModuleList(Block(shape) for _ in range(shape.layers))
        self.norm = torch.nn.LayerNorm(shape.width)
        for name, one in self.named_parameters():
            if (
                one.dim() == 2
            ):  # GPT-2's start: what adds to the stream is smaller in deep stacks
                deep = name.endswith(("out.weight", "down.weight"))
                torch.nn.init.normal_(one, std=0.02 / math.sqrt(2 * shape.layers) ** deep)

    def forward(self, tokens_BT, keep: bool = False):
        """Logits; with `keep` also the keys and values of each block."""
        if tokens_BT.shape[1] > self.shape.context:
            raise ValueError(f"{tokens_BT.shape[1]} tokens; at most {self.shape.context} fit")
        places = torch.arange(tokens_BT.shape[1], device=tokens_BT.device)
        x_BTD, kept = self.embed(tokens_BT) + self.place(places), []
        for block in self.blocks:
            x_BTD, k, v = block(x_BTD)
            kept.append((k, v))
        logits = F.linear(self.norm(x_BTD), self.embed.weight)
        return (logits, kept) if keep else logits

    def __repr__(self):
        return (
            f"Solver({self.shape}, {sum(one.numel() for one in self.parameters()):,} weights)"
        )


class Answers:
    """K answers of one prompt in the making: the prompt's keys and values once for all, and a
    buffer for what each has written; `step` takes (K,) tokens and gives (K, tokens) logits.

    A step reads the prompt's part once, as one product for all answers, and not K times: by far
    the most of its memory traffic (Juravsky and others 2024, arXiv:2402.05099).
    """

    def __init__(self, model: Solver, prompt, answers: int, most: int):
        if len(prompt) + most > model.shape.context or not prompt:
            raise ValueError(f"{len(prompt)} + {most} tokens; 1 to {model.shape.context} fit")
        at = model.embed.weight
        self.model, self.prompt, self.written = model, len(prompt), 0
        logits, kept = model(torch.tensor([prompt], device=at.device), keep=True)
        self.first = logits[:, -1].expand(answers, -1)
        self.shared = [(k[0].transpose(1, 2).contiguous(), v[0]) for k, v in kept]
        size = answers, model.shape.heads, most, kept[0][0].shape[-1]
        self.kept = [(at.new_empty(size), at.new_empty(size)) for _ in kept]

    def step(self, tokens_K):
        """The logits that follow, once each answer has got one more token."""
        at, reach = self.written, self.written + 1
        place = self.model.place.weight[self.prompt + at]
        x_KTD = (self.model.embed(tokens_K) + place)[:, None]
        layers = zip(self.model.blocks, self.shared, self.kept, strict=True)
        for block, shared, (keys, values) in layers:
            q, k, v = block.split(x_KTD)
            keys[:, :, at:reach], values[:, :, at:reach] = k, v
            seen = attend(q, *shared, keys[:, :, :reach], values[:, :, :reach])
            x_KTD = block.join(x_KTD, seen)
        self.written = reach
        return F.linear(self.model.norm(x_KTD[:, 0]), self.model.embed.weight)

    def keep(self, alive):
        """None; only these answers go on."""
        self.kept = [(keys[alive], values[alive]) for keys, values in self.kept]


def attend(q_KHTd, keys_HdP, values_HPd, keys_KHWd, values_KHWd):
    """Attention of one query an answer, to the shared prompt and to its own tokens: one softmax
    over both parts, (K, H, 1, d).
    """
    q_KHTd = q_KHTd / math.sqrt(q_KHTd.shape[-1])
    told_KHP = (q_KHTd[:, :, 0].transpose(0, 1) @ keys_HdP).transpose(0, 1)
    own_KHW = (q_KHTd @ keys_KHWd.transpose(2, 3))[:, :, 0]
    share = torch.softmax(torch.cat([told_KHP, own_KHW], -1), -1)
    told_KHP, own_KHW = share.split([keys_HdP.shape[-1], keys_KHWd.shape[2]], -1)
    prompt_KHd = (told_KHP.transpose(0, 1) @ values_HPd).transpose(0, 1)
    return (prompt_KHd + (own_KHW[..., None] * values_KHWd).sum(2))[:, :, None]


@torch.inference_mode()
def sample(model, prompt, answers, most, end, temperature=1.0, top_p=1.0, generator=None):
    """`answers` lists of tokens that go on from one prompt, each up to `end` (left out) or
    `most`. Temperature 0 takes the likeliest token: then one answer is enough for all.
    """
    state = Answers(model, prompt, answers, most)
    logits, made = state.first, [[] for _ in range(answers)]
    alive = torch.arange(answers, device=logits.device)
    for at in range(most):
        tokens = choose(logits, temperature, top_p, generator)
        for one, token in zip(alive.tolist(), tokens.tolist(), strict=True):
            made[one].append(token)
        going = tokens != end
        if at + 1 == most or not going.any():
            break
        if not going.all():
            alive, tokens = alive[going], tokens[going]
            state.keep(going)
        logits = state.step(tokens)
    return [one[:-1] if one[-1] == end else one for one in made]


def choose(logits, temperature, top_p=1.0, generator=None):
    """A token for each row: the likeliest at temperature 0, else drawn. `top_p` below 1 keeps
    the fewest tokens that together have that probability (nucleus sampling, Holtzman 2020).
    """
    if temperature < 0 or not 0 < top_p <= 1:
        raise ValueError(f"temperature {temperature}, top_p {top_p}: 0 or more; above 0, to 1")
    if temperature == 0:
        return logits.argmax(-1)
    chances = torch.softmax(logits / temperature, -1)
    if top_p < 1:
        ordered, order = chances.sort(-1, descending=True)
        ordered[ordered.cumsum(-1) - ordered >= top_p] = 0
        chances = torch.zeros_like(chances).scatter(-1, order, ordered)
    reached = chances.cumsum(
        -1, dtype=torch.float64
    )  # one number a row decides, where a number a token would do, too
    at = torch.rand(
        len(chances), 1, dtype=reached.dtype, device=reached.device, generator=generator
    )
    found = torch.searchsorted(reached, at * reached[:, -1:], right=True)
    return found[:, 0].clamp(max=chances.shape[-1] - 1)


def load(path=WEIGHTS, device="cpu") -> Solver:
    """The solver that ships, in float32; its sizes are those of its tensors."""
    from safetensors.torch import load_file

    tensors = {name: one.float() for name, one in load_file(path).items()}
    layers = 1 + max(int(name.split(".")[1]) for name in tensors if name.startswith("blocks."))
    (tokens, width), context = tensors["embed.weight"].shape, len(tensors["place.weight"])
    model = Solver(Shape(tokens, context, width, layers))
    model.load_state_dict(tensors)
    return model.to(device).eval()


@dataclass(frozen=True)
class Recipe:
    """How long and how fast a model learns."""

    steps: int = 2500
    batch: int = 8
    window: int = 224
    rate: float = 4e-3
    warmup: int = 100


def stream(lines: list[str], tokens: int, seed: int):
    """(tokens,) int64 of lines one after another, in an order drawn by the seed, again and
    again in a new order until there are enough: arms of one study get equally many tokens.
    """
    draw, found = torch.Generator().manual_seed(seed), []
    whole = [encode(line) for line in lines]
    while len(found) < tokens:
        for at in torch.randperm(len(whole), generator=draw).tolist():
            found += whole[at]
    return torch.tensor(found[:tokens])


def windows(tokens, recipe: Recipe, seed: int):
    """Batches (batch, window + 1) at places drawn by the seed, one a step."""
    draw = torch.Generator().manual_seed(seed)
    reach = torch.arange(recipe.window + 1)
    for _ in range(recipe.steps):
        starts = torch.randint(len(tokens) - recipe.window, (recipe.batch,), generator=draw)
        yield tokens[starts[:, None] + reach]


def rate(step: int, recipe: Recipe) -> float:
    """The learning rate of a step: up in a line, then down along a cosine to a tenth."""
    if step < recipe.warmup:
        return recipe.rate * (step + 1) / recipe.warmup
    done = (step - recipe.warmup) / max(1, recipe.steps - recipe.warmup)
    return recipe.rate * (0.1 + 0.45 * (1 + math.cos(math.pi * done)))


def fit(model: Solver, tokens, recipe: Recipe, seed: int, told=None) -> Solver:
    """The model, trained in place on windows of the tokens; `told(step, loss)` hears of it."""
    adam = torch.optim.AdamW(
        model.parameters(), lr=recipe.rate, betas=(0.9, 0.98), weight_decay=0.01
    )
    model.train()
    for step, batch in enumerate(windows(tokens, recipe, seed)):
        for group in adam.param_groups:
            group["lr"] = rate(step, recipe)
        logits = model(batch[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())
        adam.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        adam.step()
        if told and step % 250 == 0:
            told(step, loss.item())
    return model.eval()


def main(arguments=None):
    """Train the solver that ships, and save its weights in 16 bits."""
    from safetensors.torch import save_file

    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--steps", type=int, default=Recipe.steps)
    parser.add_argument("--lines", type=int, default=120_000)
    parser.add_argument("--to", default=str(WEIGHTS))
    options = parser.parse_args(arguments)
    torch.manual_seed(0)
    lines = [written(one) for one in items(options.lines, seed=0, test=False)]
    tokens = stream(lines, sum(map(len, lines)), seed=0)
    model = fit(Solver(Shape()), tokens, Recipe(steps=options.steps), seed=0, told=print)
    save_file({name: one.half() for name, one in model.state_dict().items()}, options.to)


if __name__ == "__main__":
    main()
