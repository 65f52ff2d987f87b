"""Formats that this package writes: TFRecord files, their indexes, tf.train.Examples, and protobuf messages as JSON."""
