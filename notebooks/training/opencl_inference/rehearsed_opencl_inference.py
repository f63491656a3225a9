"""The classifier's convolutions and sums as a GPU would run them through the reference
interface, as PyTorch runs the network module by module, and with every value going by the host.

`make predict` counts them without a GPU, at the sizes of each tier.
"""

import graph_cut
import phone_network
import slice_kernels
import torch

METRICS = {}  # the article's claims are about phones, and no metric here is a GPU's time


def ours(sizes, device):
    """The reference interface: batch norms folded, each clamp in place, values stay there"""
    plan, image = _plan(*_task(sizes, device))
    return lambda: plan.run(image)[0]


def naive(sizes, device):
    """The same network by its modules: each batch norm and clamp reads and writes once more"""
    network, image = _task(sizes, device)

    def run():
        with torch.no_grad():
            return network(image[None])

    return run


def broken(sizes, device):
    """As ours, but after every step the value goes to the host and back"""
    plan, image = _plan(*_task(sizes, device), _ByTheHost())
    return lambda: plan.run(image)[0]


class _ByTheHost(slice_kernels.TorchDevice):
    def run(self, layer, held, group=None):
        out, clock = super().run(layer, held, group)
        return out._replace(data=out.data.cpu().to(out.data.device)), clock


def _task(sizes, device):
    network = phone_network.drawn(phone_network.Classifier(sizes["width"])).to(device)
    return network, torch.rand(3, sizes["pixels"], sizes["pixels"]).to(device)


def _plan(network, image, runner=None):
    return graph_cut.Plan(
        graph_cut.steps(network), runner or slice_kernels.TorchDevice()
    ), image
