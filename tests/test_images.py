"""Image files to arrays, and lists of them."""

import numpy as np
import pytest
from PIL import Image

from ms_biaten.spec.errors import UserError
from ms_biaten.spec.images import (
    MEAN,
    STD,
    BadImageError,
    Transform,
    center_view,
    drawn_view,
    read_image,
    view_of,
)
from ms_biaten.spec.lists import (
    ImageList,
    class_folders,
    read_list,
    scan_classes,
    scan_folder,
    split,
    write_list,
)
from tests.pictures import CLASSES, draw_class


def save(path, mode, colour, **options):
    Image.new(mode, (20, 10), colour).save(path, **options)
    return path


def test_every_kind_of_image_becomes_rgb(tmp_path):
    red = save(tmp_path / "rgb.png", "RGB", (255, 0, 0))
    assert read_image(red).getpixel((0, 0)) == (255, 0, 0)
    assert read_image(save(tmp_path / "l.png", "L", 90)).getpixel((0, 0)) == (90, 90, 90)
    clear = save(tmp_path / "a.png", "RGBA", (255, 0, 0, 0))
    assert read_image(clear).getpixel((0, 0)) == (255, 255, 255)
    assert read_image(save(tmp_path / "c.jpg", "CMYK", (0, 0, 0, 255))).mode == "RGB"


def test_a_turned_photograph_stands_upright(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6  # turned by a quarter
    path = save(tmp_path / "turned.jpg", "RGB", (1, 2, 3), exif=exif)
    assert read_image(path).size == (10, 20)


def test_what_is_no_image_is_named(tmp_path):
    whole = save(tmp_path / "whole.png", "RGB", (255, 0, 0))
    (tmp_path / "cut.png").write_bytes(whole.read_bytes()[:40])
    (tmp_path / "text.jpg").write_text("not an image")
    for name in ("cut.png", "text.jpg", "missing.png"):
        with pytest.raises(BadImageError, match=name):
            read_image(tmp_path / name)


def test_a_decompression_bomb_is_refused(tmp_path, monkeypatch):
    path = save(tmp_path / "bomb.png", "RGB", (0, 0, 0))
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 150)  # 200 pixels: a warning by default
    with pytest.raises(BadImageError, match="bomb"):
        read_image(path)


def test_views():
    gradient = np.tile(np.arange(64, dtype=np.uint8) * 4, (64, 1))
    image = Image.fromarray(np.stack([gradient] * 3, 2))
    transform = Transform(64, 48)
    center = center_view(image, transform)
    assert center.shape == (3, 48, 48)
    assert center.dtype == np.float32
    expected = (gradient[8:56, 8:56] / 255 - MEAN[0]) / STD[0]
    assert center[0] == pytest.approx(expected, abs=1e-5)
    drawn = [drawn_view(image, transform, np.random.default_rng(seed)) for seed in range(8)]
    ways = {bool(view[0, 0, 0] > view[0, 0, -1]) for view in drawn}
    assert ways == {True, False}  # flipped and not
    assert len({view.tobytes() for view in drawn}) > 4


def test_a_drawn_view_depends_on_seed_and_sample_alone():
    image = Image.effect_noise((64, 64), 80).convert("RGB")
    transform = Transform(64, 48)
    same, again, other = (view_of(image, "drawn", transform, 5, row) for row in (3, 3, 4))
    assert (same == again).all()
    assert (same != other).any()


def test_our_transform_is_torchvisions():
    """Resize, centre crop and normalisation agree with the library that the SHOT family uses."""
    from torch_ref.torchvision_shim import import_timm

    import_timm()
    from torchvision import transforms

    image = Image.effect_noise((80, 50), 80).convert("RGB")
    theirs = transforms.Compose(
        [
            transforms.Resize((64, 64)),
            transforms.CenterCrop(56),
            transforms.ToTensor(),
            transforms.Normalize(MEAN.tolist(), STD.tolist()),
        ]
    )
    assert center_view(image, Transform(64, 56)) == pytest.approx(theirs(image).numpy(), abs=1e-5)


def test_lists_round_trip(tmp_path):
    root = draw_class(tmp_path / "ink", "ink", count=2)
    images = scan_classes(root, CLASSES)
    assert images.names[:2] == ("bar/00.png", "bar/01.png")
    assert images.labels == (0, 0, 1, 1, 2, 2)
    write_list(tmp_path / "list.txt", images)
    assert read_list(tmp_path / "list.txt", root, CLASSES) == images
    assert scan_folder(root) == ImageList(root, images.names)
    assert class_folders(root) == CLASSES


def test_names_with_blanks_and_no_newline_at_the_end(tmp_path):
    for name in ("a b.png", "c 7.png"):
        save(tmp_path / name, "RGB", (0, 0, 0))
    (tmp_path / "list.txt").write_text("a b.png 1\nc 7.png 0")
    assert read_list(tmp_path / "list.txt", tmp_path, "ab").labels == (1, 0)
    (tmp_path / "list.txt").write_text("a b.png\nc 7.png")
    assert read_list(tmp_path / "list.txt", tmp_path).names == ("a b.png", "c 7.png")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the list is empty"),
        ("a.png 3", "line 1: label 3 is outside 0..2"),
        ("a.png -1", "line 1: label -1 is outside 0..2"),
        ("a.png 0\nb.png 1", "line 2: no image at"),
        ("a.png 0\n\na.png", "line 3: labels must stand on every line or on none"),
        ("../a.png 0", "leads out of"),
    ],
)
def test_a_bad_list_is_named(tmp_path, text, message):
    save(tmp_path / "a.png", "RGB", (0, 0, 0))
    (tmp_path / "list.txt").write_text(text)
    with pytest.raises(UserError) as caught:
        read_list(tmp_path / "list.txt", tmp_path, CLASSES)
    assert message in str(caught.value)
    assert "list.txt" in str(caught.value)


def test_empty_folders_are_named(tmp_path):
    with pytest.raises(UserError, match="no images"):
        scan_folder(tmp_path)
    with pytest.raises(UserError, match="no such folder"):
        scan_folder(tmp_path / "nowhere")
    draw_class(tmp_path, "ink", count=1)
    (tmp_path / "disc/00.png").unlink()
    with pytest.raises(UserError, match="class 'disc' has no image"):
        scan_classes(tmp_path, CLASSES)


def test_the_split_is_drawn_by_its_seed(tmp_path):
    images = ImageList(tmp_path, tuple(str(i) for i in range(50)), tuple([0] * 50))
    train, held = split(images, 0.1, seed=1)
    assert len(held) == 5
    assert sorted([*train, *held]) == list(range(50))
    assert (split(images, 0.1, seed=1)[1] == held).all()
    assert set(split(images, 0.1, seed=2)[1]) != set(held)
