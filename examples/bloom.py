"""Bloom: the glow and the rays around bright lights, as a camera sees a city at night.

A lens spreads the light of every pixel by its point spread function (PSF). The result is a
convolution in linear light, in which a lamp may be a thousand times brighter than a wall. Without a
file the script makes the picture itself: sky, moon, houses with lit windows, lamps along the water,
and their reflection in the water.

Needs:   pip install ".[demo]" (".[demo,hdr]" for pictures of OpenEXR and Radiance)
Run:     python examples/bloom.py
         python examples/bloom.py --strength 0.6 --blades 5 --out glow.png
         python examples/bloom.py night.exr --out glow.exr    # also .npy and .hdr
Prints:  the brightest pixel before and after, and the share of light that stays in the picture.
Writes:  a picture, bloom.png: without bloom on the left, with bloom on the right. A file of linear
         light, such as glow.exr, has the picture with bloom only.
"""

import argparse
from pathlib import Path

import torch
from PIL import Image

import trnfft
from trnfft_demo.picture import read_picture, write_picture

HEIGHT, WIDTH, SHORE = 280, 400, 205  # pixels; the water begins at row SHORE
MOON, BEACON = (9.0, 8.5, 7.0), (60.0, 5.0, 3.0)  # red, green, blue
WARM, COLD = (1.0, 0.62, 0.28), (0.7, 0.85, 1.0)


def main() -> None:
    parser = argparse.ArgumentParser(description="Bloom of a city at night.")
    parser.add_argument("file", nargs="?", type=Path, help="picture of 1 or 3 channels")
    parser.add_argument("--strength", type=float, default=0.35, help="0 to 1; default: 0.35")
    parser.add_argument("--blades", type=int, default=6, help="blades of the aperture; default: 6")
    parser.add_argument("--out", type=Path, default=Path("bloom.png"), help="file to write")
    arguments = parser.parse_args()

    light = read(arguments.file) if arguments.file else city_at_night()
    psf = trnfft.point_spread_functions.star(255, arguments.blades)
    bloomed = trnfft.bloom(light, psf, strength=arguments.strength)

    height, width = light.shape[-2:]
    print(f"picture     {width} x {height} pixels, a PSF of {psf.shape[1]} x {psf.shape[0]}")
    print(f"brightest   {light.max():.1f} without bloom, {bloomed.max():.1f} with it")
    print(f"light       {bloomed.sum() / light.sum():.1%} of it stays in the picture")
    if arguments.out.suffix == ".png":
        white = torch.full((3, height, 6), 100.0)
        save(torch.cat([light, white, bloomed], -1), arguments.out)
    else:
        with open(arguments.out, "wb") as file:
            write_picture(bloomed.numpy(), file, arguments.out)
    print(f"wrote       {arguments.out}")


def read(file: Path) -> torch.Tensor:
    """Returns the linear light of a picture [3, H, W]; what is transparent is black."""
    return torch.from_numpy(read_picture(file).on_black()).expand(3, -1, -1)


def city_at_night() -> torch.Tensor:
    """Returns linear light [3, HEIGHT, WIDTH] from nearly 0 to 250; a screen shows 0 to 1."""
    generator = torch.Generator().manual_seed(3)

    def random(low: float, high: float) -> float:
        return low + (high - low) * torch.rand((), generator=generator).item()

    y, x = torch.meshgrid(torch.arange(HEIGHT), torch.arange(WIDTH), indexing="ij")
    light = color((0.02, 0.03, 0.09)) * (0.15 + y / SHORE)
    for _ in range(70):  # stars
        light[:, int(random(0, 110)), int(random(0, WIDTH))] += 3 * random(0, 1) ** 4
    disk = (14.5 - torch.hypot(y - 45.0, x - 318.0)).clamp(0, 1)
    light = light * (1 - disk) + color(MOON) * disk

    left = 0
    while left < WIDTH:  # houses from left to right
        right, roof = left + int(random(24, 52)), int(random(70, 165))
        light[:, roof:, left:right] = color((0.004, 0.005, 0.009))
        if roof < 100:
            light[:, roof - 3 : roof, left + 10 : left + 12] = color(BEACON)
        for top in range(roof + 6, SHORE - 12, 8):
            for side in range(left + 4, right - 5, 7):
                if random(0, 1) < 0.4:
                    tint = color(WARM if random(0, 1) < 0.8 else COLD) * random(0.2, 1.5)
                    light[:, top : top + 4, side : side + 3] = tint
        left = right
    for side in range(20, WIDTH, 60):  # lamps
        light[:, SHORE - 8 : SHORE - 5, side : side + 3] = color(WARM) * 250
    return reflected(light)


def reflected(light: torch.Tensor) -> torch.Tensor:
    """Adds the mirror image below SHORE, blurred and distorted by waves."""
    depth = HEIGHT - SHORE
    image = light[:, SHORE - depth : SHORE].flip(-2)
    image = torch.nn.functional.avg_pool2d(image, (7, 1), 1, (3, 0))
    for row in range(depth):
        wave = torch.sin(torch.tensor(60.0 * (row + 4) ** 0.5)).item()
        light[:, SHORE + row] = 0.3 * image[:, row].roll(round(wave * (1 + row / 15)), -1)
    return light


def color(rgb: tuple[float, float, float]) -> torch.Tensor:
    """Returns the colour as a tensor [3, 1, 1], which broadcasts to any number of pixels."""
    return torch.tensor(rgb)[:, None, None]


def save(light: torch.Tensor, out: Path) -> None:
    """Writes linear light as 8 bits, with compressed highlights as on film and a screen's gamma."""
    shown = (1 - torch.exp(-2 * light.clamp(min=0))) ** (1 / 2.2)
    Image.fromarray((255 * shown).round().byte().permute(1, 2, 0).numpy()).save(out)


if __name__ == "__main__":
    main()
