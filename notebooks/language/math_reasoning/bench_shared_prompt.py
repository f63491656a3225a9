"""The race: many answers of one prompt, by our shared cache, by `transformers` with a prefix
cache and by `ctranslate2`, with the same weights on the same cores.

In the chapter's folder, a receipt or a quick look:

    python -m bench_shared_prompt
    python -m bench_shared_prompt --rounds 3 --answers 8 --tokens 8

Equality comes first: all must give the same greedy tokens after the prompt, and our logits are
held to those of `transformers`. Then each samples at temperature 1 from all tokens, always so
many tokens, with no end. Every contestant has the prompt computed before the clock where it can
keep it: ours and `transformers` hold its keys and values, `ctranslate2` caches it as its static
prompt. The larger model has random weights and is timed only, after the same check.
"""

import argparse
import importlib.util
import tempfile

import torch
from helpers import bench, check, device, receipts
from small_solver import Answers, Shape, Solver, choose, load
from templated_maths import encode, few_shot, items

LARGE = Shape(tokens=96, context=224, width=512, layers=8, heads=8)
PEERS = ("transformers", "ctranslate2")
FAR = 2e-3  # of logits of some tens: sums of 32 bits in another order


def prompt_tokens() -> list[int]:
    """Two solved problems and a question."""
    one, *shots = items(3, seed=7, test=False)
    return encode(few_shot(shots, one))


class Ours:
    """Answers by `small_solver`, from a state whose prompt is computed once."""

    def __init__(self, model, prompt, answers, most):
        self.model, self.most, self.answers = model, most, answers
        with torch.inference_mode():
            self.state = Answers(model, prompt, answers, most)

    @torch.inference_mode()
    def __call__(self, temperature=1.0):
        self.state.written = 0  # what was written before is overwritten
        logits, made = self.state.first, []
        for at in range(self.most):
            made.append(choose(logits, temperature))
            if at + 1 < self.most:
                logits = self.state.step(made[-1])
        return torch.stack(made, 1).tolist()


def gpt2(model: Solver):
    """The same weights as a GPT-2 of `transformers`."""
    from transformers import GPT2Config, GPT2LMHeadModel

    shape = model.shape
    config = GPT2Config(
        vocab_size=shape.tokens, n_positions=shape.context, n_embd=shape.width,
        n_layer=shape.layers, n_head=shape.heads, activation_function="gelu_new",
        bos_token_id=None, eos_token_id=None, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
    )  # fmt: skip
    made, own = GPT2LMHeadModel(config).eval(), model.state_dict()
    names = {"norm_1": "ln_1", "norm_2": "ln_2", "qkv": "attn.c_attn", "out": "attn.c_proj"}
    names |= {"up": "mlp.c_fc", "down": "mlp.c_proj"}
    state = {
        "transformer.wte.weight": own["embed.weight"],
        "lm_head.weight": own["embed.weight"],
    }
    state["transformer.wpe.weight"] = own["place.weight"]
    state |= {f"transformer.ln_f.{one}": own[f"norm.{one}"] for one in ("weight", "bias")}
    for layer in range(shape.layers):
        for mine, its in names.items():
            weight = own[f"blocks.{layer}.{mine}.weight"]
            turned = weight if "norm" in mine else weight.T  # theirs are (in, out)
            state[f"transformer.h.{layer}.{its}.weight"] = turned
            state[f"transformer.h.{layer}.{its}.bias"] = own[f"blocks.{layer}.{mine}.bias"]
    made.load_state_dict(state)
    return made


class Transformers:
    """Answers by `generate`, on a static cache that holds the prompt for every answer: a third
    faster here than a dynamic one, which is copied at each token.
    """

    def __init__(self, model, prompt, answers, most):
        from transformers import StaticCache

        self.model, self.most, self.answers = gpt2(model), most, answers
        self.rows = torch.tensor([prompt]).expand(answers, -1)
        self.cache = StaticCache(config=self.model.config, max_cache_len=len(prompt) + most)
        with torch.inference_mode():  # all but the last token: that one begins the generation
            self.model(self.rows[:, :-1], past_key_values=self.cache, use_cache=True)

    def __call__(self, temperature=1.0):
        for layer in self.cache.layers:  # what was written before is overwritten
            layer.cumulative_length.fill_(self.rows.shape[1] - 1)
        given = {"max_new_tokens": self.most, "min_new_tokens": self.most, "pad_token_id": 0}
        given |= {"past_key_values": self.cache, "do_sample": bool(temperature)}
        given |= {"temperature": temperature, "top_k": 0} if temperature else {}
        with torch.inference_mode():
            mask = torch.ones_like(self.rows)
            made = self.model.generate(self.rows, attention_mask=mask, **given)
        return made[:, self.rows.shape[1] :].tolist()

    def logits(self, tokens):
        """Of all positions, without a cache."""
        return self.model(tokens).logits


