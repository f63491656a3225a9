"""One model served in the three ways of the article's comparison.

Each function returns `score(numbers_BD, keys_BF)`: the chances of a click (B,), on the CPU. The
dense part is copied: a worker shares it with nobody. Tables and caches are shared.
"""

import copy

import torch


def all_on_cpu(model, weight):
    """Tables and dense part with the CPU. `weight`: the table (rows, W), on the CPU."""
    dense = copy.deepcopy(model.dense).cpu()

    @torch.inference_mode()
    def score(numbers_BD, keys_BF):
        vectors_BFW = torch.nn.functional.embedding(keys_BF, weight)
        return torch.sigmoid(dense(numbers_BD, vectors_BFW))

    return score


def tables_on_cpu(model, weight, device):
    """The table with the CPU, the dense part on the device: vectors cross the link."""
    dense = copy.deepcopy(model.dense).to(device)

    @torch.inference_mode()
    def score(numbers_BD, keys_BF):
        vectors_BFW = torch.nn.functional.embedding(keys_BF, weight).to(device)
        return torch.sigmoid(dense(numbers_BD.to(device), vectors_BFW)).cpu()

    return score


def hierarchy(model, table):
    """Hot vectors in the device's cache, the others below: `table` is an `EmbeddingTable`."""
    dense = copy.deepcopy(model.dense).to(table.cache.device)

    @torch.inference_mode()
    def score(numbers_BD, keys_BF):
        vectors = table.lookup(keys_BF.flatten())
        vectors_BFW = vectors.view(*keys_BF.shape, -1)
        return torch.sigmoid(dense(numbers_BD.to(vectors.device), vectors_BFW)).cpu()

    return score


WAYS = ("all on the CPU", "tables on the CPU", "hierarchy")
