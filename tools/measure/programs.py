#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs ordinary PyTorch workloads one after the other and writes one JSON line for each.

    programs.py --output FILE [--seconds S] [--only NAME,...] [--list] [--profile FOLDER]

Nothing is downloaded: weights and data are random. Workloads that FILE already has, or that a
killed run had begun (FILE.begun), are skipped, so that the same command goes on after a crash.
"""

import argparse
import contextlib
import gc
import json
import os
import statistics
import sys
import threading
import time
import warnings

warnings.simplefilter("ignore")
BEGAN = time.monotonic()  # before the imports that take long
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

import torch
from torch import nn
from torch.nn import functional

WORKLOADS = {}
MIB = 2**20


def add(name, family, phase, precision, samples, build, layout=""):
    """build() returns a function that runs a step."""
    WORKLOADS[name] = {"name": name, "family": family, "phase": phase, "precision": precision,
                       "layout": layout, "samples": samples, "build": build}


def set_precision(precision):
    """Returns what makes the autocast of a step."""
    tf32 = precision != "fp32"
    torch.backends.cuda.matmul.allow_tf32 = tf32
    torch.backends.cudnn.allow_tf32 = tf32
    if precision in ("amp16", "bf16-amp"):
        kind = torch.float16 if precision == "amp16" else torch.bfloat16
        return lambda: torch.autocast("cuda", kind)
    return contextlib.nullcontext


def sgd(model):
    return torch.optim.SGD(model.parameters(), 1e-3, momentum=0.9)


def adamw(model):
    return torch.optim.AdamW(model.parameters(), 1e-4)


def training_step(model, optimizer, cast, loss_of, scaler=None):
    def step():
        optimizer.zero_grad()
        with cast():
            loss = loss_of(model)
        if scaler is None:
            loss.backward()
            optimizer.step()
        else:
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
    return step


def inference_step(model, cast, output_of):
    def step():
        with torch.no_grad(), cast():
            output_of(model)
    return step


# ---------------------------------------------------------------------------- images


def images(batch, layout, size=224, kind=torch.float32):
    data = torch.randn(batch, 3, size, size, device="cuda", dtype=kind)
    return data.contiguous(memory_format=layout)


def image_model(source, name, batch, precision, layout, phase, scaler=False, fused=True):
    def build():
        cast = set_precision(precision)
        form = torch.channels_last if layout == "nhwc" else torch.contiguous_format
        with torch.device("cuda"):
            if source == "torchvision":
                import torchvision
                model = torchvision.models.get_model(name)
            else:
                import timm
                timm.layers.set_fused_attn(fused)
                model = timm.create_model(name)
        model = model.to("cuda").to(memory_format=form).train(phase == "training")
        kind = torch.float32
        if precision == "fp16":
            model, kind = model.half(), torch.float16
        size = model.default_cfg["input_size"][-1] if source == "timm" else 224
        data = images(batch, form, size, kind)
        targets = torch.randint(0, 1000, (batch,), device="cuda")
        if phase == "inference":
            return inference_step(model, cast, lambda m: m(data))
        return training_step(model, sgd(model), cast,
                             lambda m: functional.cross_entropy(m(data), targets),
                             torch.amp.GradScaler(init_scale=1024.0) if scaler else None)
    return build


def add_image(source, name, batch, precision, layout="nchw", phase="training", mark="", **more):
    short = {"torchvision": "tv", "timm": "timm"}[source]
    full = f"{short}-{name}-{phase[:5]}-{precision}-{layout}-{batch}{mark}"
    add(full, f"{short} {name}", phase, precision, batch,
        image_model(source, name, batch, precision, layout, phase, **more), layout)


# ---------------------------------------------------------------------------- language


def made_on_gpu(make, kind=torch.float32):
    before = torch.get_default_dtype()
    torch.set_default_dtype(kind)
    try:
        with torch.device("cuda"):
            return make().to("cuda")
    finally:
        torch.set_default_dtype(before)


def tokens(vocabulary, *shape):
    return torch.randint(5, vocabulary - 5, shape, device="cuda")


def bert(size, batch, length, precision, phase="training"):
    def build():
        import transformers
        cast = set_precision(precision)
        sizes = {} if size == "base" else {"hidden_size": 1024, "num_hidden_layers": 24,
                                           "num_attention_heads": 16, "intermediate_size": 4096}
        config = transformers.BertConfig(**sizes)
        model = made_on_gpu(lambda: transformers.BertForSequenceClassification(config))
        model.train(phase == "training")
        ids, labels = tokens(30000, batch, length), torch.randint(0, 2, (batch,), device="cuda")
        if phase == "inference":
            return inference_step(model, cast, lambda m: m(input_ids=ids))
        return training_step(model, adamw(model), cast,
                             lambda m: m(input_ids=ids, labels=labels).loss)
    return build


def gpt2(size, batch, length, precision):
    def build():
        import transformers
        cast = set_precision(precision)
        sizes = {} if size == "small" else {"n_embd": 1024, "n_layer": 24, "n_head": 16}
        model = made_on_gpu(lambda: transformers.GPT2LMHeadModel(transformers.GPT2Config(**sizes)))
        model.train()
        ids = tokens(50000, batch, length)
        return training_step(model, adamw(model), cast,
                             lambda m: m(input_ids=ids, labels=ids, use_cache=False).loss)
    return build


LLAMAS = {"1b": {"hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16,
                 "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256,
                 "tie_word_embeddings": True},
          "7b": {"hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 32,
                 "num_attention_heads": 32, "num_key_value_heads": 32, "vocab_size": 32000}}


def llama_model(size):
    import transformers
    config = transformers.LlamaConfig(max_position_embeddings=8192, **LLAMAS[size])
    return made_on_gpu(lambda: transformers.LlamaForCausalLM(config), torch.bfloat16)


def llama_prefill(size, batch, length):
    def build():
        set_precision("tf32")
        model = llama_model(size).eval()
        ids = tokens(30000, batch, length)
        return inference_step(model, contextlib.nullcontext, lambda m: m(input_ids=ids))
    return build


def llama_decode(size, batch, length):
    def build():
        set_precision("tf32")
        model = llama_model(size).eval()
        with torch.no_grad():
            state = model(input_ids=tokens(30000, batch, length), use_cache=True,
                          logits_to_keep=1)

        def step():
            nonlocal state
            with torch.no_grad():
                following = state.logits[:, -1:].argmax(-1)
                state = model(input_ids=following, past_key_values=state.past_key_values,
                              use_cache=True)
        return step
    return build


def llama_training(size, batch, length):
    def build():
        set_precision("tf32")
        model = llama_model(size).train()
        ids = tokens(30000, batch, length)
        return training_step(model, adamw(model), contextlib.nullcontext,
                             lambda m: m(input_ids=ids, labels=ids, use_cache=False).loss)
    return build


def t5(batch, length, precision):
    def build():
        import transformers
        cast = set_precision(precision)
        config = transformers.T5Config(d_model=768, d_kv=64, d_ff=3072, num_layers=12,
                                       num_heads=12, pad_token_id=0)
        config.decoder_start_token_id = 0
        model = made_on_gpu(lambda: transformers.T5ForConditionalGeneration(config)).train()
        ids, labels = tokens(32000, batch, length), tokens(32000, batch, length)
        return training_step(model, adamw(model), cast,
                             lambda m: m(input_ids=ids, labels=labels, use_cache=False).loss)
    return build


def whisper(batch):
    def build():
        import transformers
        from transformers.models.whisper import modeling_whisper
        set_precision("tf32")
        config = transformers.WhisperConfig(d_model=768, encoder_layers=12,
                                            encoder_attention_heads=12, encoder_ffn_dim=3072)
        model = made_on_gpu(lambda: modeling_whisper.WhisperEncoder(config), torch.float16).eval()
        sound = torch.randn(batch, config.num_mel_bins, 3000, device="cuda", dtype=torch.float16)
        return inference_step(model, contextlib.nullcontext, lambda m: m(sound))
    return build


# ---------------------------------------------------------------------------- others


class Residual(nn.Module):

    def __init__(self, inputs, outputs):
        super().__init__()
        self.first = nn.Sequential(nn.GroupNorm(32, inputs), nn.SiLU(),
                                   nn.Conv2d(inputs, outputs, 3, padding=1))
        self.second = nn.Sequential(nn.GroupNorm(32, outputs), nn.SiLU(),
                                    nn.Conv2d(outputs, outputs, 3, padding=1))
        self.skip = nn.Conv2d(inputs, outputs, 1) if inputs != outputs else nn.Identity()

    def forward(self, x):
        return self.skip(x) + self.second(self.first(x))


class Attention(nn.Module):

    def __init__(self, width):
        super().__init__()
        self.norm, self.heads = nn.GroupNorm(32, width), width // 64
        self.qkv, self.out = nn.Conv2d(width, 3 * width, 1), nn.Conv2d(width, width, 1)

    def forward(self, x):
        batch, width, high, wide = x.shape
        qkv = self.qkv(self.norm(x)).reshape(batch, 3, self.heads, 64, high * wide)
        q, k, v = qkv.transpose(-1, -2).unbind(1)
        y = functional.scaled_dot_product_attention(q, k, v)
        return x + self.out(y.transpose(-1, -2).reshape(batch, width, high, wide))


class UNet(nn.Module):
    """A denoiser of latents like those of Stable Diffusion, without text."""

    def __init__(self, widths=(320, 640, 1280)):
        super().__init__()
        self.entry = nn.Conv2d(4, widths[0], 3, padding=1)
        self.down, self.up, width = nn.ModuleList(), nn.ModuleList(), widths[0]
        for level, wider in enumerate(widths):
            self.down.append(nn.Sequential(Residual(width, wider), Attention(wider) if level
                                           else nn.Identity(), Residual(wider, wider)))
            self.down.append(nn.Conv2d(wider, wider, 3, stride=2, padding=1))
            width = wider
        self.middle = nn.Sequential(Residual(width, width), Attention(width),
                                    Residual(width, width))
        for level, narrower in reversed(list(enumerate(widths))):
            self.up.append(nn.Sequential(nn.Upsample(scale_factor=2),
                                         nn.Conv2d(width, narrower, 3, padding=1)))
            self.up.append(nn.Sequential(Residual(2 * narrower, narrower), Attention(narrower)
                                         if level else nn.Identity(),
                                         Residual(narrower, narrower)))
            width = narrower
        self.exit = nn.Sequential(nn.GroupNorm(32, width), nn.SiLU(),
                                  nn.Conv2d(width, 4, 3, padding=1))

    def forward(self, x):
        x, kept = self.entry(x), []
        for block, smaller in zip(self.down[::2], self.down[1::2]):
            x = block(x)
            kept.append(x)
            x = smaller(x)
        x = self.middle(x)
        for larger, block in zip(self.up[::2], self.up[1::2]):
            x = block(torch.cat([larger(x), kept.pop()], 1))
        return self.exit(x)


def unet(batch, precision, layout, phase):
    def build():
        form = torch.channels_last if layout == "nhwc" else torch.contiguous_format
        cast = set_precision(precision)
        kind = torch.float16 if precision == "fp16" else torch.float32
        model = made_on_gpu(UNet, kind).to(memory_format=form).train(phase == "training")
        data = torch.randn(batch, 4, 64, 64, device="cuda", dtype=kind)
        data = data.contiguous(memory_format=form)
        if phase == "inference":
            return inference_step(model, cast, lambda m: m(data))
        return training_step(model, adamw(model), cast,
                             lambda m: functional.mse_loss(m(data), data))
    return build


class Speech(nn.Module):

    def __init__(self, vocabulary=10000, width=1024, layers=2):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.lstm = nn.LSTM(width, width, layers, batch_first=True)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, ids):
        return self.head(self.lstm(self.embedding(ids))[0]).flatten(0, 1)


def lstm(batch, length, precision):
    def build():
        cast = set_precision(precision)
        model = made_on_gpu(Speech).train()
        ids = tokens(10000, batch, length)
        return training_step(model, sgd(model), cast,
                             lambda m: functional.cross_entropy(m(ids), ids.flatten()))
    return build


class Dlrm(nn.Module):

    def __init__(self, tables=26, rows=1_000_000, width=64):
        super().__init__()
        self.tables = nn.ModuleList(nn.EmbeddingBag(rows, width, mode="sum", sparse=True)
                                    for _ in range(tables))
        self.bottom = nn.Sequential(nn.Linear(13, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(),
                                    nn.Linear(256, width), nn.ReLU())
        pairs = (tables + 1) * tables // 2
        self.top = nn.Sequential(nn.Linear(pairs + width, 1024), nn.ReLU(), nn.Linear(1024, 512),
                                 nn.ReLU(), nn.Linear(512, 1))
        self.register_buffer("pairs", torch.tril_indices(tables + 1, tables + 1, -1),
                             persistent=False)

    def forward(self, dense, sparse):
        dense = self.bottom(dense)
        rows = [dense] + [table(ids) for table, ids in zip(self.tables, sparse)]
        rows = torch.stack(rows, 1)
        products = torch.bmm(rows, rows.transpose(1, 2))[:, self.pairs[0], self.pairs[1]]
        return self.top(torch.cat([dense, products], 1)).squeeze(1)


def dlrm(batch):
    def build():
        cast = set_precision("tf32")
        model = made_on_gpu(Dlrm).train()
        dense = torch.randn(batch, 13, device="cuda")
        sparse = [torch.randint(0, 1_000_000, (batch, 4), device="cuda") for _ in range(26)]
        goal = torch.rand(batch, device="cuda")
        optimizer = torch.optim.SGD(model.parameters(), 0.01)
        return training_step(
            model, optimizer, cast,
            lambda m: functional.binary_cross_entropy_with_logits(m(dense, sparse), goal))
    return build


def compiled_blocks(batch, length, width=1024):
    def build():
        set_precision("tf32")
        layers = [nn.TransformerEncoderLayer(width, 16, 4 * width, 0.0, "gelu", batch_first=True,
                                             norm_first=True) for _ in range(2)]
        model = nn.Sequential(*layers).cuda().bfloat16().train()
        model = torch.compile(model)
        data = torch.randn(batch, length, width, device="cuda", dtype=torch.bfloat16)
        return training_step(model, sgd(model), contextlib.nullcontext,
                             lambda m: m(data).float().square().mean())
    return build


# ---------------------------------------------------------------------------- list, by worth

# One model of each of many families.
TIMM_TRAINING = """
    visformer_small nest_small twins_svt_base mixnet_l xcit_small_12_p16_224 davit_small
    hrnet_w32 focalnet_small_srf poolformer_s36 mvitv2_small eca_nfnet_l1 inception_v4
    efficientnet_b4 coatnet_1_rw_224 maxvit_tiny_tf_224 volo_d2_224 pvt_v2_b4 tiny_vit_21m_224
    repvgg_b2 dla102 res2net50_26w_4s skresnext50_32x4d dpn92 regnety_032 regnetz_c16
    resnetv2_50 nf_resnet50 mobilenetv3_large_100 mobilenetv4_conv_medium efficientvit_b2
    fastvit_sa24 repvit_m1_5 efficientformerv2_l hiera_small_224 convnextv2_tiny caformer_s18
    convformer_s36 beitv2_base_patch16_224 eva02_small_patch14_224 deit3_base_patch16_224
    cait_s24_224 crossvit_15_240 tnt_s_patch16_224 levit_384 mixer_b16_224 gmlp_s16_224
    resmlp_24_224 convmixer_768_32 edgenext_small ghostnetv2_100 rexnet_200 tresnet_l
    ese_vovnet39b cs3darknet_x gernet_l halonet50ts botnet26t_256 xception65 densenet161
    wide_resnet50_2 resnext101_32x8d seresnext50_32x4d vgg19_bn swinv2_small_window8_256
    starnet_s4 nextvit_base inception_next_small hgnetv2_b5 mambaout_small rdnet_tiny
    sequencer2d_s gcvit_small convit_small pit_b_224 twins_pcpvt_base regnetx_080 shvit_s4
    vit_so150m_patch16_reg4_gap_256 naflexvit_base_patch16_gap tf_efficientnetv2_s mobileone_s4
    mobilevitv2_150 ecaresnet50d resnest50d selecsls60 dm_nfnet_f0 resnetblur50 cspresnext50
    vit_small_resnet26d_224
    """.split()


def declare():
    tv, timm = "torchvision", "timm"
    add_image(tv, "resnet50", 64, "fp32")
    add_image(tv, "resnet50", 64, "tf32")
    add_image(tv, "resnet50", 64, "amp16")
    add_image(tv, "resnet50", 64, "amp16", "nhwc")
    add("bert-base-train-bf16-32x128", "bert", "training", "bf16-amp", 32,
        bert("base", 32, 128, "bf16-amp"))
    add("bert-base-train-tf32-32x128", "bert", "training", "tf32", 32,
        bert("base", 32, 128, "tf32"))
    add("gpt2-small-train-bf16-8x1024", "gpt2", "training", "bf16-amp", 8,
        gpt2("small", 8, 1024, "bf16-amp"))
    add_image(tv, "vit_b_16", 64, "bf16-amp")
    add_image(tv, "mobilenet_v2", 64, "tf32")
    add_image(tv, "mobilenet_v2", 64, "amp16", "nhwc")
    add_image(tv, "convnext_tiny", 64, "amp16")
    add_image(tv, "convnext_tiny", 64, "amp16", "nhwc")
    add_image(tv, "vgg16", 64, "tf32")
    add_image(tv, "efficientnet_b0", 64, "amp16", "nhwc")
    add_image(tv, "swin_t", 64, "bf16-amp")
    add_image(tv, "densenet121", 64, "amp16")
    # docs/reference/blind-predictions.md has these three.
    for name in ("convnext_base", "vit_base_patch16_224", "swin_tiny_patch4_window7_224"):
        add_image(timm, name, 128, "amp16", "nhwc", mark="-blind", fused=False)
    add("llama-1b-train-bf16-4x2048", "llama", "training", "bf16", 4, llama_training("1b", 4, 2048))
    add("llama-1b-prefill-bf16-1x2048", "llama", "inference", "bf16", 1,
        llama_prefill("1b", 1, 2048))
    add("llama-7b-prefill-bf16-1x2048", "llama", "inference", "bf16", 1,
        llama_prefill("7b", 1, 2048))
    for batch in (1, 8, 32):
        add(f"llama-7b-decode-bf16-{batch}x512", "llama", "decode", "bf16", batch,
            llama_decode("7b", batch, 512))
    for batch in (1, 32):
        add(f"llama-1b-decode-bf16-{batch}x512", "llama", "decode", "bf16", batch,
            llama_decode("1b", batch, 512))
    add("unet-infer-fp16-nhwc-8", "unet", "inference", "fp16", 8,
        unet(8, "fp16", "nhwc", "inference"), "nhwc")
    add("lstm-train-tf32-64x35", "lstm", "training", "tf32", 64, lstm(64, 35, "tf32"))
    add("dlrm-train-tf32-8192", "dlrm", "training", "tf32", 8192, dlrm(8192))
    for name in ("resnet50", "convnext_base", "vit_base_patch16_224"):
        add_image(timm, name, 256, "amp16", "nhwc", "inference")
    # Small batches, which the host limits.
    add_image(tv, "resnet50", 1, "fp16", "nhwc", "inference")
    add_image(tv, "resnet50", 4, "amp16")
    add("bert-base-infer-bf16-1x128", "bert", "inference", "bf16-amp", 1,
        bert("base", 1, 128, "bf16-amp", "inference"))
    # More precisions, layouts and batches.
    add_image(tv, "resnet50", 64, "bf16-amp", "nhwc")
    add_image(tv, "resnet50", 256, "amp16", "nhwc")
    add_image(tv, "resnet50", 256, "tf32")
    add_image(tv, "resnet50", 64, "amp16", mark="-scaler", scaler=True)
    add_image(tv, "vit_b_16", 64, "tf32")
    add_image(tv, "vit_b_16", 64, "fp32")
    add_image(tv, "vit_b_16", 256, "bf16-amp")
    add("bert-base-train-fp32-32x128", "bert", "training", "fp32", 32,
        bert("base", 32, 128, "fp32"))
    add("bert-large-train-bf16-32x128", "bert", "training", "bf16-amp", 32,
        bert("large", 32, 128, "bf16-amp"))
    add("gpt2-medium-train-bf16-8x1024", "gpt2", "training", "bf16-amp", 8,
        gpt2("medium", 8, 1024, "bf16-amp"))
    add("gpt2-small-train-tf32-8x1024", "gpt2", "training", "tf32", 8,
        gpt2("small", 8, 1024, "tf32"))
    add("t5-base-train-bf16-16x256", "t5", "training", "bf16-amp", 16, t5(16, 256, "bf16-amp"))
    add("whisper-small-encoder-infer-fp16-16", "whisper", "inference", "fp16", 16, whisper(16))
    add_image(tv, "mobilenet_v2", 64, "fp32")
    add_image(tv, "mobilenet_v2", 64, "amp16")
    add_image(tv, "mobilenet_v2", 256, "amp16", "nhwc")
    add_image(tv, "efficientnet_b0", 64, "tf32")
    add_image(tv, "efficientnet_b0", 64, "amp16")
    add_image(tv, "convnext_tiny", 64, "tf32")
    add_image(tv, "swin_t", 64, "tf32")
    add_image(tv, "densenet121", 64, "tf32")
    add_image(tv, "densenet121", 64, "amp16", "nhwc")
    add_image(tv, "vgg16", 64, "amp16")
    add_image(tv, "vgg16", 64, "amp16", "nhwc")
    add_image(tv, "vgg16", 64, "fp32")
    add_image(tv, "resnext50_32x4d", 64, "amp16")
    add_image(tv, "resnext50_32x4d", 64, "amp16", "nhwc")
    add_image(tv, "resnext50_32x4d", 64, "tf32")
    add("unet-train-amp16-nchw-8", "unet", "training", "amp16", 8,
        unet(8, "amp16", "nchw", "training"), "nchw")
    add("unet-infer-fp16-nchw-8", "unet", "inference", "fp16", 8,
        unet(8, "fp16", "nchw", "inference"), "nchw")
    add("lstm-train-amp16-64x35", "lstm", "training", "amp16", 64, lstm(64, 35, "amp16"))
    for name in ("efficientnet_b0", "swin_tiny_patch4_window7_224", "mobilenetv3_large_100"):
        add_image(timm, name, 256, "amp16", "nhwc", "inference")
    add_image(timm, "resnet50", 256, "amp16", "nchw", "inference")
    add_image(tv, "mobilenet_v2", 1, "fp16", "nhwc", "inference")
    add_image(tv, "resnet50", 64, "fp32", "nhwc")
    add_image(tv, "alexnet", 256, "tf32")
    add_image(tv, "regnet_y_8gf", 64, "amp16", "nhwc")
    # Of many families.
    for name in TIMM_TRAINING:
        add_image(timm, name, 128, "amp16", "nhwc")
    for name in TIMM_TRAINING[::4]:
        add_image(timm, name, 128, "amp16", "nchw")
    for name in TIMM_TRAINING[1::4]:
        add_image(timm, name, 256, "amp16", "nhwc", "inference")
    for name in TIMM_TRAINING[2::8]:
        add_image(timm, name, 64, "tf32")
    # The compiler takes long.
    add("compiled-blocks-train-bf16-16x512", "compiled", "training", "bf16", 16,
        compiled_blocks(16, 512))


# ---------------------------------------------------------------------------- measuring


class Nvml:
    """What NVML says about the GPU, or nothing."""

    def __init__(self):
        self.handle = None
        try:
            import pynvml
            pynvml.nvmlInit()
            self.nvml, self.handle = pynvml, pynvml.nvmlDeviceGetHandleByIndex(0)
        except Exception:
            pass

    def state(self):
        if self.handle is None:
            return {}
        found = {}
        for name, ask in (
                ("used_mib", lambda n, h: n.nvmlDeviceGetMemoryInfo(h).used / MIB),
                ("sm_mhz", lambda n, h: n.nvmlDeviceGetClockInfo(h, n.NVML_CLOCK_SM)),
                ("memory_mhz", lambda n, h: n.nvmlDeviceGetClockInfo(h, n.NVML_CLOCK_MEM)),
                ("power_w", lambda n, h: n.nvmlDeviceGetPowerUsage(h) / 1000)):
            with contextlib.suppress(Exception):
                found[name] = ask(self.nvml, self.handle)
        return found


def percentiles(values):
    ordered = sorted(values)
    last = len(ordered) - 1
    return {"median": round(statistics.median(ordered), 5), "p10": round(ordered[last // 10], 5),
            "p90": round(ordered[last - last // 10], 5)}


def tidy_up():
    gc.collect()
    with contextlib.suppress(Exception):
        torch._C._cuda_clearCublasWorkspaces()
    torch.cuda.empty_cache()


def run_step(step):
    with torch.cuda.nvtx.range("step"):
        step()


def timed_steps(step, count, nvml):
    """Returns times between the ends of steps that run freely, by events and by the host."""
    marks = [torch.cuda.Event(enable_timing=True) for _ in range(count + 1)]
    torch.cuda.synchronize()
    began = time.perf_counter()
    marks[0].record()
    for mark in marks[1:]:
        run_step(step)
        mark.record()
    launched = time.perf_counter() - began
    state = nvml.state()
    torch.cuda.synchronize()
    elapsed = time.perf_counter() - began
    return ([a.elapsed_time(b) for a, b in zip(marks, marks[1:])], elapsed * 1000 / count,
            launched * 1000 / count, state)


def measure(workload, nvml):
    torch.cuda.reset_peak_memory_stats()
    used_before = (lambda free, total: (total - free) / MIB)(*torch.cuda.mem_get_info())
    began = time.perf_counter()
    torch.manual_seed(0)
    step = workload["build"]()
    torch.cuda.synchronize()
    built = time.perf_counter() - began
    began = time.perf_counter()
    run_step(step)
    torch.cuda.synchronize()
    first = time.perf_counter() - began
    for _ in range(2):
        run_step(step)
    torch.cuda.synchronize()
    # A step launched on an idle GPU: the host's time, as long as the queue is not full.
    launches, once = [], []
    for _ in range(3):
        began = time.perf_counter()
        run_step(step)
        launches.append((time.perf_counter() - began) * 1000)
        torch.cuda.synchronize()
        once.append((time.perf_counter() - began) * 1000)
    count = int(min(max(250 / max(min(once), 0.1), 5), 30))
    times, host, launched, state = timed_steps(step, count, nvml)
    free, total = torch.cuda.mem_get_info()
    return {"step_ms": percentiles(times), "mean_ms": round(statistics.fmean(times), 5),
            "host_step_ms": round(host, 5), "alone_ms": round(min(once), 5),
            "launch_ms": round(min(launches), 5), "launched_ms": round(launched, 5),
            "steps": count, "built_s": round(built, 3), "first_s": round(first, 3),
            "samples_per_s": round(1000 * workload["samples"] / statistics.median(times), 3),
            "memory_mib": {
                "allocated_peak": round(torch.cuda.max_memory_allocated() / MIB, 3),
                "reserved_peak": round(torch.cuda.max_memory_reserved() / MIB, 3),
                "allocated": round(torch.cuda.memory_allocated() / MIB, 3),
                "device_used": round((total - free) / MIB, 3),
                "device_used_before": round(used_before, 3)}, "nvml": state}


def profile(workload, folder):
    """Writes the kernels of one step, those that take longest first."""
    import collections
    torch.manual_seed(0)
    step = workload["build"]()
    for _ in range(3):
        run_step(step)
    torch.cuda.synchronize()
    kinds = [torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=kinds) as profiler:
        run_step(step)
        torch.cuda.synchronize()
    trace = os.path.join(folder, "trace.tmp")
    profiler.export_chrome_trace(trace)
    with open(trace, encoding="utf-8", errors="replace") as file:
        found = json.load(file)["traceEvents"]
    os.unlink(trace)
    kernels = collections.defaultdict(list)
    for event in found:
        if event.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset"):
            facts = event.get("args", {})
            sizes = ("x".join(map(str, facts.get(key, []))) for key in ("grid", "block"))
            kernels[(event["name"][:220], *sizes)].append(float(event["dur"]))
    if not kernels:
        raise RuntimeError("the profiler reports no kernels")
    rows = sorted(kernels.items(), key=lambda row: -sum(row[1]))
    with open(os.path.join(folder, workload["name"] + ".tsv"), "w", encoding="utf-8") as file:
        file.write("kernel\tgrid\tblock\tcount\ttotal_us\tmin_us\tmax_us\n")
        for key, values in rows[:60]:
            file.write("\t".join(key) + f"\t{len(values)}\t{sum(values):.2f}\t{min(values):.2f}\t"
                       f"{max(values):.2f}\n")
        rest = [value for _, values in rows[60:] for value in values]
        file.write(f"rest\t\t\t{len(rest)}\t{sum(rest):.2f}\t\t\n")
    total = sum(sum(values) for values in kernels.values())
    return {"busy_ms": round(total / 1000, 5), "kernels": sum(map(len, kernels.values()))}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", default="/dev/stdout")
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--only", default="")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--profile", default="")
    options = parser.parse_args()
    declare()
    names = options.only.split(",") if options.only else list(WORKLOADS)
    if options.list:
        print("\n".join(names))
        return 0
    began = BEGAN
    to_file = options.output != "/dev/stdout"
    begun = options.output + ".begun"
    known = set()
    if to_file and os.path.exists(begun):
        with open(begun, encoding="utf-8") as file:
            known = set(file.read().split())
    nvml = Nvml()
    torch.cuda.init()
    if len(names) > 10:
        with contextlib.suppress(Exception):
            import timm
            import torchvision
            import transformers
    gc.freeze()
    broken = 0
    for name in names:
        if name in known:
            continue
        left = options.seconds - (time.monotonic() - began)
        if left < (25 if name.startswith("compiled") else 2):
            return 0
        if to_file:
            with open(begun, "a", encoding="utf-8") as file:
                file.write(name + "\n")
        longest = 60 if name.startswith("compiled") else 25
        watchdog = threading.Timer(min(longest, left + 8) if to_file else 1e6,
                                   lambda: os._exit(9))
        watchdog.daemon = True
        watchdog.start()
        workload = WORKLOADS[name]
        row = {key: workload[key] for key in ("name", "family", "phase", "precision", "layout",
                                              "samples")}
        try:
            if options.profile:
                row.update(profile(workload, options.profile))
            else:
                row.update(measure(workload, nvml))
            row["outcome"] = "ok"
            broken = 0
        except Exception as problem:
            row["outcome"] = f"{type(problem).__name__}: {str(problem)[:300]}"
            broken += 1
        watchdog.cancel()
        row["at_s"] = round(time.monotonic() - began, 2)
        with open(options.output, "a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
        try:
            tidy_up()
            torch.cuda.synchronize()
        except Exception:
            return 3  # The context is lost: the next process goes on.
        if broken >= 3:
            return 3
        if options.profile and "no kernels" in row["outcome"]:
            return 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
