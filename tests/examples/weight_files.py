"""Files of weights as other programs write them."""
import json
import math
import random
import struct


def safetensors(tensors, metadata=None):
    """A file of f32 tensors: {name: (shape, values)}."""
    header, data = {"__metadata__": metadata} if metadata else {}, b""
    for name, (shape, values) in tensors.items():
        packed = struct.pack(f"<{len(values)}f", *values)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(packed)]}
        data += packed
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def read_safetensors(path):
    """Of the tensors of floats: {name: (shape, values)}."""
    with open(path, "rb") as file:
        contents = file.read()
    length = struct.unpack("<Q", contents[:8])[0]
    tensors = {}
    for name, entry in json.loads(contents[8:8 + length]).items():
        if name == "__metadata__":
            continue
        begin, end = (8 + length + offset for offset in entry["data_offsets"])
        form = {"F32": "f", "F64": "d"}.get(entry["dtype"])
        if form:
            tensors[name] = (entry["shape"], [value for value, in struct.iter_unpack("<" + form, contents[begin:end])])
    return tensors


def transposed(shape, values):
    rows, columns = shape
    return [columns, rows], [values[row * columns + column] for column in range(columns) for row in range(rows)]


def gpt2(kinds, positions, layers, width, bias=True):
    """A model of random weights as Hugging Face's transformers would write it."""
    draw = random.Random(5)

    def normal(*shape, mean=0):
        return list(shape), [draw.gauss(mean, 0.2) for _ in range(math.prod(shape))]

    tensors = {"wte.weight": normal(kinds, width), "wpe.weight": normal(positions, width), "ln_f.weight": normal(width, mean=1),
               "ln_f.bias": normal(width)}
    for i in range(layers):
        for name, rows, columns in (("attn.c_attn", width, 3 * width), ("attn.c_proj", width, width),
                                    ("mlp.c_fc", width, 4 * width), ("mlp.c_proj", 4 * width, width)):
            tensors[f"h.{i}.{name}.weight"] = normal(rows, columns)
            tensors[f"h.{i}.{name}.bias"] = normal(columns)
        for name in ("ln_1", "ln_2"):
            tensors[f"h.{i}.{name}.weight"] = normal(width, mean=1)
            tensors[f"h.{i}.{name}.bias"] = normal(width)
    return tensors if bias else {name: tensor for name, tensor in tensors.items() if not name.endswith("bias")}
