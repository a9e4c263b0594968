#!/usr/bin/env python3
"""The example pipelines as they are built without Fangorn: PyTorch on the CPU, scikit-learn and XGBoost in one process.

  python3 twin.py NAME FOLDER           answers requests as the example's --serve does
  python3 twin.py NAME FOLDER --check   compares predictions of the test rows with the example's, a line of JSON a head

FOLDER is what the example NAME has written: its weights are read from there.
"""

import argparse
import json
import os
import pathlib
import sys
import time

import joblib
import numpy as np
import torch
import xgboost
from torch import nn
from torch.nn import functional

# Rows that calls go through, so that no branch predictor learns a single one; the same in the example.
AROUND = 512
# How far a prediction may be off. Rounding differs between the two, so a feature that lies at a threshold may send a
# row another way: a row in a hundred may be further off.
TOLERANCE = 1e-4


class Weights:
    def __init__(self, folder):
        self.folder = folder / "parameters"

    def __call__(self, name):
        return torch.from_numpy(np.load(self.folder / f"{name}.npy"))

    def linear(self, name, layer=None):
        weight, bias = self(f"{name}.weight"), self(f"{name}.bias")
        layer = layer or nn.Linear(*weight.shape)
        return self.into(layer, weight=weight.T, bias=bias)

    def norm(self, name, layer):
        return self.into(layer, weight=self(f"{name}.gamma"), bias=self(f"{name}.beta"))

    def into(self, layer, **values):
        with torch.no_grad():
            for name, value in values.items():
                getattr(layer, name).copy_(value)
        return layer


def booster(folder):
    loaded = xgboost.Booster(model_file=folder / "model.ubj")
    loaded.set_param({"nthread": torch.get_num_threads()})
    return loaded


