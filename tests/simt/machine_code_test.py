"""What nvcc made of the kernels, by its own account: no local memory but for the reasons below, and 16-byte accesses of
global memory in the kernels that take most of a GPT-2 step's time beside cuBLASLt's and cuDNN's.

Looks at code for sm_90 in the objects of a build with nvcc, with cuobjdump. Releases of nvcc differ: CI's is 13.0.
"""
import concurrent.futures
import os
import pathlib
import re
import subprocess
import unittest

FOLDER = os.environ.get("HEADROOM_DEVICE_OBJECTS")  # of a build with device code
OBJECTS = pathlib.Path(FOLDER or "") / "kernels"
CUOBJDUMP = os.environ.get("HEADROOM_CUOBJDUMP", "")

# Which kernels may have local memory, how many bytes of a thread, and why.
ALLOWED = (
    (r"PointwiseGeneral<(UnaryValue|UnaryGradient)<(Sin|Cos)>, double>", 40, "CUDA reduces large angles by a table of 2/pi"),
    (r"Turn<(float|double)>", 104, "rotary: likewise, for a sine and a cosine"),
    (r"Reduce(Rows|Columns)<\w+, AnyEights>", 40, "eights of any dtype, for which registers do not suffice"),
    (r"Reduce(Rows|Columns)<\w+, AnyElements<(float|double)>>", 8, "any strides: the end of a line is put aside"),
    (r"(MakeKeys|SelectFirst)\b", 64, "sorting: the sizes of axes are indexed at run time"),
    (r"AddOnLines<(float|double)>", 8, "scattering to few elements: each looks at all of its line"),
    (r"DropAnywhere<float>", 8, "dropout of any strides"),
    (r"CrossEntropy<Wide<float>>", 16, "logits of f32, kept in registers by blocks of 1024 threads"),
    (r"CrossEntropyGradient<General<float>>", 8, "logits of any strides"),
    (r"KeyGradients<\w+, (32|128), Unmasked>|QueryGradient<f16, (32|64), Unmasked>", 16, "attention without cuDNN: tiles fill the registers"),
    (r"Forward<bf16, 64, Masked|KeyGradients<\w+, 128, Masked", 24, "the same with masks or dropout"),
    (r"<double>|, double>|Plain\w+<double, ", 32, "f64, for checks of gradients"),
)

# The kernels that move most bytes, or compute most, in a step of GPT-2 with autocast to bf16. (source, kernel, whether
# it writes arrays as wide as it reads)
HOT = (
    ("layer_norm/normalize", r"Normalize<Wide<float>>", True),
    ("layer_norm/normalize_gradient", r"NormGradient<float>", True),
    ("cross_entropy/cross_entropy", r"CrossEntropy<Wide<bf16>>", False),
    ("cross_entropy/cross_entropy", r"CrossEntropyGradient<Wide<bf16>>", True),
    ("optimizer/adamw", r"AdamWKernel<float>", True),
    ("matmul/activate", r"BackwardEights<GeluTanh>", True),
    ("pointwise/binary", r"PointwiseFast<BinaryValue<Add>>", True),
    ("copy/copy", r"CombineEights\b", True),
    ("reduce/engine", r"ReduceColumns<SumOnDevice, AlignedEights<bf16>>", False),
    ("sum_of_squares/sum_of_squares", r"SquaresOfPart<AlignedEights<float>>", False),
    # Where cuDNN is missing or refuses.
    ("attention/tensor_cores", r"Forward<bf16, 64, Unmasked>", True),
    ("attention/tensor_cores_gradient", r"QueryGradient<bf16, 64, Unmasked>", True),
    ("attention/tensor_cores_gradient", r"KeyGradients<bf16, 64, Unmasked>", True),
)


def cuobjdump(option, file):
    path = os.environ["PATH"] + os.pathsep + os.path.dirname(CUOBJDUMP)  # of nvdisasm, which it calls
    return subprocess.run([CUOBJDUMP, option, "-arch", "sm_90", file], check=True, capture_output=True, text=True,
                          env={**os.environ, "PATH": path}).stdout


def short(names):
    """The functors and their types, of the kernels with these mangled names."""
    text = subprocess.run(["c++filt"], input="\n".join(names), check=True, capture_output=True, text=True).stdout
    text = re.sub(r"headroom::kernels::(detail::|device::|attention_device::)?|\(anonymous namespace\)::", "", text)
    text = text.replace("> >", ">>").replace("> >", ">>")
    return [re.sub(r"^void (device::)?entry<", "", line).split("(")[0] for line in text.splitlines()]


def resources(file):
    """(kernel, bytes of a thread in local memory) of an object."""
    text = cuobjdump("-res-usage", file)
    found = re.findall(r"Function (\S+):\s*REG:\d+ STACK:(\d+) SHARED:\d+ LOCAL:(\d+)", text)
    assert len(found) == text.count("Function "), text
    return [(name, int(stack) + int(local)) for name, stack, local in found]


def instructions(file):
    """{kernel: its instructions' names} of an object."""
    parts = [part.split(None, 1) for part in cuobjdump("-sass", file).split("Function : ")[1:]]
    names = re.compile(r"^\s+/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9_.]+)", re.MULTILINE)
    return dict(zip(short(name for name, _ in parts), (names.findall(text) for _, text in parts)))


class MachineCode(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if not FOLDER:
            raise unittest.SkipTest("this build has no device code")
        cls.files = sorted(OBJECTS.glob("*/*.cu.o"))
        assert len(cls.files) > 30, f"{len(cls.files)} objects of device code in {OBJECTS}"
        if not os.path.exists(CUOBJDUMP):
            raise unittest.SkipTest("cuobjdump was not found; scripts/setup --develop installs it")

    def test_no_local_memory_but_for_a_reason(self):
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            kernels = [kernel for found in pool.map(resources, self.files) for kernel in found]
        if not kernels:
            self.skipTest("this build has no code for sm_90")
        used = set()
        for name, (_, size) in zip(short(name for name, _ in kernels), kernels):
            if size == 0:
                continue
            entry = next((entry for entry in ALLOWED if re.search(entry[0], name)), None)
            used.add(entry)
            self.assertLessEqual(size, entry[1] if entry else 0, f"{name} has {size} bytes of local memory a thread")
        self.assertEqual(set(ALLOWED) - used, set(), "not needed any more")

    def test_the_hottest_kernels_access_16_bytes_of_global_memory_at_once(self):
        sources = sorted({source for source, _, _ in HOT})
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            found = dict(zip(sources, pool.map(instructions, (OBJECTS / f"{source}.cu.o" for source in sources))))
        if not any(found.values()):
            self.skipTest("this build has no code for sm_90")
        for source, pattern, writes in HOT:
            with self.subTest(kernel=pattern):
                (code,) = (code for name, code in found[source].items() if re.match(pattern, name))
                used = sorted(set(code))
                self.assertEqual([name for name in used if name.startswith(("LDL", "STL"))], [], "local memory")
                generic = [name for name in used if name.startswith(("LD.", "ST."))]
                self.assertEqual(generic, [], "nvcc does not know that these addresses are global")
                for access in ("LDG.E", "STG.E") if writes else ("LDG.E",):
                    self.assertTrue(any(name.startswith(access) and ".128" in name for name in used), used)


if __name__ == "__main__":
    unittest.main()
