"""Frames: encoded and decoded, turned into tokens, and read by the model where they belong."""

import io
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from tests.frame_task import SIDE, FrameTask
from textrl.bisimulation.pairs import Pairs
from textrl.data.frames import Frames, decode_frames, encode_frame, moved
from textrl.errors import UserError
from textrl.losses.outputs import TextRLOutput
from textrl.model.network import TextRLModel
from textrl.model.patches import PatchEncoder, Patches

MakeModel = Callable[..., TextRLModel]
SHAPE = (6, 5)


def random_pixels(*shape: int, seed: int = 0) -> NDArray[np.uint8]:
    return np.random.default_rng(seed).integers(256, size=shape, dtype=np.uint8)


def png(pixels: NDArray[np.uint8]) -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


def images(*files: bytes) -> pa.BinaryArray:
    return pa.array(files, pa.binary())


def test_a_frame_is_an_image_that_others_open() -> None:
    pixels = random_pixels(*SHAPE)
    with Image.open(io.BytesIO(encode_frame(pixels))) as image:
        assert (image.format, image.mode, image.size) == ("PPM", "L", (5, 6))
        np.testing.assert_array_equal(np.asarray(image), pixels)
    # Rows of memory that are not neighbours, as a crop leaves them.
    assert encode_frame(random_pixels(9, 9)[2:8, 3:8]) == encode_frame(
        random_pixels(9, 9)[2:8, 3:8].copy()
    )


def test_moved_frames_by_hand() -> None:
    frames = np.array([[[1, 2, 3], [4, 5, 6]], [[7, 8, 9], [0, 0, 0]]], dtype=np.uint8)
    assert moved(frames, 0, 1).tolist() == [[[1, 1, 2], [4, 4, 5]], [[7, 7, 8], [0, 0, 0]]]
    assert moved(frames, -1, -2)[0].tolist() == [[6, 6, 6], [6, 6, 6]]
    assert moved(frames, 1, 0)[0].tolist() == [[1, 2, 3], [1, 2, 3]]
    assert moved(frames, 0, 0) is frames


@pytest.mark.parametrize("encode", [encode_frame, png])
def test_frames_come_back_as_they_were(encode: Callable[[NDArray[np.uint8]], bytes]) -> None:
    pixels = random_pixels(7, *SHAPE)
    files = images(*map(encode, pixels))
    np.testing.assert_array_equal(decode_frames(files, SHAPE), pixels)
    for start, count in ((0, 3), (2, 4), (6, 1)):
        part = decode_frames(files.slice(start, count), SHAPE)
        np.testing.assert_array_equal(part, pixels[start : start + count])
    twice = decode_frames(files.slice(1, 5).slice(2, 2), SHAPE)
    np.testing.assert_array_equal(twice, pixels[3:5])
    none = decode_frames(files.slice(3, 0), SHAPE)
    assert (none.shape, none.dtype) == ((0, *SHAPE), np.uint8)


def test_frames_of_several_formats_and_colours() -> None:
    pixels = random_pixels(3, *SHAPE)
    coloured = np.repeat(pixels[2][..., None], 3, axis=2)
    files = images(encode_frame(pixels[0]), png(pixels[1]), png(coloured))
    np.testing.assert_array_equal(decode_frames(files, SHAPE), pixels)


def test_decoded_frames_are_copies() -> None:
    # A view would keep the whole file's map.
    files = images(*map(encode_frame, random_pixels(2, *SHAPE)))
    content = np.frombuffer(files.buffers()[2], dtype=np.uint8)
    decoded = decode_frames(files, SHAPE)
    assert not np.shares_memory(decoded, content)
    assert decoded.flags.writeable


@pytest.mark.parametrize("encode", [encode_frame, png])
@pytest.mark.parametrize("other", [(5, 6), (6, 4), (7, 5)])  # (5, 6) takes just as many bytes
def test_frames_of_another_shape_are_refused(
    encode: Callable[[NDArray[np.uint8]], bytes], other: tuple[int, int]
) -> None:
    files = images(encode_frame(random_pixels(*SHAPE)), encode(random_pixels(*other)))
    with pytest.raises(UserError, match=rf"shape \({other[0]}, {other[1]}\), not \(6, 5\)"):
        decode_frames(files, SHAPE)


