"""Videos of ffmpeg: all frames, or an error; and what containers say about them."""

import random
import re
import shutil
import struct
import subprocess

import pytest

from beam_datasets import limits
from beam_datasets.errors import InputError
from beam_datasets.intake import video
from beam_datasets.intake.video import read_frames
from beam_datasets.intake.video_layout import check_structure, num_video_samples
from tests.facts import raises_with

SOUND = ["-f", "lavfi", "-i", "sine=duration=2"]
PICTURES = ["-f", "lavfi", "-i", "testsrc=duration=2:size=64x48:rate=10"]


@pytest.fixture
def make(tmp_path, monkeypatch):
    """Returns a function that makes a video by ffmpeg, which is in PATH."""
    program = shutil.which("ffmpeg") or pytest.importorskip("imageio_ffmpeg").get_ffmpeg_exe()
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "ffmpeg").symlink_to(program)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=":")

    def made(name, *options):
        path = tmp_path / name
        command = ["ffmpeg", "-nostdin", "-v", "error", "-y", *PICTURES, *options, str(path)]
        subprocess.run(command, check=True)
        return path.read_bytes()

    return made


def movie_chunks(avi):
    """Yields (name, start, end) of the chunks with the frames and the sound of an AVI."""
    position = avi.find(b"movi") + 4
    while avi[position : position + 2] in (b"00", b"01"):
        size = int.from_bytes(avi[position + 4 : position + 8], "little")
        yield avi[position : position + 4], position + 8, position + 8 + size
        position += 8 + size + size % 2


def test_messages_about_a_damaged_sound_do_not_refuse_a_video(make, monkeypatch):
    data = bytearray(make("a.avi", *SOUND, "-c:v", "mpeg4", "-c:a", "mp2"))
    for number, (name, start, end) in enumerate(movie_chunks(data)):
        if name == b"01wb":
            data[start:end] = random.Random(number).randbytes(end - start)
    assert len(read_frames(bytes(data), "png")) == 20
    monkeypatch.setattr(video, "num_video_samples", lambda _: 21)
    with raises_with(InputError, expected="a whole video", got=re.compile("Header missing")):
        read_frames(bytes(data), "png")


def test_a_frame_that_is_missing_in_a_transport_stream(make):
    """ffmpeg prints nothing, but its status tells if it is asked."""
    data = make("a.ts", "-c:v", "mpeg2video", "-b:v", "2M")
    packets = [data[start : start + 188] for start in range(0, len(data), 188)]
    starts = [number for number, packet in enumerate(packets) if packet[1:3] == b"\x41\x00"]  # of frames
    with raises_with(InputError, expected="a whole video", got=re.compile("corrupt input packet")):
        read_frames(b"".join(packets[: starts[9]] + packets[starts[10] :]), "png")


@pytest.mark.parametrize("name", ["piped.avi", "a.mpg", "sound.mpg", "sound.ts"])
def test_cut_anywhere(make, name):
    options = ["-r", "25", "-c:v", "mpeg2video"] if name.endswith("mpg") else ["-b:v", "2M"]
    options += ["-f", "avi", "-flush_packets", "1", "-seekable", "0"] if name == "piped.avi" else []
    options = [*SOUND, *options] if name.startswith("sound") else options
    data = make(name, *options)
    if name == "piped.avi":
        data = data[:4] + b"\xff" * 4 + data[8:]
        data = data[: data.rfind(b"idx1")]
    check_structure(data)
    draw = random.Random(name)
    num_refused = 0
    for _ in range(100):
        size = draw.randrange(len(data) // 5, len(data))
        try:
            check_structure(data[: size - size % 188 if name.endswith("ts") else size])
        except InputError:
            num_refused += 1
    assert num_refused > (50 if name.endswith("ts") else 90)  # others are cut between two frames


@pytest.mark.parametrize("name", ["a.mp4", "a.mov", "a.avi", "a.mkv", "a.webm"])
def test_numbers_of_samples(make, name):
    data = make(name, *(["-c:v", "libvpx"] if name == "a.webm" else []))
    assert num_video_samples(data) == len(read_frames(data, "png")) == 20
    draw = random.Random(name)
    for _ in range(300):
        damaged = bytearray(data[: draw.randrange(len(data))])
        for position in draw.sample(range(len(damaged)), min(3, len(damaged))):
            damaged[position] = draw.randrange(256)
        num_video_samples(bytes(damaged))  # of any bytes without another error than None


def test_files_without_a_number_of_samples():
    empty = struct.pack(">I4s", 8, b"ftyp")
    cut = empty + struct.pack(">I4s", 1, b"moov")
    for data in (b"", b"text", empty, cut, b"\x1a\x45\xdf\xa3", b"RIFF\0\0\0\0AVI "):
        assert num_video_samples(data) is None


def test_more_pixels_than_the_limit(make, monkeypatch):
    data = make("a.mp4")
    monkeypatch.setattr(video, "MAX_VIDEO_PIXELS", 64 * 48 * 19)
    with pytest.raises(InputError, match=r"20 frames or more of 48 x 64 pixels, .*BEAM_DATASETS_MAX_ELEMENTS=262144"):
        read_frames(data, "png")
    monkeypatch.setenv(limits.VARIABLE, "262144")
    assert len(read_frames(data, "png")) == 20


def test_the_option_that_keeps_all_frames_is_one_of_this_ffmpeg(make):
    dense = "setpts='if(lt(N,10),N/10,1+N/1000)/TB'"
    data = make("a.mkv", "-vf", f"settb=1/1000,{dense}", "-enc_time_base", "1/1000", "-fps_mode", "passthrough")
    with pytest.raises(InputError, match="expected all frames, got") as error:
        read_frames(data, "png")
    [option] = re.findall(r"ffmpeg_extra_args=\['(\S+)', 'passthrough'\]", str(error.value))
    assert len(read_frames(data, "png", [option, "passthrough"])) == 20
