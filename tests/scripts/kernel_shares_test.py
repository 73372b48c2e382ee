"""Of which bytes and operations kernel_shares takes shares: those of the mathematics, found again from the shares. Times are the
emulator's, and no figures."""
import json
import math
import os
import re
import subprocess
import unittest

PROGRAM = os.path.join(os.environ.get("HEADROOM_EMULATED_GPU_PROGRAMS", ""), "kernel_shares")
BYTES = {"bf16": 2, "f32": 4}
# --small: tokens, channels, words; images of an attention and its heads; sequences and units of an LSTM, and its steps.
ROWS, WIDTH, CLASSES = 64, 32, 96
BATCH, TIME, HEADS, HEAD_WIDTH = 1, 64, 2, 16
SEQUENCES, UNITS, STEPS = 4, 16, 2


def convolution(name):
    """Each array once: x, weight and y. Operations of the pixels that y has."""
    kernel, _, inputs, outputs, images, height, width = map(int, re.findall(r"(?<![\w-])\d+(?!\w)", name))
    stride = 2 if kernel == 7 or (kernel == 1 and outputs == 2 * inputs) else 1
    pixels = math.prod((side + 2 * (kernel // 2) - kernel) // stride + 1 for side in (height, width))
    weight = inputs * outputs * kernel**2
    return 2 * (images * height * width * inputs + weight + images * pixels * outputs), 2 * images * pixels * weight


def of_rows(passes, width=4 * WIDTH, rows=ROWS):
    return lambda name: (passes * rows * width * BYTES[name.split()[-1]], 0)


def channel_norm(passes):
    return lambda name: (passes * 2 * math.prod(map(int, re.findall(r"\d+", name[name.index("["):name.index("]")]))), 0)


def linear(*others):
    """x, the weight and y in halves, or `others`: bytes in place of the weight's, and beside all."""
    weight, more = others or (2, 0)
    return lambda _: (2 * ROWS * 5 * WIDTH + weight * 4 * WIDTH**2 + more * ROWS * 4 * WIDTH, 2 * ROWS * 4 * WIDTH**2)


def attention(arrays, products):
    size = BATCH * TIME * HEADS * HEAD_WIDTH
    return lambda name: (arrays * size * BYTES[name.split(",")[0].split()[-1]], products * size * TIME)


STATE = SEQUENCES * UNITS  # elements; gates are four
STEP = 2 * 2 * 4 * STATE + 4 * 4 * STATE + (4 + 4 + 2 + 2) * STATE
GRADIENT = 2 * (2 * 4 + 4 + 4) * STATE + (4 + 4 + 2) * STATE
PRODUCT = 2 * STATE + 2 * 4 * UNITS**2 + 4 * 4 * STATE  # h, weight, gates in f32
PRODUCT_GRADIENT = 2 * 4 * STATE + 2 * 4 * UNITS**2 + 2 * 4 * STATE  # gates, weight, dh read and written
OPERATIONS = 2 * 4 * SEQUENCES * UNITS**2

KINDS = {
    r"convolution( data| weight)? (ResNet|U-Net) ": convolution,
    r"channel_norm moments ": channel_norm(1),
    r"channel_norm (ResNet|U-Net) ": channel_norm(2),
    r"channel_norm residual ": channel_norm(3),
    r"channel_norm gradient ": channel_norm(5),  # x and dy twice, dx
    r"linear (bf16|dx bf16)$": linear(),
    r"linear dweight": linear(4, 0),
    r"linear gelu ": linear(2, 2),
    r"linear dgelu ": linear(2, 4),
    r"attention (bf16|f32)": attention(4, 2),
    r"attention_gradient (bf16|f32)": attention(8, 5),
    r"lstm_step \[": lambda _: (STEP, 0),
    r"lstm_step gradient \[": lambda _: (GRADIENT, 0),
    r"product of an lstm_step ": lambda _: (PRODUCT, OPERATIONS),
    r"2 lstm_steps with products": lambda _: (STEPS * (STEP + PRODUCT), STEPS * OPERATIONS),
    r"2 lstm_step gradients with products": lambda _: (STEPS * (GRADIENT + PRODUCT_GRADIENT), STEPS * OPERATIONS),
    r"(gelu|add_row|dropout) ": of_rows(2),
    r"(gelu_backward|add|dropout_add|accumulate) ": of_rows(3),
    r"(layer_norm|rms_norm|softmax) ": of_rows(2, WIDTH),
    r"(layer_norm|rms_norm|softmax)_backward ": of_rows(3, WIDTH),
    r"(sum of columns|sum of rows|sum_of_squares) ": of_rows(1),
    r"cross_entropy ": of_rows(1, CLASSES, ROWS // 8),
    r"cross_entropy_backward ": of_rows(2, CLASSES, ROWS // 8),
    r"cast ": lambda _: (6 * ROWS * 4 * WIDTH, 0),
    r"(copy|transpose) bf16$": of_rows(2),
    r"embedding f32$": of_rows(2, WIDTH),
    r"embedding_backward f32$": lambda _: (4 * (ROWS + 2 * CLASSES) * WIDTH, 0),
    r"adamw f32$": lambda _: (7 * 4 * 1000, 0),  # of 1000 parameters
}


@unittest.skipUnless(os.path.exists(PROGRAM), "needs kernel_shares of an emulated build")
class Shares(unittest.TestCase):
    def test_are_of_the_bytes_and_the_operations_of_the_mathematics(self):
        result = json.loads(subprocess.run([PROGRAM, "--small"], capture_output=True, text=True, check=True).stdout)
        met = set()
        for row in result["kernels"]:
            kind, = (kind for kind in KINDS if re.match(kind, row["name"]))
            met.add(kind)
            found = (row["milliseconds"] * row["share_of_copy"] * result["copy_gigabytes_per_second"] * 1e6,
                     row["milliseconds"] * row["share_of_product"] * result["product_teraflops"] * 1e9)
            for count, expected in zip(found, KINDS[kind](row["name"])):
                self.assertAlmostEqual(count, expected, delta=1e-6 * expected, msg=row["name"])
        self.assertEqual(met, set(KINDS))


if __name__ == "__main__":
    unittest.main()