@pytest.mark.parametrize("file", [b"", b"a letter", b"P5\n5 ", png(random_pixels(6, 5))[:-30]])
def test_a_file_that_is_no_image_is_refused(file: bytes) -> None:
    with pytest.raises(UserError, match="not an image"):
        decode_frames(images(file), SHAPE)


def test_patches_in_columns_by_hand() -> None:
    early, late = torch.zeros(2, 4, 6), torch.ones(2, 4, 6)
    patches = Patches.of_columns([(1, early), (7, late)])
    found = {
        (int(episode), int(position)): float(embedded.mean())
        for embedded, episode, position in zip(
            patches.embedded, patches.episode, patches.position, strict=True
        )
    }
    assert found == {(0, 1): 0.0, (1, 1): 0.0, (0, 7): 1.0, (1, 7): 1.0}


def test_frames_move_to_another_device() -> None:
    frames = Frames(torch.zeros(2, *SHAPE), torch.zeros(2), torch.zeros(2))
    moved = frames.to(torch.device("meta"))
    assert {each.device.type for each in vars(moved).values()} == {"meta"}


@pytest.mark.parametrize("patches", [1, 4, 9, 16, 49])
def test_a_frame_becomes_its_patches(patches: int) -> None:
    encoder = PatchEncoder((80, 80), patches, width=12)
    embedded = encoder(torch.from_numpy(random_pixels(3, 80, 80)))
    assert embedded.shape == (3, patches, 12)
    assert embedded.dtype == torch.float32


@pytest.mark.parametrize(("patches", "side"), [(1, 7), (4, 4), (9, 3), (16, 2), (49, 1)])
def test_the_papers_map_of_80_x_80_pixels_is_7_x_7(patches: int, side: int) -> None:
    encoder = PatchEncoder((80, 80), patches, width=12)
    seen = torch.zeros(1, 1, 80, 80)
    for convolution in encoder.convolutions:
        seen = convolution(seen)
    assert seen.shape == (1, 32, 7, 7)
    assert encoder.project.in_features == 32 * side * side


@pytest.mark.parametrize("patches", [2, 3, 8, 50, 64])
def test_other_numbers_of_patches_are_refused(patches: int) -> None:
    with pytest.raises(UserError, match=f"square number up to 49, not {patches}"):
        PatchEncoder((80, 80), patches, width=12)


def test_small_frames_have_few_patches_or_none() -> None:
    PatchEncoder((40, 200), 4, width=12)
    with pytest.raises(UserError, match="square number up to 4, not 9"):
        PatchEncoder((40, 200), 9, width=12)
    PatchEncoder((32, 32), 1, width=12)
    for shape in ((31, 32), (8, 8)):
        with pytest.raises(UserError, match="too small"):
            PatchEncoder(shape, 1, width=12)


