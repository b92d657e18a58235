# SPDX-License-Identifier: Apache-2.0
"""RNNs, batch norm and other normalisation, pooling, linear layers and losses."""

import torch
from conformance import assert_roofline, backward, device_ms, main
from torch import nn
from torch.nn import functional


def recurrent(module, hidden):
    module = module.cuda()
    data = torch.randn(20, 8, 32, device="cuda", requires_grad=True)
    output, _ = module(data)
    assert tuple(output.shape) == (20, 8, hidden), output.shape
    backward(output)
    assert data.grad.shape == data.shape
    assert all(weight.grad is not None for weight in module.parameters())


def test_lstm():
    recurrent(nn.LSTM(32, 64, num_layers=2, dropout=0.1), 64)


def test_lstm_with_projection():
    recurrent(nn.LSTM(32, 64, proj_size=24), 24)


def test_gru_bidirectional():
    recurrent(nn.GRU(32, 48, bidirectional=True), 96)


def test_rnn():
    recurrent(nn.RNN(32, 16), 16)
    recurrent(nn.RNN(32, 16, nonlinearity="relu"), 16)


def test_rnn_cells():
    data, hidden = torch.randn(8, 32, device="cuda"), torch.randn(8, 64, device="cuda")
    assert nn.LSTMCell(32, 64).cuda()(data, (hidden, hidden))[1].shape == (8, 64)
    assert nn.GRUCell(32, 64).cuda()(data, hidden).shape == (8, 64)


def test_packed_sequences():
    lengths = torch.tensor([20, 11, 3])
    data = torch.randn(20, 3, 32, device="cuda")
    packed = nn.utils.rnn.pack_padded_sequence(data, lengths)
    output, _ = nn.LSTM(32, 64).cuda()(packed)
    assert output.data.shape == (34, 64)
    padded, found = nn.utils.rnn.pad_packed_sequence(output)
    assert padded.shape == (20, 3, 64) and torch.equal(found, lengths)


def test_lstm_time_grows_with_the_sequence():
    module = nn.LSTM(256, 256).cuda()
    short = torch.randn(16, 32, 256, device="cuda")
    long = torch.randn(256, 32, 256, device="cuda")
    with torch.no_grad():
        ratio = device_ms(lambda: module(long)) / device_ms(lambda: module(short))
    assert 4 < ratio <= 16.5, ratio


def test_lstm_takes_at_least_its_products():
    module = nn.LSTM(1024, 1024).cuda().half()
    data = torch.empty(64, 256, 1024, device="cuda", dtype=torch.float16)
    with torch.no_grad():
        ms = device_ms(lambda: module(data))
    flops = 2 * 64 * 256 * (1024 + 1024) * 4 * 1024
    assert_roofline(ms, flops, peak="fp16_tensor_tflops", slack=10)


def test_batch_norm_train_and_eval():
    module = nn.BatchNorm2d(64).cuda()
    data = torch.randn(64, 64, 112, 112, device="cuda", requires_grad=True)
    backward(module(data))
    assert data.grad.shape == data.shape and module.weight.grad.shape == (64,)
    with torch.no_grad():
        train_ms = device_ms(lambda: module(data))
        module.eval()
        eval_ms = device_ms(lambda: module(data))
    # Training reads the data once more, for its statistics.
    assert_roofline(eval_ms, moved_bytes=2 * data.nbytes)
    assert eval_ms < train_ms < 4 * eval_ms, (eval_ms, train_ms)


def test_batch_norm_keeps_statistics_of_a_checkpoint():
    module = nn.BatchNorm2d(8)
    module.running_mean.copy_(torch.arange(8.0))
    module.num_batches_tracked.fill_(41)
    module.cuda().eval()
    module(torch.randn(2, 8, 4, 4, device="cuda"))
    assert torch.equal(module.running_mean.cpu(), torch.arange(8.0))
    assert module.num_batches_tracked.item() == 41


def test_batch_norm_of_vectors():
    module = nn.BatchNorm1d(32).cuda()
    data = torch.randn(16, 32, device="cuda", requires_grad=True)
    backward(module(data))
    assert data.grad.shape == (16, 32)


def test_batch_norm_without_cudnn():
    data = torch.randn(8, 16, 28, 28, device="cuda", requires_grad=True)
    with torch.backends.cudnn.flags(enabled=False):
        backward(nn.BatchNorm2d(16).cuda()(data))
    assert data.grad.shape == data.shape


