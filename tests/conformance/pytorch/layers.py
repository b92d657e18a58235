# SPDX-License-Identifier: Apache-2.0
"""RNNs, attention, normalisation, pooling, embedding and losses."""

import torch
from conformance import Skipped, backward, device_ms, main
from torch import nn
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel


def recurrent(module, hidden):
    module = module.cuda()
    data = torch.randn(20, 8, 32, device="cuda", requires_grad=True)
    output, _ = module(data)
    assert tuple(output.shape) == (20, 8, hidden), output.shape
    backward(output)
    assert data.grad.shape == data.shape
    assert all(weight.grad is not None for weight in module.parameters())


def test_lstm():
    recurrent(nn.LSTM(32, 64, num_layers=2), 64)


def test_gru_bidirectional():
    recurrent(nn.GRU(32, 48, bidirectional=True), 96)


def test_rnn():
    recurrent(nn.RNN(32, 16), 16)


def test_lstm_time_grows_with_the_sequence():
    module = nn.LSTM(256, 256).cuda()
    short = torch.randn(16, 32, 256, device="cuda")
    long = torch.randn(256, 32, 256, device="cuda")
    with torch.no_grad():
        assert device_ms(lambda: module(long)) > 4 * device_ms(lambda: module(short))


def attention(backend, dtype=torch.float16):
    query = torch.randn(2, 8, 256, 64, device="cuda", dtype=dtype, requires_grad=True)
    key, value = (torch.randn_like(query, requires_grad=True) for _ in range(2))
    with sdpa_kernel(backend):
        output = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
    assert output.shape == query.shape
    backward(output)
    assert key.grad.shape == key.shape


def test_attention_math():
    attention(SDPBackend.MATH)


def test_attention_memory_efficient():
    attention(SDPBackend.EFFICIENT_ATTENTION)


def test_attention_flash():
    if torch.cuda.get_device_capability() < (8, 0):
        raise Skipped("flash attention needs compute capability 8.0")
    attention(SDPBackend.FLASH_ATTENTION)


def test_attention_is_quadratic():
    def cost(length):
        data = torch.randn(1, 8, length, 64, device="cuda", dtype=torch.float16)
        with torch.no_grad():
            return device_ms(lambda: functional.scaled_dot_product_attention(data, data, data))

    assert cost(8192) > 8 * cost(2048)


def test_transformer_layer():
    module = nn.TransformerEncoderLayer(128, 4, 512, batch_first=True).cuda()
    data = torch.randn(4, 64, 128, device="cuda", requires_grad=True)
    output = module(data)
    assert output.shape == data.shape
    backward(output)
    assert data.grad is not None


def test_batch_norm_train_and_eval():
    module = nn.BatchNorm2d(64).cuda()
    data = torch.randn(32, 64, 56, 56, device="cuda", requires_grad=True)
    backward(module(data))
    assert module.num_batches_tracked.shape == ()
    assert module.weight.grad.shape == (64,)
    module.eval()
    with torch.no_grad():
        assert device_ms(lambda: module(data)) > 0


def test_layer_and_group_norm():
    data = torch.randn(8, 64, 128, device="cuda", requires_grad=True)
    backward(nn.LayerNorm(128).cuda()(data))
    backward(nn.GroupNorm(8, 64).cuda()(data))
    assert data.grad.shape == data.shape


def test_pooling():
    data = torch.randn(4, 16, 32, 32, device="cuda", requires_grad=True)
    assert nn.MaxPool2d(2)(data).shape == (4, 16, 16, 16)
    assert nn.AvgPool2d(2)(data).shape == (4, 16, 16, 16)
    output = nn.AdaptiveAvgPool2d((1, 1))(data)
    assert output.shape == (4, 16, 1, 1)
    backward(output)


def test_embedding():
    module = nn.Embedding(1000, 64).cuda()
    backward(module(torch.randint(1000, (16, 32)).cuda()))
    assert module.weight.grad.shape == (1000, 64)


def test_embedding_bag():
    module = nn.EmbeddingBag(1000, 64, mode="sum").cuda()
    output = module(torch.randint(1000, (64,)).cuda(), torch.arange(0, 64, 8).cuda())
    assert output.shape == (8, 64)


def test_cross_entropy():
    logits = torch.randn(64, 1000, device="cuda", requires_grad=True)
    functional.cross_entropy(logits, torch.randint(1000, (64,)).cuda()).backward()
    assert logits.grad.shape == logits.shape


def test_linear_time_follows_its_shape():
    small, large = nn.Linear(1024, 1024).cuda(), nn.Linear(8192, 8192).cuda()
    with torch.no_grad():
        few = device_ms(lambda: small(torch.empty(4096, 1024, device="cuda")))
        many = device_ms(lambda: large(torch.empty(4096, 8192, device="cuda")))
    assert 30 < many / few < 100, (few, many)


def test_upsample_and_dropout():
    data = torch.randn(2, 8, 16, 16, device="cuda", requires_grad=True)
    output = functional.interpolate(data, scale_factor=2, mode="bilinear", align_corners=False)
    assert output.shape == (2, 8, 32, 32)
    backward(functional.dropout(output))


if __name__ == "__main__":
    main()