def slow_patches(encoder: PatchEncoder, pixels: NDArray[np.uint8], across: int) -> Tensor:
    """What one frame becomes, patch by patch."""
    seen = (torch.from_numpy(pixels).double() / 64 - 1)[None, None]
    for convolution, stride in zip(encoder.convolutions, (4, 2, 1), strict=True):
        seen = torch.nn.functional.conv2d(seen, convolution.weight, convolution.bias, stride)
        seen = seen.clamp_min(0)
    filters, height, width = seen.shape[1:]
    high, wide = -(-height // across), -(-width // across)
    tokens = []
    for row in range(across):
        for column in range(across):
            patch = torch.zeros(filters, high, wide, dtype=torch.float64)
            part = seen[0, :, row * high : (row + 1) * high, column * wide : (column + 1) * wide]
            patch[:, : part.shape[1], : part.shape[2]] = part
            place = encoder.place.weight[row * across + column]
            tokens.append(encoder.project.weight @ patch.flatten() + encoder.project.bias + place)
    return torch.stack(tokens)


@pytest.mark.parametrize("across", [1, 2, 3, 4, 7])
@pytest.mark.parametrize("shape", [(80, 80), (83, 94)])
def test_patches_against_a_loop(shape: tuple[int, int], across: int) -> None:
    torch.manual_seed(0)
    encoder = PatchEncoder(shape, across**2, width=6).double()
    pixels = random_pixels(2, *shape)
    with torch.no_grad():
        expected = torch.stack([slow_patches(encoder, each, across) for each in pixels])
        torch.testing.assert_close(
            encoder(torch.from_numpy(pixels)), expected, rtol=1e-10, atol=1e-10
        )


@pytest.mark.parametrize(("row", "column"), [(0, 0), (3, 5), (6, 6)])
def test_a_patch_sees_its_own_part_of_the_frame(row: int, column: int) -> None:
    # One cell of the map looks at 3 of the second map's rows, these at 7 of the first's, these at
    # 6 * 4 + 8 = 32 pixels; the next cell's begin 8 pixels further on.
    torch.manual_seed(1)
    encoder = PatchEncoder((80, 80), 49, width=12).double()
    pixels = torch.from_numpy(random_pixels(1, 80, 80)).double().requires_grad_()
    encoder(pixels)[0, 7 * row + column].square().sum().backward()
    seen = pixels.grad[0] != 0
    rows, columns = (seen.any(dim=1 - axis).nonzero()[:, 0].tolist() for axis in (0, 1))
    assert rows == list(range(8 * row, 8 * row + 32))
    assert columns == list(range(8 * column, 8 * column + 32))


def test_the_encoders_gradient_is_right() -> None:
    torch.manual_seed(2)
    encoder = PatchEncoder((40, 40), 4, width=3).double()
    pixels = torch.from_numpy(random_pixels(2, 40, 40))
    names, weights = zip(*encoder.named_parameters(), strict=True)

    def embed(*weights: Tensor) -> Tensor:
        named = dict(zip(names, weights, strict=True))
        return torch.func.functional_call(encoder, named, (pixels,))

    assert torch.autograd.gradcheck(embed, weights, fast_mode=True)


@pytest.fixture(params=["gpt2", "rnn"])
def model(
    request: pytest.FixtureRequest, corridor: FrameTask, make_model: MakeModel
) -> TextRLModel:
    """It turns each frame into four tokens."""
    return make_model(
        corridor.language, backbone=request.param, frame_shape=(SIDE, SIDE), patches=4
    )


# Ids: <begin> 1, quiet 2, <frame> 4, left 5, right 6. Frames begin at 1 and 7; at 2; nowhere.
TOKENS = torch.tensor(
    [[1, 4, 4, 4, 4, 5, 2, 4, 4, 4, 4, 6], [1, 2, 4, 4, 4, 4, 6, 2, 5, 0, 0, 0], [1] + [2] * 11]
)
PLACES = ((0, 7), (1, 2), (0, 1))  # in any order


def frames_at_places(seed: int = 0) -> Frames:
    episode, position = torch.tensor(PLACES).T
    return Frames(torch.from_numpy(random_pixels(3, SIDE, SIDE, seed=seed)), episode, position)


def at_every_token(
    model: TextRLModel, frames: Frames | None, pairs: Pairs | None = None
) -> TextRLOutput:
    positions = torch.arange(TOKENS.shape[1]).expand(TOKENS.shape)
    with torch.no_grad():
        return model(TOKENS, positions, frames=frames, pairs=pairs)


def test_patches_are_read_at_their_frames_places(model: TextRLModel) -> None:
    frames = frames_at_places()
    with torch.no_grad():
        embedded = model.backbone.get_input_embeddings()(TOKENS)
        for (episode, position), pixels in zip(PLACES, frames.pixels, strict=True):
            for number, patch in enumerate(model.frames(pixels[None])[0]):
                embedded[episode, position + number] += patch
        hidden = model.backbone(inputs_embeds=embedded).last_hidden_state
        expected = model.representation(hidden)
    output = at_every_token(model, frames)
    torch.testing.assert_close(output.representation, expected, rtol=0, atol=2e-5)


def test_a_frame_matters_to_what_follows_it_alone(model: TextRLModel) -> None:
    frames = frames_at_places()
    frames.pixels[1] = frames.pixels[1].flip(0)  # the one of episode 1, from position 2 on
    before, after = at_every_token(model, frames_at_places()), at_every_token(model, frames)
    differs = (before.representation - after.representation).abs().amax(dim=-1) > 1e-5
    assert differs.nonzero().tolist() == [[1, time] for time in range(2, 12)]


def test_reading_frames_step_by_step_is_reading_at_once(model: TextRLModel) -> None:
    frames, cache = frames_at_places(), model.new_cache()
    full = at_every_token(model, frames).representation[:1]
    first = Frames(frames.pixels[2:], torch.tensor([0]), torch.tensor([1]))
    second = Frames(frames.pixels[:1], torch.tensor([0]), torch.tensor([2]))  # 7 less the 5 read
    with torch.no_grad():
        for start, end, shown in ((0, 5, first), (5, 11, second), (11, 12, None)):
            output = model(TOKENS[:1, start:end], past_key_values=cache, frames=shown)
            torch.testing.assert_close(
                output.representation, full[:, end - 1 : end], rtol=0, atol=2e-5
            )


def test_a_saved_model_sees_the_same_bit_for_bit(model: TextRLModel, tmp_path: Path) -> None:
    model.save_pretrained(tmp_path)
    torch.manual_seed(99)
    loaded = TextRLModel.from_pretrained(tmp_path)
    assert (loaded.config.frame_shape, loaded.config.patches) == ((SIDE, SIDE), 4)
    before, after = model.state_dict(), loaded.state_dict()
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)
    frozen = {name for name, each in loaded.named_parameters() if not each.requires_grad}
    assert {f"target_frames.{name}" for name, _ in model.frames.named_parameters()} <= frozen
    ours, theirs = (at_every_token(each, frames_at_places()) for each in (model, loaded))
    for name in ("policy", "target_q", "v"):  # weights elsewhere in memory: the last bit may differ
        torch.testing.assert_close(ours[name], theirs[name], rtol=0, atol=1e-5)