def test_layer_and_group_norm():
    data = torch.randn(8, 64, 128, device="cuda", requires_grad=True)
    for module in (nn.LayerNorm(128), nn.GroupNorm(8, 64), nn.InstanceNorm1d(64), nn.RMSNorm(128)):
        data.grad = None
        backward(module.cuda()(data))
        assert data.grad.shape == data.shape


def test_layer_norm_time_is_bandwidth():
    module = nn.LayerNorm(1024).cuda()
    data = torch.empty(65536, 1024, device="cuda")
    with torch.no_grad():
        assert_roofline(device_ms(lambda: module(data)), moved_bytes=2 * data.nbytes)


def test_pooling():
    data = torch.randn(4, 16, 32, 32, device="cuda", requires_grad=True)
    assert nn.MaxPool2d(2)(data).shape == (4, 16, 16, 16)
    assert nn.AvgPool2d(2)(data).shape == (4, 16, 16, 16)
    assert nn.MaxPool3d(2)(data).shape == (4, 8, 16, 16)
    output = nn.AdaptiveAvgPool2d((1, 1))(data)
    assert output.shape == (4, 16, 1, 1)
    backward(output)


def test_pooling_time_is_bandwidth():
    data = torch.empty(64, 64, 112, 112, device="cuda")
    ms = device_ms(lambda: functional.max_pool2d(data, 3, 2, 1))
    assert_roofline(ms, moved_bytes=1.25 * data.nbytes, slack=6)


def test_losses():
    logits = torch.randn(64, 1000, device="cuda", requires_grad=True)
    functional.cross_entropy(logits, torch.randint(1000, (64,)).cuda()).backward()
    assert logits.grad.shape == logits.shape
    for loss in (functional.mse_loss, functional.l1_loss, functional.smooth_l1_loss):
        assert loss(logits, torch.zeros_like(logits)).shape == ()
    functional.binary_cross_entropy_with_logits(logits, torch.zeros_like(logits)).backward()


def test_ctc_loss():
    scores = torch.randn(50, 4, 20, device="cuda", requires_grad=True).log_softmax(2)
    targets = torch.randint(1, 20, (4, 10))
    loss = functional.ctc_loss(scores, targets.cuda(), torch.full((4,), 50), torch.full((4,), 10))
    assert loss.shape == ()
    loss.backward()


def test_linear_time_follows_its_shape():
    small, large = nn.Linear(1024, 1024).cuda(), nn.Linear(8192, 8192).cuda()
    few, many = torch.empty(4096, 1024, device="cuda"), torch.empty(4096, 8192, device="cuda")
    with torch.no_grad():
        small_ms, large_ms = device_ms(lambda: small(few)), device_ms(lambda: large(many))
    assert 30 < large_ms / small_ms < 100, (small_ms, large_ms)
    assert_roofline(large_ms, flops=2 * 4096 * 8192**2, slack=2)


def test_linear_backward_is_twice_forward():
    module = nn.Linear(4096, 4096).cuda()
    data = torch.empty(4096, 4096, device="cuda", requires_grad=True)
    gradient = torch.empty_like(data)
    with torch.no_grad():
        forward_ms = device_ms(lambda: module(data))
    both_ms = device_ms(lambda: module(data).backward(gradient))
    assert 2.7 < both_ms / forward_ms < 4, (forward_ms, both_ms)


def test_upsample_and_dropout():
    data = torch.randn(2, 8, 16, 16, device="cuda", requires_grad=True)
    output = functional.interpolate(data, scale_factor=2, mode="bilinear", align_corners=False)
    assert output.shape == (2, 8, 32, 32)
    backward(functional.dropout(output))
    assert data.grad.shape == data.shape


def test_grid_sampling():
    data = torch.randn(2, 8, 16, 16, device="cuda", requires_grad=True)
    grid = torch.rand(2, 10, 12, 2, device="cuda")
    output = functional.grid_sample(data, grid, align_corners=False)
    assert output.shape == (2, 8, 10, 12)
    backward(output)


def test_activations():
    data = torch.randn(64, 256, device="cuda", requires_grad=True)
    for name in ("relu", "gelu", "silu", "elu", "mish", "softplus", "hardswish", "leaky_relu"):
        backward(getattr(functional, name)(data))
    assert functional.glu(data).shape == (64, 128)


if __name__ == "__main__":
    main()
