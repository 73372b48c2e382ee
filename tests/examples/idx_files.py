"""IDX files, MNIST's format, for tests of programs."""
import struct


def images(count, rows=28, columns=28):
    """An image shows its class as a bright line, and some noise."""
    pixels = bytearray()
    for i in range(count):
        for row in range(rows):
            pixels += bytes(230 if row == 2 + 2 * (i % 10) else (i * 37 + row * 11 + column * 7) % 60
                            for column in range(columns))
    return struct.pack(">IIII", 0x803, count, rows, columns) + bytes(pixels)


def labels(count, shift=0):
    return struct.pack(">II", 0x801, count) + bytes((i % 10) + shift for i in range(count))
