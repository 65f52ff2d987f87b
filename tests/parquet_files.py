"""Parquet files for tests, written by pyarrow."""

import io

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow.parquet import encryption


def written(columns, **options):
    stream = io.BytesIO()
    pq.write_table(columns if isinstance(columns, pa.Table) else pa.table(columns), stream, **options)
    return stream.getvalue()


class Kms(encryption.KmsClient):
    """Keys that are not encrypted themselves."""

    def __init__(self, _):
        super().__init__()

    def wrap_key(self, key_bytes, master_key_identifier):
        return key_bytes.hex()

    def unwrap_key(self, wrapped_key, master_key_identifier):
        return bytes.fromhex(wrapped_key)


def encrypted(table, **options):
    config = encryption.EncryptionConfiguration(footer_key="f", **options)
    properties = encryption.CryptoFactory(Kms).file_encryption_properties(encryption.KmsConnectionConfig(), config)
    return written(table, encryption_properties=properties)
