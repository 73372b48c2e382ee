"""How long kernels take on one H200: rates that are assumed, each from what others measured and published.
None is Headroom's own, which has not run on a GPU yet.

A launch takes the longest of three times: moving its bytes, doing its operations, and the least that any launch takes;
then the GPU takes a moment until the next kernel begins. The host queues launches one by one, and a step takes the longer
of what the GPU and what the host need for it.
"""
import collections

Rate = collections.namedtuple("Rate", ["value", "unit", "source"])

OPERATIONS, BYTES, SECONDS = "operations/s", "B/s", "s"
TILEOPS = "TileOPs' nightly report, H200, 2026-08-23"  # github.com/tile-ai/TileOPs
NORMS = "cudnn-frontend, benchmark/norms/results/h200, 2026-02-27"  # github.com/NVIDIA/cudnn-frontend

# An H200 has 4.8 TB/s and, without sparsity, 989 TFLOP/s for halves and 67 for f32 (NVIDIA's data sheet).
ASSUMED = {
    "elementwise": Rate(4.0e12, BYTES, f"{TILEOPS}: PyTorch's floor and exp of 16 to 256 million elements, 3.74 to 4.25 TB/s"),
    "norm of rows": Rate(3.5e12, BYTES, f"{NORMS}: forward passes by torch.compile, the median; cuDNN's 3.2 to 3.85 TB/s"),
    "norm of rows, gradient": Rate(2.5e12, BYTES, f"{NORMS}: between torch.compile's 1.7 and cuDNN's 3.4 TB/s"),
    "norm of channels, reduction": Rate(3.2e12, BYTES, f"{TILEOPS}: batch norm of 1.07 GB by torch.compile, three passes in 1.018 ms"),
    "operands": Rate(3.0e12, BYTES, "cuBLAS on an H100: a matrix times a vector at 63% of the bandwidth (pegainfer #582)"),
    "product bf16": Rate(0.57 * 989e12, OPERATIONS, f"{TILEOPS}: cuBLAS at a depth of 1024, 550 TFLOP/s; at one of 4096, 711"),
    "product f16": Rate(0.57 * 989e12, OPERATIONS, "as bf16, by the data sheet"),
    "product f32": Rate(0.75 * 67e12, OPERATIONS, "a guess: without tensor cores"),
    "convolution bf16": Rate(375e12, OPERATIONS, f"{TILEOPS}: cuDNN, 3 x 3, 256 to 512 channels at 112 x 112, in 0.0788 ms"),
    "convolution f16": Rate(375e12, OPERATIONS, "as bf16"),
    "convolution f32": Rate(375 / 989 * 67e12, OPERATIONS, "the share of the data sheet's rate that bf16 has"),
    "attention": Rate(258e12, OPERATIONS, "cuDNN on an H100, causal, 64 channels a head, 1024 tokens (arXiv 2407.08608)"),
    "attention gradient in any order": Rate(241e12, OPERATIONS, "the same paper: 348 where all is visible, times what forward loses "
                                            "where it is not, 258 / 373"),
    "attention gradient": Rate(150e12, OPERATIONS, "37.9% less where the order is fixed (arXiv 2601.21824)"),
    "own product f32": Rate(0.20 * 67e12, OPERATIONS, "a guess"),
    "own product bf16": Rate(0.15 * 989e12, OPERATIONS, "a guess"),
    "own product f16": Rate(0.15 * 989e12, OPERATIONS, "a guess"),
    "least of a kernel": Rate(2.0e-6, SECONDS, f"{NORMS}: 8192 norms of 128 elements take 2 to 3 us"),
    "least of a library's": Rate(3.2e-6, SECONDS, f"{TILEOPS}: cuBLAS, 8 products of 128 x 128 x 128"),
    "between kernels": Rate(0.9e-6, SECONDS, "NVIDIA's blog on CUDA graphs, a V100: 3.8 us for each kernel of a sequence, of which it runs 2.9"),
    "host, a kernel": Rate(3.5e-6, SECONDS, "cuLaunchKernel 2.65 us (ahrefs/ocannl #488) to 3.0 (meta-pytorch/tritonbench #1017); "
                           "0.5 for the rest, which is what the LSTM's model_estimate needs for each launch"),
    "host, a product": Rate(5.5e-6, SECONDS, "cublasLtMatmul with what it needs at hand, 5 us (rapidsai/raft #1736), and the same 0.5"),
    "host, cuDNN": Rate(12e-6, SECONDS, "cudnnBackendExecute, 9.6 to 14 us (NVIDIA/cudnn-frontend #1086 and #1099)"),
}
RATES = {name: rate.value for name, rate in ASSUMED.items()}

# The rate at which a kernel's bytes move that does no products; those that are not here are elementwise.
KINDS = {
    "norm of rows": ["layer_norm", "rms_norm", "softmax", "log_softmax", "cross_entropy"],
    "norm of rows, gradient": ["layer_norm gradient", "rms_norm gradient", "softmax gradient", "log_softmax gradient"],
    "norm of channels, reduction": ["channel_norm moments", "channel_norm sums", "channel_norm", "channel_norm gradient", "reduction",
                                    "sum_of_squares"],
}
RATE_OF_BYTES = {name: rate for rate, names in KINDS.items() for name in names}


def family(kernel):
    return kernel["kernel"].split(" [")[0]


def is_librarys(kernel):
    return kernel["rate"].split(" ")[0] in ("product", "convolution", "attention")


def gpu_seconds(kernel, rates):
    """Of all launches of a kernel. Uploads have a queue of their own."""
    if kernel["rate"] == "host":
        return 0.0
    rate = "operands" if kernel["rate"] else RATE_OF_BYTES.get(family(kernel), "elementwise")
    least = "least of a library's" if is_librarys(kernel) else "least of a kernel"
    work = max(kernel["bytes"] / rates[rate], kernel["launches"] * rates[least])
    if kernel["rate"]:
        work = max(work, kernel["operations"] / rates[kernel["rate"]])
    return work + kernel["launches"] * rates["between kernels"]


def host_seconds(kernel, rates):
    """For all calls that queue it; a graph is queued by one."""
    who = "a kernel" if not is_librarys(kernel) else "a product" if kernel["rate"].startswith("product") else "cuDNN"
    return kernel["queued"] * rates[f"host, {who}"]
