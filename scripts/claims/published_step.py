# SPDX-License-Identifier: Apache-2.0
"""Trains or runs a model as a published step of evidence/published/steps.csv did, for
scripts/claims/check_published.py:

    published_step.py '{"source": "timm", "model": "resnet50", ...}'

No weights are needed: they are neither loaded nor, where the model allows it, made.
"""

import json
import re
import sys

import torch
from check_published import is_normalized_in_place
from torch import nn
from torch.nn import functional

STEPS = 8

# Layers, width and heads of the language models, by their papers, and the share of attention's
# weights that is dropped, by the configurations in which they were published.
LANGUAGE_MODELS = {"gpt2_large": (36, 1280, 20, 0.1), "opt_13": (24, 2048, 32, 0)}
VOCABULARY = 50257


class Block(nn.Module):
    """A block of GPT-2 with attention that keeps its scores, as the measured programs had."""

    def __init__(self, width, heads, dropped):
        super().__init__()
        self.heads, self.dropped = heads, dropped
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x, mask):
        batch, length, width = x.shape
        qkv = self.qkv(self.norm1(x)).view(batch, length, 3, self.heads, width // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-1, -2) / (width // self.heads) ** 0.5
        weights = torch.where(mask, scores, torch.finfo(scores.dtype).min).softmax(-1)
        if self.training and self.dropped > 0:
            weights = functional.dropout(weights, self.dropped)
        x = x + self.out((weights @ v).transpose(1, 2).reshape(batch, length, width))
        return x + self.down(functional.gelu(self.up(self.norm2(x)), approximate="tanh"))


class LanguageModel(nn.Module):

    def __init__(self, layers, width, heads, dropped, length):
        super().__init__()
        self.tokens, self.places = nn.Embedding(VOCABULARY, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList(Block(width, heads, dropped) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, VOCABULARY, bias=False)
        self.register_buffer("mask", torch.ones(length, length, dtype=torch.bool).tril())

    def forward(self, tokens):
        x = self.tokens(tokens) + self.places.weight
        for block in self.blocks:
            x = block(x, self.mask)
        return self.head(self.norm(x)).flatten(0, 1)


def rows_of_channels(x):
    """Returns a tensor's memory as one of samples, channels and pixels.

    InplaceABN's kernels know no other layout. If the channels are last, they find each element by
    its strides; here, the elements are others, but they are as many."""
    return x.as_strided((*x.shape[:2], x[0, 0].numel()), (x[0].numel(), x[0, 0].numel(), 1))


class InPlaceNorm(torch.autograd.Function):
    """Batch normalization that overwrites its input, and computes it again from what it returned
    (Rota Bulo, Porzi, Kontschieder, CVPR 2018). The activation belongs to the same kernels."""

    @staticmethod
    def forward(ctx, x, weight, bias, epsilon):
        # pylint: disable=arguments-differ
        rows = rows_of_channels(x)
        mean, inverse = torch.batch_norm_stats(rows, epsilon)
        torch.batch_norm_elemt(rows, weight, bias, mean, inverse, epsilon, out=rows)
        ctx.mark_dirty(x)
        ctx.save_for_backward(x, weight, bias, inverse)
        return x

    @staticmethod
    def backward(ctx, gradient):
        # pylint: disable=arguments-differ
        y, weight, bias, inverse = ctx.saved_tensors
        rows, rows_of_gradient = rows_of_channels(y), rows_of_channels(gradient)
        zero, one = torch.zeros_like(bias), torch.ones_like(bias)
        normal = torch.batch_norm_elemt(rows, one, zero, bias, 1 / weight, 0.0)
        sums = torch.batch_norm_backward_reduce(rows_of_gradient, normal, zero, one, weight, True,
                                                True, True)
        count = torch.full((1,), y.numel() // y.shape[1], dtype=torch.int32, device=y.device)
        x = torch.batch_norm_backward_elemt(rows_of_gradient, normal, zero, one, weight * inverse,
                                            sums[0], sums[1], count)
        return x.as_strided(y.shape, y.stride()), sums[2], sums[3], None


def normalize_in_place(model):
    """Makes a timm model's normalization take no memory of its own, as InplaceABN does."""

    def replace(module):
        module.forward = lambda x: InPlaceNorm.apply(x, module.weight, module.bias, module.eps)

    for module in model.modules():
        if type(module).__name__ == "BatchNormAct2d":
            replace(module)


def creator(spec):
    """Returns a function that makes the model, with what it needs imported."""
    if spec["source"] == "neusight":
        return lambda: LanguageModel(*LANGUAGE_MODELS[spec["model"]], spec["size"])
    if spec["source"] == "torchvision":
        import torchvision
        return lambda: torchvision.models.get_model(spec["model"])
    import timm
    # The programs that trained were older than attention in one kernel.
    timm.layers.set_fused_attn(spec["phase"] == "inference")
    # timm has other models under these names today.
    wide = re.fullmatch(r"ig_resnext101_32x(\d+)d", spec["model"])
    if wide:
        return lambda: timm.create_model("resnext101_32x8d", base_width=int(wide[1]))
    return lambda: timm.create_model(spec["model"])


def model_of(spec):
    """Returns the model on the GPU, in the precision and layout of the step."""
    create = creator(spec)
    try:
        with torch.device("meta"):
            model = create()
        model = model.to_empty(device="cuda")
    except (NotImplementedError, RuntimeError):  # Some models compute while they are made.
        model = create().cuda()
    if spec["precision"] == "fp16":
        model = model.half()
    if is_normalized_in_place(spec):
        normalize_in_place(model)
    return model.to(memory_format=layout_of(spec)) if spec["layout"] else model


def layout_of(spec):
    return torch.channels_last if spec["layout"] == "nhwc" else torch.contiguous_format


def batch_of(spec):
    """Returns a batch of inputs and targets."""
    batch, size = spec["batch"], spec["size"]
    if spec["source"] == "neusight":
        tokens = torch.zeros(batch, size, dtype=torch.long, device="cuda")
        return tokens, tokens.flatten()
    kind = torch.half if spec["precision"] == "fp16" else torch.float
    images = torch.zeros(batch, 3, size, size, device="cuda", dtype=kind)
    return (images.contiguous(memory_format=layout_of(spec)),
            torch.zeros(batch, dtype=torch.long, device="cuda"))


class Step:
    """A step of a published spec: run it as often as wanted."""

    def __init__(self, spec):
        self.training = spec["phase"] == "training"
        # The language models were measured without TF32. Torchvision's program left it on, as
        # PyTorch did until 1.11: vgg19 reaches 44 TFLOP/s on the A100, of 19.5 in FP32.
        torch.backends.cuda.matmul.allow_tf32 = spec["source"] != "neusight"
        torch.backends.cudnn.allow_tf32 = spec["source"] != "neusight"
        # PyTorch 2.4, with which timm's models inferred, multiplied numbers of 16 bits as such
        # where it has no kernel for attention.
        torch.backends.cuda.allow_fp16_bf16_reduction_math_sdp(True)
        self.model = model_of(spec).train(self.training)
        self.inputs, self.targets = batch_of(spec)
        self.amp = spec["precision"] == "amp"
        # Torchvision's program measured the copy of its images, from pageable memory, and cleared
        # gradients as PyTorch did until 2.0: each is set to zero, and the next one added to it.
        self.copies = spec["source"] == "torchvision"
        if self.copies:
            self.inputs = self.inputs.cpu()
        self.optimizer = None
        if self.training and spec["source"] == "timm":
            self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-4, momentum=0.9,
                                             nesterov=True)

    def forward(self):
        with torch.set_grad_enabled(self.training):
            with torch.autocast("cuda", torch.float16, enabled=self.amp):
                output = self.model(self.inputs.cuda())
            output = output[0] if isinstance(output, (tuple, list)) else output
            return functional.cross_entropy(output, self.targets) if self.training else None

    def backward(self, loss):
        self.model.zero_grad(set_to_none=not self.copies)
        loss.backward()
        if self.optimizer is not None:
            self.optimizer.step()

    def run(self):
        loss = self.forward()
        if self.training:
            self.backward(loss)


def main():
    step = Step(json.loads(sys.argv[1]))
    for _ in range(STEPS):
        with torch.cuda.nvtx.range("step"):
            step.run()
    torch.cuda.synchronize()


if __name__ == "__main__":
    main()
