"""Runs scripts/check-includes on a small tree: what points down passes, what points up or sideways is named."""
import os
import subprocess
import sys
import tempfile
import unittest

SCRIPT = os.path.join(os.path.dirname(__file__), "..", "..", "scripts", "check-includes")


def check(name, line):
    """Exit status and complaints for a file `name` that holds `line`."""
    with tempfile.TemporaryDirectory() as folder:
        os.makedirs(os.path.join(folder, os.path.dirname(name)))
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            file.write(f"#pragma once\n{line}\n")
        run = subprocess.run([sys.executable, os.path.abspath(SCRIPT), name], cwd=folder, capture_output=True, text=True)
        return run.returncode, run.stderr


class CheckIncludes(unittest.TestCase):
    def passes(self, name, line):
        self.assertEqual(check(name, line), (0, ""))

    def fails(self, name, line):
        status, complaint = check(name, line)
        self.assertEqual(status, 1)
        self.assertTrue(complaint.startswith(f"{name}:2: "), complaint)

    def test_own_library_and_those_below_pass(self):
        self.passes("core/tape.hpp", "#include <headroom/core/value.hpp>")
        self.passes("core/ops/relu.cpp", "#include <headroom/kernels/map/map.hpp>")
        self.passes("memory/driver.cpp", "#include <headroom/config.hpp>")

    def test_standard_and_third_party_headers_pass(self):
        self.passes("memory/driver.cpp", "#include <vector>")
        self.passes("kernels/matmul/matmul.cpp", "#include <dnnl.hpp>")

    def test_upward_includes_fail(self):
        self.fails("memory/driver.cpp", "#include <headroom/kernels/view.hpp>")
        self.fails("kernels/map/map.cpp", "  #  include <headroom/core/tensor.hpp>")
        self.fails("core/tape.cpp", "#include <headroom/headroom.hpp>")

    def test_siblings_fail(self):
        self.fails("nn/linear.cpp", "#include <headroom/optim/adamw.hpp>")
        self.fails("optim/window.hpp", "#include <headroom/data/data_loader.hpp>")
        self.fails("data/loader.hpp", "#include <headroom/nn/module.hpp>")

    def test_ways_around_the_include_roots_fail(self):
        self.fails("memory/driver.cpp", '#include "../core/tensor.hpp"')
        self.fails("kernels/map/map.cpp", '#include "core/tensor.hpp"')

    def test_libraries_know_neither_tests_nor_examples(self):
        self.fails("kernels/device/emulated_device.cpp", "#include <headroom/tests/simt/emulator.hpp>")
        self.fails("core/tensor.cpp", "#include <headroom/tests/support/seed.hpp>")
        self.fails("nn/gpt.cpp", "#include <headroom/examples/cli/flags.hpp>")

    def test_public_headers_include_no_internal_ones_except_in_kernels(self):
        internal = "#include <headroom/memory/internal/storage.hpp>"
        self.fails("memory/buffer.hpp", internal)
        self.fails("core/ops/relu.hpp", "#include <headroom/kernels/map/internal/loop.hpp>")
        self.passes("memory/buffer.cpp", internal)
        self.passes("memory/internal/block.hpp", internal)
        self.passes("memory/allocator/internal/block.hpp", internal)
        self.passes("kernels/map/map.hpp", "#include <headroom/kernels/map/internal/loop.hpp>")
        self.passes("tests/memory/block.hpp", internal)

    def test_examples_and_tests_see_the_whole_stack(self):
        self.passes("examples/train_gpt.cpp", "#include <headroom/headroom.hpp>")
        self.passes("examples/train_gpt.cpp", "#include <headroom/examples/cli/flags.hpp>")
        self.passes("tests/memory/driver_test.cpp", "#include <headroom/core/tensor.hpp>")


if __name__ == "__main__":
    unittest.main()
