"""The forward pass of a trained DNC in PyTorch, from its safetensors file."""

from functools import partial

import torch
from safetensors.torch import load_file
from torch.nn.functional import softplus


def forward(path, inputs, slots=50, word=16, heads=4, peephole=True, compression=True, clip=20.0):
    """Outputs (time, batch, output channels) for inputs (time, batch, input channels)."""
    p = {name.removeprefix("parameters/"): array for name, array in load_file(path).items()}
    zeros, eps = partial(torch.zeros, inputs.shape[1]), 1e-6
    cell = p["controller.initial_cell"].expand(inputs.shape[1], -1)
    hidden = cell if peephole else p["controller.initial_hidden"].expand(inputs.shape[1], -1)
    memory, link, reads = zeros(slots, word), zeros(slots, slots), zeros(heads, word)
    usage, precedence, written, read = zeros(slots), zeros(slots), zeros(slots), zeros(heads, slots)
    sizes = [heads * word, heads, word, 1, word, word, heads, 1, 1, 3 * heads]

    def content(keys, strengths):
        norms = [((rows**2).sum(-1) + eps).sqrt() for rows in (keys, memory)]
        cosine = keys @ memory.mT / (norms[0][:, :, None] * norms[1][:, None] + eps)
        return (softplus(strengths)[:, :, None] * cosine).softmax(-1)

    outputs = []
    for x in inputs:
        seen = torch.cat([x, reads.flatten(1), cell if peephole else hidden], 1)
        i, f, g, o = (seen @ p["controller.weight"].T + p["controller.bias"]).chunk(4, 1)
        cell = f.sigmoid() * cell + i.sigmoid() * g.tanh()
        hidden = (o.sigmoid() * cell.tanh()).clamp(-clip, clip)
        cell = (cell.tanh() if compression else cell).clamp(-clip, clip)
        parts = (hidden @ p["interface_weight"].T + p["interface_bias"]).split(sizes, 1)
        keys, strengths, write_key, write_strength, erase, vector, free, new, gate, modes = parts
        usage = (usage + (1 - usage) * written.detach()) * (
            1 - free.sigmoid()[..., None] * read
        ).prod(1)
        ascending, order = (eps + (1 - eps) * usage).sort(dim=1, stable=True)
        before = torch.cat([torch.ones(len(x), 1), ascending.cumprod(1)[:, :-1]], 1)
        allocation = zeros(slots).scatter(1, order, (1 - ascending) * before)
        by_content = content(write_key[:, None], write_strength)[:, 0]
        written = gate.sigmoid() * torch.lerp(by_content, allocation, new.sigmoid())
        w = written[:, :, None]
        memory = memory * (1 - w * erase.sigmoid()[:, None]) + w * vector[:, None]
        link = ((1 - w - w.mT) * link + w * precedence[:, None]) * (1 - torch.eye(slots))
        precedence = (1 - written.sum(1, keepdim=True)) * precedence + written
        back, ahead, here = modes.unflatten(1, (heads, 3)).softmax(-1)[..., None].unbind(2)
        by_content = content(keys.unflatten(1, (heads, word)), strengths)
        read = back * (read @ link) + ahead * (read @ link.mT) + here * by_content
        reads = read @ memory
        y = hidden @ p["output_weight"].T + reads.flatten(1) @ p["readout_weight"].T
        outputs.append((y + p["output_bias"]).clamp(-clip, clip))
    return torch.stack(outputs)
