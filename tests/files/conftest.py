"""A folder of files, and the command that makes datasets of them."""

import pytest

from beam_datasets.cli import main
from beam_datasets.reading.opening import builder_from_directory


class Files:
    """Files in `folder`; `build` makes a dataset of all of them unless an argument names some."""

    def __init__(self, root, capsys):
        self.folder = root / "in"
        self._root, self._capsys, self._built = root, capsys, 0

    def write(self, name, content=b""):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    def _run(self, kind, args):
        self.said()
        self._built += 1
        texts = list(map(str, args))
        if not any(text.startswith(("--pattern=", "--split=")) and "/" in text for text in texts):
            texts.append(f"--{'root' if kind.endswith('_folder') else 'pattern'}={self.folder}")
        data_dir = self._root / f"out{self._built}"
        code = main(["build", kind, "--name", "made", "--data_dir", str(data_dir), "--num_workers", "1", *texts])
        return code, data_dir / "made" / "1.0.0"

    def build(self, kind, *args):
        """Builds a dataset and returns its directory."""
        code, directory = self._run(kind, args)
        assert code == 0
        return directory

    def read(self, kind, *args):
        """Builds a dataset and returns the examples of its split train."""
        return rows_of(self.build(kind, *args))

    def fails(self, kind, *args):
        """Returns the error of a build that publishes nothing."""
        code, directory = self._run(kind, args)
        assert code == 1
        assert not directory.exists()
        problem = self._capsys.readouterr().err
        assert "Traceback" not in problem
        return problem

    def said(self):
        """Returns what was printed since it was last asked for."""
        return self._capsys.readouterr().out


def rows_of(directory, split="train"):
    return list(builder_from_directory(directory).as_dataset(split=split))


@pytest.fixture
def files(tmp_path, capsys):
    return Files(tmp_path, capsys)


@pytest.fixture
def read(tmp_path):
    """Writes columns into Parquet files, and reads them; see `parquet_reads.reader`."""
    from tests.files.parquet_reads import reader

    return reader(tmp_path)
