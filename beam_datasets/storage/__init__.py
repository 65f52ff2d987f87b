"""The only package that accesses a file system: local paths by `os`, object stores by obstore, other schemes by fsspec.

A path is a `str`; every function here takes any `os.PathLike` too, expands `~`, and makes a relative path absolute.
`s3://`, `gs://`, `az://`, `abfs://`, `https://`, `http://` and `memory://` (of this process, for tests) go to
obstore; it takes its options from the environment, for instance AWS_ENDPOINT, AWS_ACCESS_KEY_ID, AWS_SKIP_SIGNATURE,
GOOGLE_APPLICATION_CREDENTIALS, AZURE_STORAGE_ACCOUNT_NAME; or of one URL by `with_options`.

Errors are `errors.StorageError`, and FileNotFoundError, FileExistsError or PermissionError where that is what happened;
they begin with the path.
"""

from beam_datasets.storage.backend import Reader, Usage, Writer
from beam_datasets.storage.files import (
    check_can_create,
    check_writable,
    copy,
    create_bytes,
    create_copy,
    exists,
    file_sizes,
    is_dir,
    is_link,
    link,
    list_dir,
    make_dirs,
    memory_map,
    open_reader,
    open_writer,
    read_bytes,
    read_range,
    read_ranges,
    remove,
    remove_empty_dir,
    remove_tree,
    rename_dir,
    size,
    usage,
    write_bytes,
    write_files,
)
from beam_datasets.storage.options import has_options, url
from beam_datasets.storage.paths import (
    TEMPORARY_PREFIX,
    basename,
    dirname,
    is_remote,
    is_temporary,
    join,
    normalize,
    with_options,
    with_options_if_remote,
)
from beam_datasets.storage.patterns import glob, has_wildcard

__all__ = [
    "TEMPORARY_PREFIX",
    "Reader",
    "Usage",
    "Writer",
    "basename",
    "check_can_create",
    "check_writable",
    "copy",
    "create_bytes",
    "create_copy",
    "dirname",
    "exists",
    "file_sizes",
    "glob",
    "has_options",
    "has_wildcard",
    "is_dir",
    "is_link",
    "is_remote",
    "is_temporary",
    "join",
    "link",
    "list_dir",
    "make_dirs",
    "memory_map",
    "normalize",
    "open_reader",
    "open_writer",
    "read_bytes",
    "read_range",
    "read_ranges",
    "remove",
    "remove_empty_dir",
    "remove_tree",
    "rename_dir",
    "size",
    "url",
    "usage",
    "with_options",
    "with_options_if_remote",
    "write_bytes",
    "write_files",
]
