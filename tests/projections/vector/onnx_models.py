"""Tiny models in ONNX, written byte by byte: what of the format a model needs that looks tokens up in a table.

A message of protobuf is its fields, each a varint of ``number << 3 | kind`` and the value: kind 0 a varint, kind 2 a
length and bytes.
"""

from __future__ import annotations

import json
from typing import Any

FLOAT, INT64 = 1, 7


def varint(number):
    out = b""
    while number > 127:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


def field(number, value):
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    content = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(content)) + content


def tensor(name, rows):
    """TensorProto: dims 1, data_type 2, name 8, raw_data 9."""
    dims = b"".join(field(1, size) for size in rows.shape)
    return dims + field(2, FLOAT) + field(8, name) + field(9, rows.astype("<f4").tobytes())


def value(name, kind, *dims):
    """ValueInfoProto: name 1, type 2 {tensor_type 1 {elem_type 1, shape 2 {dim 1 {dim_value 1, dim_param 2}}}}."""
    shape = b"".join(field(1, field(1 if isinstance(dim, int) else 2, dim)) for dim in dims)
    return field(1, name) + field(2, field(1, field(1, kind) + field(2, shape)))


def node(operator, inputs, output):
    """NodeProto: input 1, output 2, op_type 4."""
    return b"".join(field(1, name) for name in inputs) + field(2, output) + field(4, operator)


def model(nodes, tensors, inputs, outputs):
    """ModelProto: ir_version 1, graph 7 {node 1, name 2, initializer 5, input 11, output 12}, opset_import 8."""
    parts = [(1, each) for each in nodes] + [(5, each) for each in tensors]
    parts += [(11, each) for each in inputs] + [(12, each) for each in outputs]
    graph = field(2, "tiny") + b"".join(field(number, each) for number, each in parts)
    return field(1, 8) + field(7, graph) + field(8, field(1, "") + field(2, 17))


def looking_up(table, kinds=None, output="last_hidden_state"):
    """Return a model that gives each token its row of a table, and that of its kind added where there are kinds."""
    ids = value("input_ids", INT64, "texts", "tokens")
    given = value(output, FLOAT, "texts", "tokens", table.shape[1])
    mask = value("attention_mask", INT64, "texts", "tokens")
    if kinds is None:
        nodes = [node("Gather", ["table", "input_ids"], output)]
        return model(nodes, [tensor("table", table)], [ids, mask], [given])
    nodes = [
        node("Gather", ["table", "input_ids"], "own"),
        node("Gather", ["kinds", "token_type_ids"], "kind"),
        node("Add", ["own", "kind"], output),
    ]
    types = value("token_type_ids", INT64, "texts", "tokens")
    return model(nodes, [tensor("table", table), tensor("kinds", kinds)], [mask, ids, types], [given])


TOKENS: dict[str, Any] = {
    "version": "1.0",
    "truncation": None,
    "padding": None,
    "added_tokens": [],
    "normalizer": None,
    "pre_tokenizer": {"type": "Whitespace"},
    "post_processor": {
        "type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 1}}],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {"[CLS]": {"id": "[CLS]", "ids": [1], "tokens": ["[CLS]"]}},
    },
    "decoder": None,
    "model": {
        "type": "WordLevel",
        "vocab": {"[UNK]": 0, "[CLS]": 1, "a": 2, "b": 3, "\uac00": 4},
        "unk_token": "[UNK]",
    },
}


def folder_of(place, content, config=None, **changes):
    place.mkdir(exist_ok=True)
    (place / "model.onnx").write_bytes(content)
    (place / "tokenizer.json").write_text(json.dumps({**TOKENS, **changes}), encoding="utf-8")
    if config is not None:
        (place / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return place