def test_a_new_encoder_starts_as_pytorchs_layers_do(model: TextRLModel) -> None:
    for layer in (*model.frames.convolutions, model.frames.project):
        bound = layer.weight[0].numel() ** -0.5
        for weights in (layer.weight, layer.bias):
            assert 0.8 * bound < weights.abs().max() <= bound


def test_the_slow_copy_of_the_encoder_follows(model: TextRLModel) -> None:
    online, slow = model.frames.project.weight, model.target_frames.project.weight
    expected = 0.75 * slow + 0.25 * online
    assert not torch.equal(slow, online)
    model.update_targets(0.25)
    torch.testing.assert_close(slow, expected)
    model.update_targets(1.0)
    for one, other in zip(model.frames.parameters(), model.target_frames.parameters(), strict=True):
        assert torch.equal(one, other)


def test_the_slow_encoder_sees_with_its_own_copy(model: TextRLModel) -> None:
    episode, state = torch.ones_like(TOKENS).nonzero(as_tuple=True)
    partner, legal = torch.arange(len(state)).roll(1), torch.ones(len(state), 2, dtype=torch.bool)
    nothing = torch.zeros_like(state)
    pairs = Pairs(episode, state, partner, legal, nothing, torch.zeros(len(state)))
    model.update_targets(1.0)
    output = at_every_token(model, frames_at_places(), pairs)
    torch.testing.assert_close(output.target_representation, output.representation)
    with torch.no_grad():
        model.frames.project.weight.mul_(2)
    moved = at_every_token(model, frames_at_places(), pairs)
    assert torch.equal(moved.target_representation, output.target_representation)
    assert (moved.representation - output.representation).abs().max() > 1e-3


def test_the_encoder_learns_and_its_slow_copy_does_not(model: TextRLModel) -> None:
    output = model(TOKENS, frames=frames_at_places())
    (output.policy.square().sum() + output.q.sum() + output.v.sum()).backward()
    for name, weights in model.frames.named_parameters():
        assert weights.grad is not None and weights.grad.abs().max() > 0, name
    assert all(weights.grad is None for weights in model.target_frames.parameters())
