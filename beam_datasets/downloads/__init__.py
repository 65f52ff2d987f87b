"""Downloads and archives for the builders of datasets, checked against recorded checksums."""

from beam_datasets.downloads.archives import ExtractMethod as ExtractMethod
from beam_datasets.downloads.archives import extract as extract
from beam_datasets.downloads.archives import iter_archive as iter_archive
from beam_datasets.downloads.checksums import CHECKSUMS_FILE as CHECKSUMS_FILE
from beam_datasets.downloads.checksums import Checksum as Checksum
from beam_datasets.downloads.checksums import read_checksums as read_checksums
from beam_datasets.downloads.checksums import write_checksums as write_checksums
from beam_datasets.downloads.errors import DownloadError as DownloadError
from beam_datasets.downloads.manager import MAX_AT_ONCE as MAX_AT_ONCE
from beam_datasets.downloads.manager import DownloadManager as DownloadManager
from beam_datasets.downloads.manager import DownloadSettings as DownloadSettings
from beam_datasets.downloads.manager import Resource as Resource
