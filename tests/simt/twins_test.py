"""`Block` costs nothing on a GPU: kernels written against it come out as large as their twins written by hand.

Compares the machine code of tests/simt/kernels/NAME.cu with that of tests/simt/twins/NAME.cu, as nvcc made it. Releases of
nvcc schedule differently, so the promise is size; docs/kernel_tests.md says what a closer look found.
"""
import os
import pathlib
import struct
import unittest

CUBINS = pathlib.Path(os.environ["HEADROOM_CUBINS"])


def machine_code(cubin, part_of_name):
    """The bytes of the one kernel in an ELF file whose name contains this."""
    data = cubin.read_bytes()
    (table,) = struct.unpack_from("<Q", data, 0x28)
    count, names = struct.unpack_from("<HH", data, 0x3C)
    sections = [struct.unpack_from("<IIQQQQIIQQ", data, table + 64 * i) for i in range(count)]
    found = []
    for section in sections:
        begin = sections[names][4] + section[0]
        name = data[begin : data.index(b"\0", begin)].decode()
        if name.startswith(".text.") and part_of_name in name:
            found.append(data[section[4] : section[4] + section[5]])
    (code,) = found
    return code


class Twins(unittest.TestCase):
    def test_machine_code_is_as_large_as_what_is_written_by_hand(self):
        for name in ("row_sum", "matmul"):
            for architecture in ("sm_80", "sm_90"):
                with self.subTest(name=name, architecture=architecture):
                    ours = machine_code(CUBINS / "simt_nvcc" / f"{name}.{architecture}.cubin", "3f16")
                    twin = machine_code(CUBINS / "simt_twins" / f"{name}.{architecture}.cubin", "by_hand")
                    print(f"{name} {architecture}: {len(ours)} bytes, by hand {len(twin)}, identical: {ours == twin}")
                    self.assertLessEqual(len(ours), 1.05 * len(twin))


if __name__ == "__main__":
    unittest.main()
