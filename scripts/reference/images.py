#!/usr/bin/env python3
"""Writes tests/reference/images: small pictures in all kinds of PNG and JPEG, and what Pillow and torchvision make of them.

    pip install pillow torch torchvision numpy        # once; written with Pillow 13.0, torchvision 0.29
    scripts/reference/images.py

NAME.png or NAME.jpg stands beside NAME.ppm, its pixels by Pillow's convert("RGB"), and NAME.grey.pgm by convert("L") of
that. Bytes that must be equal are in PPM and PGM files, values that are rounded differently in .f32 files: [height, width,
3], little-endian. tests/data/image_test.cpp and tests/data/image_operations_test.cpp make the same calls by these names.
"""
import pathlib
import struct
import zlib

import numpy as np
import torch
from PIL import ExifTags, Image, ImageEnhance, ImageOps
from torchvision.transforms import InterpolationMode
from torchvision.transforms import functional as F

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "tests" / "reference" / "images"
HEIGHT, WIDTH = 30, 40


def picture():
    """Smooth colours with noise and an edge."""
    random = np.random.default_rng(20240607)
    y, x = np.mgrid[0:HEIGHT, 0:WIDTH]
    waves = [np.sin(x / 7.0) * np.cos(y / 5.0), np.cos((x + y) / 9.0), np.sin(x * y / 130.0)]
    pixels = np.stack([128 + 100 * wave for wave in waves], axis=-1) + random.normal(0, 12, (HEIGHT, WIDTH, 3))
    pixels[8:18, 20:33] = (250, 20, 60)
    return np.clip(pixels, 0, 255).astype(np.uint8)


WHOLE = [(0, 0, 1, 1)]
ADAM7 = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]


def write_png(path, pixels, bits, color_type, passes=WHOLE):
    """For what Pillow does not write. `pixels` are integers, [height, width, channels]; a pass begins at x, y and takes
    every dx-th pixel of every dy-th row."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    height, width = pixels.shape[:2]
    rows = b"".join(b"\0" + row.astype(">u2" if bits == 16 else ">u1").tobytes()
                    for x, y, dx, dy in passes for row in pixels[y::dy, x::dx])
    header = struct.pack(">IIBBBBB", width, height, bits, color_type, 0, 0, int(passes is ADAM7))
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows, 9)) +
                     chunk(b"IEND", b""))


def kinds(image):
    rgb = np.asarray(image)
    alpha = Image.fromarray(np.mgrid[0:HEIGHT, 0:WIDTH][0].astype(np.uint8) * 8)
    image.save(FOLDER / "rgb.png")
    image.quantize(13).save(FOLDER / "palette.png", bits=4)
    image.convert("L").save(FOLDER / "grey.png")
    image.convert("1").save(FOLDER / "bit.png")
    Image.merge("RGBA", (*image.split(), alpha)).save(FOLDER / "rgba.png")
    Image.merge("LA", (image.convert("L"), alpha)).save(FOLDER / "grey_alpha.png")
    write_png(FOLDER / "interlaced.png", rgb, 8, 2, ADAM7)
    image.save(FOLDER / "baseline.jpg", quality=90)
    image.save(FOLDER / "progressive.jpg", quality=80, progressive=True)
    image.convert("L").save(FOLDER / "luma.jpg", quality=90)
    image.convert("CMYK").save(FOLDER / "cmyk.jpg", quality=90)
    for path in sorted([*FOLDER.glob("*.png"), *FOLDER.glob("*.jpg")]):
        if not path.stem.startswith(("sixteen", "mask", "arithmetic")):  # jpegtran -arithmetic baseline.jpg >arithmetic.jpg
            Image.open(path).convert("RGB").save(path.with_suffix(".ppm"))
    image.convert("L").save(FOLDER / "rgb.grey.pgm")
    # Of 16 bits the upper 8 count. Pillow takes them of colours, but makes white of grey above 255.
    wide = rgb.astype(np.int64) * 257 + np.arange(HEIGHT * WIDTH * 3).reshape(rgb.shape) % 255 - 127
    wide = np.clip(wide, 0, 65535)
    write_png(FOLDER / "sixteen.png", wide, 16, 2)
    Image.open(FOLDER / "sixteen.png").convert("RGB").save(FOLDER / "sixteen.ppm")
    write_png(FOLDER / "sixteen_grey.png", wide[..., :1], 16, 0)
    Image.fromarray(np.broadcast_to(wide[..., :1] >> 8, rgb.shape).astype(np.uint8)).save(FOLDER / "sixteen_grey.ppm")


def orientations(image):
    """Each of EXIF's eight in a JPEG, and two in a PNG, as Pillow turns them; one EXIF has its bytes in the other order."""
    part = image.crop((16, 4, 16 + 21, 4 + 14))
    for orientation in range(1, 9):
        exif = Image.Exif()
        exif.endian = ">" if orientation == 8 else "<"
        exif[ExifTags.Base.Make] = "camera"
        exif[ExifTags.Base.Orientation] = orientation
        for kind in ("jpg", "png")[:2 if orientation in (6, 7) else 1]:
            path = FOLDER / f"turned_{orientation}.{kind}"
            part.save(path, exif=exif, quality=90)
            ImageOps.exif_transpose(Image.open(path)).save(FOLDER / f"{path.name}.ppm")


