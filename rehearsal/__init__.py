"""A rehearsal of the GPU on a machine without one: a pretended CUDA device, what it counts, and a prediction from that.

Tensors say `cuda:0` and hold real values computed on the CPU. Mistakes that a card would punish raise, what cannot
be rehearsed raises `CannotRehearse` with its reason, and nothing measured here is ever written as a receipt: seconds
of a pretended device mean nothing.

Reading order: `device` installs everything, once in a process and for good · `tensor` is the tensor that says cuda:0
· `shapes` are tensors without values · `dispatch` runs each operation by a card's rules · `rules` are those rules ·
`traffic` is what one operation moves, `flops` what it computes · `kernels` are those that a card lacks · `counts` keeps
all that, with the place in the code · `streams` knows what the host and other streams may use · `stand_ins` replaces
`torch.cuda`, `torch.accelerator`, generators and pinned memory · `autocast` casts as a card's autocast does ·
`backward` lets mistakes out of a backward pass · `refused` is what cannot be rehearsed.
`plugin` is for pytest (`pytest -p rehearsal.plugin …`), `chapter` runs a notebook (`press rehearse`), `parts`
counts a chapter's own functions (`make predict`), `predict` turns counts into seconds and bytes on a T4, an A100 and an
H100, `against_the_cpu` holds that formula against this machine, while `beside` looks what else runs there.

`counts` and `predict` need no torch, so the press may read a rehearsal's report; no chapter and no helper needs this
package.
"""
