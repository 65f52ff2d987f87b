"""Readers of files that others wrote: compressed streams, Parquet, TFRecords, images and sounds.

Builders of files, `adopt`, downloads and the features of images and sound open foreign content by this package alone.
It keeps four rules:

1. All of it: a decompressor reaches the end of its stream; rows, records, samples and bytes read equal those declared.
2. At full depth: bits, channels, frames and unknown fields are kept, or the content is refused.
3. Checked by the decoder that will read it later.
4. Every exception of a library becomes an `InputError` that names file, place and advice (`errors.foreign_errors`).

A library that would end the process (an abort, a panic) is asked first whether it can read the content.
"""