def attend(layer, x, asked):
    """What a layer makes of the first so many tokens, spelled out: faster than the one operation for a few rows."""
    (rows, length, width), attention = x.shape, layer.self_attn
    heads, first = attention.num_heads, x[:, :asked]
    weight, bias = attention.in_proj_weight, attention.in_proj_bias

    def split(x):
        return x.view(rows, x.shape[1], -1, width // heads).transpose(1, 2)

    if asked == length:
        query, key, value = split(functional.linear(x, weight, bias)).split(heads, 1)
    else:
        query = split(functional.linear(first, weight[:width], bias[:width]))
        key, value = split(functional.linear(x, weight[width:], bias[width:])).split(heads, 1)
    seen = functional.scaled_dot_product_attention(query, key, value).transpose(1, 2).reshape(rows, asked, width)
    x = layer.norm1(first + attention.out_proj(seen))
    return layer.norm2(x + layer.linear2(functional.gelu(layer.linear1(x))))


def first(layer, x):
    """What a layer makes of the first token: its query goes through the keys' weight, and no other key or value is made."""
    (rows, _, width), attention = x.shape, layer.self_attn
    heads, token, size = attention.num_heads, x[:, 0], width // attention.num_heads
    query, key, value = attention.in_proj_weight.split(width)
    bias = attention.in_proj_bias
    query = functional.linear(token, query, bias[:width]).view(rows, heads, size).transpose(0, 1)
    query = torch.bmm(query, key.view(heads, size, width)).transpose(0, 1)
    seen = functional.softmax(torch.bmm(query, x.transpose(1, 2)) * size**-0.5, 2) @ x
    seen = torch.bmm(seen.transpose(0, 1), value.view(heads, size, width).transpose(1, 2))
    seen = seen.transpose(0, 1).reshape(rows, width) + bias[2 * width :]
    x = layer.norm1(token + attention.out_proj(seen))
    return layer.norm2(x + layer.linear2(functional.gelu(layer.linear1(x)))).unsqueeze(1)


class Text:
    def __init__(self, folder, first_token=False):
        self.first_token = first_token
        weights = Weights(folder)
        self.tokens = nn.Embedding.from_pretrained(weights("encoder.tokens.weight"))
        self.places = weights("encoder.places")
        width, heads = self.places.shape[1], 2
        self.norm = weights.norm("encoder.norm", nn.LayerNorm(width))
        self.layers = []
        for name in ("encoder.layers.0", "encoder.last"):
            inner = weights(f"{name}.widen.bias").shape[0]
            # PyTorch runs the whole layer as one operation where nothing is trained.
            layer = nn.TransformerEncoderLayer(width, heads, inner, activation="gelu", batch_first=True).eval()
            attend = weights(f"{name}.attend.weight").T, weights(f"{name}.attend.bias")
            weights.into(layer.self_attn, in_proj_weight=attend[0], in_proj_bias=attend[1])
            weights.linear(f"{name}.join", layer.self_attn.out_proj)
            weights.linear(f"{name}.widen", layer.linear1)
            weights.linear(f"{name}.narrow", layer.linear2)
            weights.norm(f"{name}.attended", layer.norm1)
            weights.norm(f"{name}.narrowed", layer.norm2)
            self.layers.append(layer)
        self.pooler = weights.linear("encoder.pooler")
        self.regression = joblib.load(folder / "regression.joblib")
        self.booster = booster(folder)

    def features(self, rows):
        x = self.norm(self.tokens(torch.from_numpy(rows)) + self.places)
        for layer in self.layers:
            if self.first_token and layer is self.layers[-1]:
                x = first(layer, x)
            else:
                x = layer(x) if len(rows) > 8 else attend(layer, x, x.shape[1])
        return torch.tanh(self.pooler(x[:, 0])).numpy()

    def predict(self, head, rows):
        features = self.features(rows)
        if head == "regression":
            return self.regression.predict_proba(features)[:, 1:]
        return self.booster.inplace_predict(features)[:, None]


class DeepHybrid:
    def __init__(self, folder):
        weights = Weights(folder)

        def convolution(name, stride):
            weight = weights(f"{name}.weight")
            layer = nn.Conv2d(weight.shape[1], weight.shape[0], weight.shape[2:], stride, padding=1)
            return weights.into(layer, weight=weight, bias=weights(f"{name}.bias"))

        first, second = convolution("seen.first", 1), convolution("seen.second", 2)
        dense = weights.linear("seen.dense")
        self.seen = nn.Sequential(first, nn.ReLU(), second, nn.ReLU(), nn.Flatten(), dense, nn.ReLU()).eval()
        self.forest = joblib.load(folder / "model.joblib").set_params(n_jobs=torch.get_num_threads())

    def predict(self, _, rows):
        images = torch.from_numpy(rows).view(-1, 1, 8, 8)
        return self.forest.predict_proba(self.seen(images).numpy())


class ClickThrough:
    def __init__(self, folder):
        weights = Weights(folder)
        self.booster = booster(folder)
        # Indexed by XGBoost's numbers of nodes: a table an embedding, without another look-up between the two.
        slots = torch.from_numpy(np.load(folder / "slots.npy"))
        self.offsets = torch.arange(slots.shape[0]) * slots.shape[1]

        def leaves(name):
            return weights(f"{name}.weight")[slots.reshape(-1)]

        self.wide_leaves = nn.EmbeddingBag.from_pretrained(leaves("wide_leaves"), mode="sum")
        self.wide_ids = nn.EmbeddingBag.from_pretrained(weights("wide_ids.weight"), mode="sum")
        self.deep_leaves = nn.Embedding.from_pretrained(leaves("deep_leaves"))
        self.deep_ids = nn.Embedding.from_pretrained(weights("deep_ids.weight"))
        deep = [weights.linear(f"deep.{number}") for number in range(3)]
        self.deep = nn.Sequential(deep[0], nn.ReLU(), deep[1], nn.ReLU(), deep[2])

    def predict(self, _, rows):
        leaves = self.booster.predict(xgboost.DMatrix(rows), pred_leaf=True)
        leaves = torch.from_numpy(leaves).long() + self.offsets
        table = torch.from_numpy(rows)
        numbers, ids = table[:, :8], table[:, 8:].long()
        wide = self.wide_leaves(leaves) + self.wide_ids(ids)
        deep = torch.cat([self.deep_leaves(leaves).flatten(1), self.deep_ids(ids).flatten(1), numbers], 1)
        return torch.sigmoid(wide + self.deep(deep)).numpy()


TWINS = {
    "text": (Text, ["regression", "forest"]),
    "deep_hybrid": (DeepHybrid, ["forest"]),
    "click_through": (ClickThrough, ["click"]),
}


def check(twin, heads, rows, folder):
    for head in heads:
        expected, found = np.load(folder / f"expected-{head}.npy"), twin.predict(head, rows)
        off = np.abs(expected - found).max(1)
        facts = {"rows": len(off), "outside": int((off > TOLERANCE).sum()), "middle": float(np.median(off))}
        print(json.dumps({"head": head, "tolerance": TOLERANCE, **facts, "largest": float(off.max())}))


def middle_and_least(times):
    return [sorted(times)[len(times) // 2], min(times)]


def serve(twin, rows):
    predict, batches = None, []
    for line in sys.stdin:
        match line.split():
            case ["open", head, batch]:
                batch = int(batch)
                around = np.arange(max(AROUND, batch)) % len(rows)
                batches = [rows[around[at : at + batch]] for at in range(0, len(around) - batch + 1, batch)]
                predict = lambda some, head=head: twin.predict(head, some)
                answer = {"kind": "opened"}
            case ["time", seconds]:
                wall, cpu, clock, busy = [], [], time.perf_counter_ns, time.process_time_ns
                end = clock() + float(seconds) * 1e9
                while not wall or clock() < end:
                    some = batches[len(wall) % len(batches)]
                    begin, began = clock(), busy()
                    predict(some)
                    cpu.append((busy() - began) / 1e3)
                    wall.append((clock() - begin) / 1e3)
                answer = {"kind": "times", "wall": middle_and_least(wall), "cpu": middle_and_least(cpu)}
            case ["quit"]:
                return
            case _:
                sys.exit(f"`{line.strip()}`: neither `open HEAD BATCH` nor `time SECONDS`")
        print(json.dumps(answer), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=TWINS)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--check", action="store_true", help="compare with the example's predictions")
    parser.add_argument("--first-token", action="store_true", help="text: the last layer makes one token")
    args = parser.parse_args()
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", 1)))
    kind, heads = TWINS[args.name]
    with torch.inference_mode():
        twin = kind(args.folder, args.first_token) if kind is Text else kind(args.folder)
        rows = np.load(args.folder / "rows-test.npy")
        check(twin, heads, rows, args.folder) if args.check else serve(twin, rows)


if __name__ == "__main__":
    main()