class Ctranslate2:
    """Answers by `ctranslate2`, the prompt as its cached static prompt."""

    def __init__(self, model, prompt, answers, most):
        import ctranslate2
        from ctranslate2.converters import TransformersConverter

        folder = tempfile.mkdtemp()
        words = [f"t{at}" for at in range(model.shape.tokens)]
        gpt2(model).save_pretrained(f"{folder}/peer")
        _words_of(f"{folder}/peer", words)
        TransformersConverter(f"{folder}/peer").convert(f"{folder}/made", force=True)
        threads = torch.get_num_threads()
        self.generator = ctranslate2.Generator(
            f"{folder}/made", device="cpu", intra_threads=threads, inter_threads=1
        )
        self.prompt, self.most, self.answers = [words[one] for one in prompt], most, answers

    def __call__(self, temperature=1.0):
        drawn = {"sampling_topk": 0, "sampling_temperature": temperature}
        found = self.generator.generate_batch(
            [self.prompt[-1:]], static_prompt=self.prompt[:-1], cache_static_prompt=True,
            num_hypotheses=self.answers if temperature else 1, max_length=self.most,
            min_length=self.most, include_prompt_in_result=False, end_token=[],
            **(drawn if temperature else {"sampling_topk": 1}),
        )  # fmt: skip
        return [list(one) for one in found[0].sequences_ids]


def _words_of(folder, words):
    """None; saves a tokenizer that knows these words: the converter asks for one."""
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from transformers import PreTrainedTokenizerFast

    known = {word: at for at, word in enumerate(words)}
    made = Tokenizer(WordLevel(known, unk_token=words[0]))
    ends = {"bos_token": words[0], "eos_token": words[-1], "unk_token": words[0]}
    PreTrainedTokenizerFast(tokenizer_object=made, **ends).save_pretrained(folder)


def makers() -> dict:
    """{name: class}; a peer that is not installed is left out."""
    classes = {"transformers": Transformers, "ctranslate2": Ctranslate2}
    return {"ours": Ours} | {n: classes[n] for n in PEERS if importlib.util.find_spec(n)}


def contestants(model, options) -> dict:
    """Those who gave the same greedy tokens, each ready to answer the prompt."""
    prompt = prompt_tokens()
    made = {
        n: one(model, prompt, options.answers, options.tokens) for n, one in makers().items()
    }
    wanted = made["ours"](temperature=0)[0]
    for name, one in made.items():
        check.that(
            one(temperature=0)[0] == wanted, f"{name} gives other greedy tokens than ours"
        )
        rows = one()
        whole = len(rows) == options.answers and {len(row) for row in rows} == {options.tokens}
        check.that(whole, f"{name} gives {len(rows)} answers of other lengths than asked")
        if hasattr(one, "logits"):
            with torch.inference_mode():
                own, theirs = model(torch.tensor([prompt])), one.logits(torch.tensor([prompt]))
            check.close(own, theirs, rtol=FAR, atol=FAR, why="sums in another order")
    return made


def main(arguments=None):
    """Check, race, print the tables and the receipt's path."""
    options = _options(arguments)
    torch.set_num_threads(options.threads)
    receipt = receipts.start("math_reasoning", device.tier("cpu"), threads=options.threads)
    torch.manual_seed(0)
    models = {"small": load(), "large": Solver(LARGE).eval()}
    for name in set(PEERS) - makers().keys():
        print(f"left out: {name} is not installed")
    receipt.sizes(answers=options.answers, tokens=options.tokens)
    for size, model in models.items():
        made = contestants(model, options)
        race = bench.race(
            made, repeats=options.rounds, warmup=2, reference="ours", device="cpu"
        )
        print(size, race, sep="\n")
        record(receipt, race, size, options.answers * options.tokens)
    print(receipt.write(name="shared_prompt"))


def record(receipt, race, size, count):
    """Tokens a second of each contestant, and ours over each peer's."""
    for name, found in race.results.items():
        receipt.record(f"tokens_{name}_{size}", found, "tokens/s", count=count)
        if name != "ours":
            receipt.record(
                f"speed_over_{name}_{size}", bench.ratio(found, race.results["ours"])
            )


def _options(arguments):
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    for name, default, words in (
        ("rounds", 20, "interleaved rounds"),
        ("threads", device.cores(), "of torch and of ctranslate2"),
        ("answers", 64, "of the one prompt"),
        ("tokens", 40, "of each answer"),
    ):
        parser.add_argument(
            f"--{name}", type=int, default=default, help=f"{words} (default: %(default)s)"
        )
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
