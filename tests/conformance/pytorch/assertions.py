# SPDX-License-Identifier: Apache-2.0
"""Device-side assertions: an index that is out of bounds ends the context.

Each case runs in a process of its own, because the context of a failed assertion cannot be used
again."""

import subprocess
import sys
import textwrap

from conformance import main

HEAD = """
import torch
from torch.nn import functional as F
def indices(*numbers):
    return torch.tensor(numbers, device="cuda")
ten, zeros = torch.arange(10.0).cuda(), torch.zeros(5).cuda()
rows, scores = torch.rand(10, 4).cuda(), torch.rand(4, 10).cuda()
"""
TAIL = """
    torch.cuda.synchronize()
except RuntimeError as error:
    assert "device-side assert triggered" in str(error), error
    try:
        torch.zeros(3, device="cuda").cpu()
    except RuntimeError as later:
        assert "device-side assert triggered" in str(later), later
        raise SystemExit(71)
"""
FAILED = 71


def outcome(line):
    """Runs a line; returns whether an assertion failed."""
    body = "try:\n" + textwrap.indent(line, "    ")
    command = [sys.executable, "-W", "ignore", "-c", HEAD + body + TAIL]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode in (0, FAILED), done.stderr[-2000:]
    return done.returncode == FAILED


def fails(*lines):
    for line in lines:
        assert outcome(line), line


def succeeds(*lines):
    for line in lines:
        assert not outcome(line), line


def test_reading_by_indices():
    fails(
        "ten[indices(1, 12)]",
        "ten[indices(-12)]",
        "torch.gather(ten, 0, indices(10))",
        "torch.gather(ten, 0, indices(-1))",
        "torch.index_select(rows, 0, indices(3, 10))",
        "torch.take(ten, indices(10))",
    )
    succeeds("ten[indices(1, -10)]", "torch.take(ten, indices(-10))")


def test_writing_by_indices():
    fails(
        "zeros[indices(7)] = 1.0",
        "zeros.scatter_(0, indices(7), 1.0)",
        "zeros.scatter_add_(0, indices(7), ten[:1])",
        "zeros.index_add_(0, indices(7), ten[:1])",
        "zeros.index_fill_(0, indices(7), 1.0)",
        "zeros.index_copy_(0, indices(7), ten[:1])",
        "zeros.put_(indices(7), ten[:1])",
    )
    succeeds("zeros[indices(-5)] = 1.0", "zeros.index_fill_(0, indices(-5), 1.0)")


def test_embeddings():
    fails(
        "torch.nn.Embedding(100, 16).cuda()(indices(5, 100))",
        "ids = torch.zeros(64, 512, dtype=torch.long); ids[3, 4] = 1000\n"
        "torch.nn.Embedding(1000, 768).cuda()(ids.cuda())",
        "torch.nn.EmbeddingBag(100, 16).cuda()(indices(5, 100).view(1, 2))",
        "F.one_hot(indices(1, 5), 5)",
    )
    succeeds("torch.nn.Embedding(100, 16).cuda()(indices(0, 99))")


def test_labels_of_losses():
    fails(
        "F.cross_entropy(scores, indices(1, 2, 10, 3))",
        "F.cross_entropy(scores, indices(1, 2, -1, 3))",
        "F.cross_entropy(scores, indices(1, 2, 10, 3), reduction='none')",
        "F.cross_entropy(scores[0], indices(10)[0])",
        "F.cross_entropy(scores.view(2, 10, 2), indices(1, 2, 10, 3).view(2, 2))",
        "F.cross_entropy(scores.view(2, 10, 2), indices(1, 2, 10, 3).view(2, 2), reduction='none')",
        "F.multi_margin_loss(scores, indices(1, 2, 10, 3))",
    )
    succeeds("F.cross_entropy(scores, indices(1, 2, -100, 3))")


def test_assertions_of_programs():
    fails("torch._assert_async(zeros[0])", "torch.multinomial(-ten, 1)")
    succeeds("torch._assert_async(ten[1])")


if __name__ == "__main__":
    main()