def operations(image):
    # From 12 x 32 on, Pillow 13 begins with the columns, but not for 12 x 31.
    for height, width in ((12, 17), (60, 31), (30, 11), (7, 40), (1, 1), (30, 40), (12, 31), (12, 32), (28, 48)):
        image.resize((width, height), Image.BILINEAR).save(FOLDER / f"resize_{height}x{width}.ppm")
        image.resize((width, height), Image.NEAREST).save(FOLDER / f"nearest_{height}x{width}.ppm")
    image.convert("L").resize((17, 12), Image.BILINEAR).save(FOLDER / "resize_grey_12x17.pgm")
    image.crop((5, 3, 5 + 22, 3 + 19)).resize((12, 16), Image.BILINEAR).save(FOLDER / "resize_region.ppm")
    image.crop((21, 2, 21 + 12, 2 + 27)).resize((9, 11), Image.BILINEAR).save(FOLDER / "resize_tall_region.ppm")
    for size, side in ((21, 16), (17, 12), (20, 33), (24, 47)):
        F.center_crop(F.resize(image, size), side).save(FOLDER / f"center_{size}_{side}.ppm")
    for factor in (0.0, 0.6, 1.0, 1.5):
        ImageEnhance.Brightness(image).enhance(factor).save(FOLDER / f"brightness_{factor}.ppm")
        ImageEnhance.Contrast(image).enhance(factor).save(FOLDER / f"contrast_{factor}.ppm")
        ImageEnhance.Color(image).enhance(factor).save(FOLDER / f"saturation_{factor}.ppm")

    def save(name, tensor):
        (255 * tensor).permute(1, 2, 0).float().contiguous().numpy().tofile(FOLDER / f"{name}.f32")

    part = torch.from_numpy(np.asarray(image)[5:21, 12:30].copy()).permute(2, 0, 1).double() / 255
    for turns in (-0.3, 0.1, 0.5):
        save(f"hue_{turns}", F.adjust_hue(part, turns))
    for degrees, scale, right, down in ((25.0, 1.0, 0.0, 0.0), (-10.0, 1.3, 2.0, -3.0), (180.0, 0.7, 1.0, 0.0)):
        turned = F.affine(part, angle=degrees, translate=[right, down], scale=scale, shear=[0.0],
                          interpolation=InterpolationMode.BILINEAR)
        save(f"warp_{degrees:g}_{scale:g}_{right:g}_{down:g}", turned)


def main():
    FOLDER.mkdir(exist_ok=True)
    for path in FOLDER.iterdir():
        path.unlink()
    image = Image.fromarray(picture())
    kinds(image)
    orientations(image)
    operations(image)
    # Not PNG, not JPEG.
    image.crop((0, 0, 4, 4)).save(FOLDER / "small.gif")


if __name__ == "__main__":
    main()
