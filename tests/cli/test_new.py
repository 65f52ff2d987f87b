"""`beam-datasets new` in directories that cannot be created; see tests/files/test_advice_of_formats.py for the rest."""

from pathlib import Path

import pytest

from beam_datasets.cli import main


def _refused(to: Path | str, capsys: pytest.CaptureFixture[str]) -> str:
    """Returns the error of `new` with this --to."""
    assert main(["new", "birds", "--to", str(to)]) == 2
    return capsys.readouterr().err


@pytest.mark.parametrize("url", ["s3://x", "s3:/x", "s3:x", "gs//x", "S3:/x/y", "memory:/x", "https:/x.org/y"])
def test_urls(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """No other URL is proposed, which would be refused, too."""
    monkeypatch.chdir(tmp_path)
    assert f"--to: expected a directory of this machine, got the URL {url}\n" in _refused(url, capsys)
    assert not [*tmp_path.iterdir()]


def test_a_file_in_the_place_of_the_directory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    for to in tmp_path / "file", tmp_path / "file" / "below":
        assert f"{to}/birds cannot be created: " in _refused(to, capsys)
    assert (tmp_path / "file").read_text() == ""
