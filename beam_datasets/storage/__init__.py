"""The only package that accesses a file system: local paths by `os`, object stores by obstore, other schemes by fsspec.

A path is a `str`; every function here takes any `os.PathLike` too, expands `~`, and makes a relative path absolute.
`s3://`, `gs://`, `az://`, `abfs://`, `https://`, `http://` and `memory://` (of this process, for tests) go to
obstore; it takes its options from the environment, for instance AWS_ENDPOINT, AWS_ACCESS_KEY_ID, AWS_SKIP_SIGNATURE,
GOOGLE_APPLICATION_CREDENTIALS, AZURE_STORAGE_ACCOUNT_NAME; or of one URL by `with_options`.

Errors are `errors.StorageError`, and FileNotFoundError, FileExistsError or PermissionError where that is what happened;
they begin with the path.
"""

from beam_datasets.storage.backend import Reader as Reader
from beam_datasets.storage.backend import Requests as Requests
from beam_datasets.storage.backend import Usage as Usage
from beam_datasets.storage.backend import Writer as Writer
from beam_datasets.storage.backend import sum_requests as sum_requests
from beam_datasets.storage.backend import take_requests as take_requests
from beam_datasets.storage.files import check_can_create as check_can_create
from beam_datasets.storage.files import check_writable as check_writable
from beam_datasets.storage.files import copy as copy
from beam_datasets.storage.files import create_bytes as create_bytes
from beam_datasets.storage.files import create_copy as create_copy
from beam_datasets.storage.files import exists as exists
from beam_datasets.storage.files import file_sizes as file_sizes
from beam_datasets.storage.files import glob as glob
from beam_datasets.storage.files import has_wildcard as has_wildcard
from beam_datasets.storage.files import is_dir as is_dir
from beam_datasets.storage.files import is_link as is_link
from beam_datasets.storage.files import link as link
from beam_datasets.storage.files import list_dir as list_dir
from beam_datasets.storage.files import locked as locked
from beam_datasets.storage.files import make_dirs as make_dirs
from beam_datasets.storage.files import memory_map as memory_map
from beam_datasets.storage.files import move_files as move_files
from beam_datasets.storage.files import open_reader as open_reader
from beam_datasets.storage.files import open_writer as open_writer
from beam_datasets.storage.files import read_bytes as read_bytes
from beam_datasets.storage.files import remove as remove
from beam_datasets.storage.files import remove_empty_dir as remove_empty_dir
from beam_datasets.storage.files import remove_tree as remove_tree
from beam_datasets.storage.files import rename_dir as rename_dir
from beam_datasets.storage.files import size as size
from beam_datasets.storage.files import usage as usage
from beam_datasets.storage.files import write_bytes as write_bytes
from beam_datasets.storage.files import write_files as write_files
from beam_datasets.storage.paths import TEMPORARY_PREFIX as TEMPORARY_PREFIX
from beam_datasets.storage.paths import basename as basename
from beam_datasets.storage.paths import dirname as dirname
from beam_datasets.storage.paths import has_options as has_options
from beam_datasets.storage.paths import is_remote as is_remote
from beam_datasets.storage.paths import is_temporary as is_temporary
from beam_datasets.storage.paths import join as join
from beam_datasets.storage.paths import normalize as normalize
from beam_datasets.storage.paths import url as url
from beam_datasets.storage.paths import with_options as with_options
from beam_datasets.storage.paths import with_options_if_remote as with_options_if_remote
