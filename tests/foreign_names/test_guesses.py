"""Guesses of people who know other libraries: each works, or its error says what to write, with their arguments."""

from __future__ import annotations

import copy
import importlib
import importlib.util
import pickle
import re
import warnings
from pathlib import Path
from typing import Any

import pytest

import beam_datasets as bd
from beam_datasets import advice
from tests.reading.conftest import write_dataset

WORKS = [
    "iterator.state_dict()['position'] == 0",
    "iterator.load_state_dict(iterator.state_dict()) is None",
    "iter(stream).state_dict() == iter(stream).get_state()",
    "[bd.Split.TRAIN, bd.Split.TEST, bd.Split.VALIDATION, bd.Split.ALL] == ['train', 'test', 'validation', 'all']",
    "len(bd.load('d', data_dir=data_dir, split=bd.Split.TRAIN, version='1.0.0')) == 12",
    "len(bd.load('d', data_dir=data_dir, split='train', config=None, version='1.*.*')) == 12",
    "'d' in bd.list_builders(data_dir)",
    "repr(bd.show_examples(ds, rows=2)).count('\\n') == 1",
    "repr(bd.show_examples(stream.take(1))).startswith('0: ')",
    "repr(bd.show_examples(info, ds)) == repr(bd.show_examples(ds, info))",
    "bool(builder)",
]


@pytest.mark.parametrize("guess", WORKS)
def test_what_is_natural_works(names: dict[str, Any], guess: str) -> None:
    assert eval(guess, names)


# A guess, what its error says to write, and a value of that where it can be evaluated.
GUESSES = [
    # Polars and SeqIO
    ("bd.col('id') > 3", "ds.filter(lambda e: e['id'] > 3)", ...),
    ("bd.DataFrame(ds)", "ds.to_pandas()", ...),
    ("bd.ShardInfo(0, 2)", "ds.shard(0, 2)", ...),
    # TensorFlow Datasets
    ("bd.core", "import beam_datasets.tfds as tfds", ...),
    ("bd.data_source('d')", "bd.load('d', split='train')", ...),
    ("bd.load('d', download=True)", "tfds.load('d', ...)", ...),
    ("bd.load('d', try_gcs=True)", "tfds.load('d', ...)", ...),
    ("bd.load('d', 'train')", "bd.load('d', split='train', data_dir=directory)", ...),
    ("builder.download_and_prepare()", "beam-datasets build MODULE_OR_FILE", ...),
    # Hugging Face datasets
    ("ds.num_rows", "len(ds)", 12),
    ("ds.column_names", "list(ds.features)", ["id", "key", "text"]),
    ("ds.select_columns(['id'])", "bd.load(..., decoders=bd.decode.PartialDecoding(['id']))", ...),
    ("ds.remove_columns(['id'])", "without ['id']", ...),
    ("ds.rename_column('id', 'n')", "ds.map(lambda e: {'n' if name == 'id' else name: e[name] for name in e})", ...),
    ("ds.rename_columns({'id': 'n'})", "({'id': 'n'}).get(name, name)", ...),
    ("ds.cast_column('id', float)", "{**e, 'id': convert(e['id'])}", ...),
    ("ds.unique('id')", "{e['id'] for e in ds}", set(range(12))),
    ("ds.select([3, 1])", "ds[[3, 1]]", ...),
    ("ds.select(range(2))", "ds[range(2)]", ...),
    ("ds.train_test_split(test_size=0.3)", "bd.load(..., split=['train[30%:]', 'train[:30%]'])", ...),
    ("ds.train_test_split(test_size=100)", "bd.load(..., split=['train[20%:]', 'train[:20%]'])", ...),
    ("ds.sort('id')", "sorted(ds, key=", ...),
    ("ds.shard(num_shards=4, index=1)", "ds.shard(1, 4)", ...),
    ("ds.shard(8, index=3)", "ds.shard(3, 8)", ...),
    ("ds.map(f, num_proc=4).map(f, num_proc=8)", "ds.map(f).parallel(processes=4)", ...),
    ("bd.read_csv(directory)", "--pattern '*.csv'", ...),
    ("bd.read_csv('my files/*.csv')", "--pattern 'my files/*.csv'", ...),
    ("ds.shard(num_shards=4, index=1, contiguous=True)", "ds.shard(1, 4)", ...),
    ("ds.map(f, batched=True)", "ds.batch(32).map(f)", ...),
    ("ds.map(f, batched=True, batch_size=64)", "ds.batch(64).map(f)", ...),
    ("ds.map(f, num_proc=4)", "ds.map(f).parallel(processes=4)", ...),
    ("ds.map(f, remove_columns=['id'])", "a function that returns the features that are wanted", ...),
    ("ds.map(f, with_indices=True)", "enumerate(ds)", ...),
    ("ds.filter(f, num_proc=2)", "ds.parallel(processes=2).filter(f)", ...),
    ("ds.with_format('torch')", "ds.as_torch()", ...),
    ("ds.set_format('numpy')", "ds.as_jax()", ...),
    ("ds.set_epoch(3)", "ds.iterate(epoch=3)", ...),
    ("ds.iter(batch_size=5)", "ds.batch(5)", ...),
    ("stream.to_pandas()", "ds.to_arrow().filter(...)", ...),
    ("ds.to_dict()", "{name: [e[name] for e in ds] for name in ds.features}", ...),
    ("ds.to_parquet('out')", "bd.export(source, to='out', format='parquet')", ...),
    ("ds.save_to_disk('out')", "bd.materialize(", ...),
    ("ds.push_to_hub('me/it')", "bd.export(", ...),
    ("ds['id']", "[example['id'] for example in ds]", ...),
    ("ds.state_dict()", "iter(ds).state_dict()", ...),
    ("bd.Dataset.from_generator(f)", "bd.DatasetBuilder", ...),
    ("bd.Dataset.from_csv('x.csv')", "beam-datasets build csv --name NAME --pattern x.csv", ...),
    ("bd.load_dataset('d')", "bd.load('d', split='train')", ...),
    ("bd.load('d', streaming=True)", "bd.load('d', split='train')", ...),
    ("bd.load('d', num_proc=4, split='test')", "bd.load('d', split='test').parallel(processes=4)", ...),
    ("bd.load('json', data_files='x.jsonl')", "`beam-datasets build x.jsonl`, which names the command", ...),
    ("bd.load('d', revision='1.0.0')", "version='1.0.0'", ...),
    ("bd.load_from_disk('dir')", "bd.builder_from_directory('dir').as_dataset('train')", ...),
    ("bd.concatenate_datasets([ds, ds])", "stop='all'", ...),
    ("bd.interleave_datasets([ds, ds])", "bd.mix([ds, ds], weights=[0.7, 0.3], seed=0)", ...),
    ("bd.interleave_datasets([ds, ds], probabilities=[0.9, 0.1])", "bd.mix([ds, ds], weights=[0.9, 0.1], seed=0)", ...),
    # slices are lists, and datasets and features never change
    ("ds[:5]['id']", "[example['id'] for example in ds[:5]]", ...),
    ("ds[[1, 2]].batch(2)", "ds.take(5) and split='train[:5]' are datasets", ...),
    ("ds['50%:']", "bd.load(..., split='train[50%:]')", ...),
    ("ds['test[:5]']", "bd.load(..., split='test[:5]')", ...),
    ("ds['[:5]']", "bd.load(..., split='train[:5]')", ...),
    ("ds['a:b']", "[example['a:b'] for example in ds]", ...),
    ("ds[lambda e: e['id'] == 1]", "ds.filter(function)", ...),
    ("ds.__setitem__('size', [1])", "ds.map(lambda e: {**e, 'size': value})", ...),
    ("ds.find(lambda e: e['id'] == 3)", "ds.filter(function)", ...),
    ("bd.features.float32", "bd.features.Scalar('float32')", ...),
    ("bd.features.string", "bd.features.Text()", ...),
    ("ds.__delitem__('id')", "a Dataset never changes. Use `ds.map(", ...),
    ("bd.features.Scalar('int64', shape=(2,))", "bd.features.Tensor(shape=(2,), dtype='int64')", ...),
    ("bd.features.ClassLabel(names=['a'], optional=True)", "the label -1", ...),
    ("bd.features.Embedding(8)", "bd.features.Tensor(shape=(8,), dtype='float32')", ...),
    ("ds.window(4, shift=2)", "(ds[i : i + 4] for i in range(0, len(ds), 2))", ...),
    (
        "ds.filter(lambda e, i: i > 2, with_indices=True)",
        "(e for i, e in enumerate(ds) if (lambda e, i: i > 2)(e, i))",
        ...,
    ),
    ("ds.map(f, input_columns=['id'])", "ds.map(lambda e: (f)(*[e[name] for name in names]))", ...),
    ("ds.pack(16, feature='tokens')", "ds.pack(16, ['tokens'])", ...),
    ("ds.shard(shard_index=1, shard_count=4)", "ds.shard(1, 4)", ...),
    ("ds.shard(process_index=1, process_count=4)", "ds.shard(1, 4)", ...),
    ("ds.iterate(seed=3)", "ds.shuffle(seed=3)", ...),
    ("ds.features['text'].vocab_size", "a tokenizer in `ds.map(function)`", ...),
    ("bd.features.ClassLabel(names=['a']).id2label", "dict(enumerate(feature.names))", ...),
    ("bd.features.ClassLabel(names=['a']).str2int(['a'])", "[label.str2int(name) for name in names]", ...),
    ("bd.features.Sequence('int64').inner", "feature.feature", ...),
    ("bd.features.FeaturesDict(['id'])", "a dict from names to features, such as {'id': 'int64'}", ...),
    ("bd.DatasetNotFoundError", "bd.errors.DatasetNotFoundError", bd.errors.DatasetNotFoundError),
    ("bd.ReadDataset", "from beam_datasets.beam import ReadDataset", ...),
    ("bd.load('d', path='x')", "bd.load('d', split='train')", ...),
    ("bd.load('d', encoding='utf-8')", "bd.load('d', split='train', text='str')", ...),
    ("bd.mix([ds, ds], weights='equal')", "expected a number for each source, such as [0.7, 0.3]", ...),
    ("bd.show_examples(builder)", "Use `builder.as_dataset('train')`", ...),
    ("bd.show_examples(ds[0])", "Give a dataset, or a list of examples", ...),
    ("bd.verify(builder)", "bd.builder(name, data_dir=directory).dataset_dir", ...),
    # names that mean several things: the argument decides, or both are named
    ("ds.select(['id', 'text'])", "bd.load(..., decoders=bd.decode.PartialDecoding([...]))` features", ...),
    ("ds.random_map(lambda e, rng: e)", "where the function takes its randomness from a feature", ...),
    ("ds.scanner(columns=['id'])", "ds.to_arrow()", ...),
    ("ds.count_rows('id > 5')", "`sum(1 for _ in ds.filter(function))` counts those of a condition", ...),
    ("ds.sample(3)", "`ds.shuffle(seed=0).take(3)`", ...),
    ("ds.sample(frac=0.1, random_state=1)", "bd.load(..., split='train[:10%]')", ...),
    ("ds.rename({'text': 't'})", "ds.map(lambda e: {({'text': 't'}).get(name, name): e[name] for name in e})", ...),
    ("ds.rename(columns={'text': 't'})", "({'text': 't'}).get(name, name)", ...),
    ("ds.apply(lambda e: 2, axis=1)", "`ds.map(lambda e: 2)` for a function of an example", ...),
    ("ds.merge(ds, on='id')", "ds.to_pandas().merge(...)", ...),
    ("ds.take(2, columns=['id'])", "PartialDecoding(['id'])", ...),
    ("ds.padded_batch(4, padded_shapes={'text': [None]})", "`ds.padded_batch(4)`, which pads to the longest", ...),
    ("ds.batch_by_length([2], [3, 4])", "ds.batch_by_length([2], [3, 4], length='tokens')", ...),
    ("ds.batch_by_length([2], [3, 4], element_length_func=len)", "ds.batch_by_length([2], [3, 4], length=len)", ...),
    ("ds.to_pandas(text='str')", "Leave it out: text is str", ...),
    ("ds.features.to_dict()", "`dict(ds.features)`", ...),
    ("bd.load('d', split='test', seed=7)", "bd.load('d', split='test').shuffle(seed=7)", ...),
    (
        "bd.load('d', split='test', usecols=['id'])",
        "bd.load('d', split='test', decoders=bd.decode.PartialDecoding(['id']))",
        ...,
    ),
    ("bd.load('d', drop=['id'])", "with the features to keep, without ['id']", ...),
    ("bd.load('d', max_length=128)", ".padded_batch(32, pad_length=128)", ...),
    ("bd.load('d', image_size=(32, 32))", ".map(function)`, where the function changes the image", ...),
    ("bd.load('d', label_names=True)", "ds.features['label'].int2str(index)", ...),
    ("bd.load('d', backend='torch')", "then `as_torch()`, `as_jax()`", ...),
    ("bd.load('d', verbose=True)", "Leave it out: reading prints nothing", ...),
    (
        "bd.BuilderConfig(name='small', lang='en')",
        "a subclass of `bd.BuilderConfig`, decorated as a dataclass, with the attribute lang",
        ...,
    ),
    ("bd.features.Text(max_len=10)", "tokenize in `ds.map(function)`", ...),
    ("bd.Features({})", "bd.features.FeaturesDict({})", ...),
    ("bd.Value('int32')", "bd.features.Scalar('int32')", ...),
    ("bd.features.Array2D((2, 3), 'int8')", "bd.features.Tensor(shape=(2, 3), dtype='int8')", ...),
    ("bd.ClassLabel", "bd.features.ClassLabel", bd.features.ClassLabel),
    # PyTorch
    ("ds.to_torch()", "ds.as_torch()", ...),
    ("ds + ds", "bd.load(..., split='train+test')", ...),
    ("stream + stream", "bd.mix(", ...),
    ("ds.as_torch(batch_size=8)", "DataLoader(ds.batch(8).as_torch(), batch_size=None)", ...),
    ("ds.as_torch(num_workers=2)", "DataLoader(ds.as_torch(), num_workers=2)", ...),
    ("ds.as_torch(shuffle=True)", "ds.shuffle(seed=0).as_torch()", ...),
    ("bd.DataLoader(ds)", "torch.utils.data.DataLoader(ds.as_torch(), batch_size=32)", ...),
    ("bd.random_split(ds, [0.8, 0.2])", "bd.load(..., split=['train[20%:]', 'train[:20%]'])", ...),
    ("ds.shuffle(seed=1)[0]", "A DataLoader of PyTorch takes ds.as_torch()", ...),
    ("stream[0]", "A DataLoader of PyTorch takes ds.as_torch()", ...),
    ("len(stream)", "A DataLoader of PyTorch takes ds.as_torch()", ...),
    ("len(ds.repeat())", "A DataLoader of PyTorch takes ds.as_torch()", ...),
    # tf.data
    ("ds.shuffle(buffer_size=1000)", "ds.shuffle(seed=0, window=1000)", ...),
    ("ds.shuffle(buffer_size=1000, seed=3)", "ds.shuffle(seed=3, window=1000)", ...),
    ("ds.shuffle()", "ds.shuffle(seed=0)", ...),
    ("stream.shuffle(buffer_size=5)", "stream.shuffle(seed=0, window=5)", ...),
    ("ds.repeat(count=2)", "ds.repeat(2)", ...),
    ("ds.map(f, num_parallel_calls=-1)", "ds.map(f).parallel(threads=4)", ...),
    ("ds.padded_batch(4, padding_values=-1)", "ds.batch(4, pad_value=-1)", ...),
    ("ds.padded_batch(4, padded_shapes=[8])", "pad_length=", ...),
    ("ds.batch(4, num_parallel_calls=2)", "ds.batch(4).parallel(threads=4)", ...),
    ("ds.batch(4, drop_last_batch=True)", "ds.batch(4, drop_remainder=True)", ...),
    (
        "ds.bucket_by_sequence_length(f, [8, 16], [4, 2, 1])",
        "ds.batch_by_length([8, 16], [4, 2, 1], length=f)",
        ...,
    ),
    ("ds.unbatch()", "the dataset before `batch()`", ...),
    ("ds.zip(ds)", "zip(a, b)", ...),
    ("ds.cache()", "$BEAM_DATASETS_CACHE_DIR", ...),
    ("ds.prefetch(2)", "ds.parallel(threads=4)", ...),
    ("ds.cardinality()", "len(ds)", 12),
    ("ds.concatenate(ds)", "bd.load(..., split='train+test')", ...),
    ("ds.concatenate(ds)", "bd.mix([ds, ds], weights=[len(ds), len(ds)])", ...),
    ("ds.take_while(f)", "itertools.takewhile(f, ds)", ...),
    ("ds.as_numpy_iterator()", "iter(ds)", ...),
    ("ds.to_tf_dataset()", "ds.as_tf_dataset()", ...),
    ("iterator.get_next()", "next(iterator)", ...),
    # MosaicML, WebDataset, SeqIO, Grain
    ("bd.StreamingDataset(local='dir')", "bd.load(name, data_dir='dir', split='train')", ...),
    ("bd.MDSWriter(out='dir')", "bd.DatasetBuilder", ...),
    ("ds.size", "len(ds)", 12),
    ("bd.WebDataset('x.tar')", "bd.load(name, split='train')", ...),
    ("ds.to_tuple('jpg', 'cls')", "as_supervised=True", ...),
    ("ds.batched(6)", "ds.batch(6)", ...),
    ("ds.batched(batchsize=6)", "ds.batch(6)", ...),
    ("ds.with_epoch(100)", "ds.repeat().take(100)", ...),
    ("bd.get_mixture_or_task('t')", "bd.load(name, split='train')", ...),
    ("bd.MapDataset.source(ds)", "ds.as_grain_source()", ...),
    ("ds.to_iter_dataset()", "iter(ds)", ...),
    ("ds.seed(7)", "ds.shuffle(seed=7)", ...),
    ("bd.mix([ds, ds], probabilities=[0.7, 0.3])", "bd.mix([ds, ds], weights=[0.7, 0.3])", ...),
    ("bd.mix(ds, ds)", "bd.mix([a, b], weights=[0.7, 0.3], seed=0)", ...),
    ("ds.batch(4, True)", "ds.batch(4, drop_remainder=True)", ...),
    ("ds.filter('id > 3')", "bd.materialize(..., where=...)", ...),
    ("info.num_examples", "info.splits['train'].num_examples", 12),
    ("bd.features.Struct({})", "bd.features.FeaturesDict({})", ...),
    # what users of all of them type
    ("ds.shuffle(1000, seed=42)", "ds.shuffle(seed=42, window=1000)", ...),
    ("ds.shuffle(1000, reshuffle_each_iteration=True)", "ds.shuffle(seed=0).repeat()", ...),
    ("ds.shard(count=4, index=1)", "ds.shard(1, 4)", ...),
    ("ds.shard(num_replicas=4, rank=1)", "ds.shard(1, 4)", ...),
    ("ds.filter(f, num_parallel_calls=2)", "ds.filter(f)", ...),
    ("ds.filter(id=1)", "with a function of an example", ...),
    ("ds.map(f, max_workers=2)", "ds.map(f).parallel(threads=4)", ...),
    ("ds.padded_batch(4, max_length=8)", "ds.batch(4, pad_length=8)", ...),
    ("ds.padded_batch(4, pad_token_id=0)", "ds.batch(4, pad_value=0)", ...),
    ("ds.batch(4, transform=f)", "ds.batch(4).map(f)", ...),
    ("ds.pack(seq_len=512)", "ds.pack(512, ['tokens'])", ...),
    ("ds.iterate(start=5)", "ds.skip(5).iterate()", ...),
    ("ds.iterate(batch_size=5)", "ds.batch(5).iterate()", ...),
    ("ds.as_torch(device='cuda')", "tensor.to('cuda')", ...),
    ("ds.as_torch(transform=f)", "ds.map(f).as_torch()", ...),
    ("ds.as_jax(batch_size=8)", "ds.batch(8).as_jax()", ...),
    ("ds.as_tf_dataset(batch_size=8)", "ds.batch(8).as_tf_dataset()", ...),
    ("ds.to_pandas(limit=3)", "ds.take(3)", ...),
    ("ds.id", "[e['id'] for e in ds]", ...),
    ("ds.features.id", "features['id']", ...),
    ("ds.iter_batches(batch_size=8)", "ds.batch(8)", ...),
    ("ds.map_batches(f)", "ds.batch(32).map(f)", ...),
    ("ds.dataloader(batch_size=8)", "DataLoader(ds.as_torch())", ...),
    ("ds.split(0.2)", "split=['train[20%:]', 'train[:20%]']", ...),
    ("ds.mean('id')", "ds.to_pandas()['id']", ...),
    ("iterator.next()", "next(iterator)", ...),
    ("iterator.position", "iterator.get_state()", ...),
    ("builder.metadata", "builder.info", ...),
    ("builder.as_dataset('train', shuffle=True)", "builder.as_dataset('train').shuffle(seed=0)", ...),
    ("info.splits.train", "splits['train']", ...),
    ("info.splits.num_examples", "splits.total_num_examples", ...),
    ("info.splits['train'].num_rows", "split.num_examples", ...),
    ("info.task_templates", "none of it is stored", ...),
    ("bd.Split.VAL", "bd.Split.VALIDATION", ...),
    ("bd.Split.TRAIN.subsplit(3)", "'train[:10%]'", ...),
    ("bd.load('d', data_dir=data_dir).train", "datasets['train']", ...),
    ("bd.load('d', data_dir=data_dir).map(f)", "datasets['train'].map", ...),
    ("bd.load('d', config_name='small')", "bd.load('d', config='small', split='train')", ...),
    ("bd.load('d', limit=3)", "bd.load('d', split='train').take(3)", ...),
    ("bd.load('d', format='torch')", "as_torch()", ...),
    ("bd.load('d', splits='test')", "bd.load('d', split='test')", ...),
    ("bd.load('d', rank=1, world_size=4)", "ds.shard(1, 4)", ...),
    ("bd.even_splits('train', num_splits=3)", "bd.even_splits('train', 3)", ...),
    ("bd.list_builders(with_community_datasets=False)", "bd.list_builders(data_dir)", ...),
    ("bd.materialize('d', 'train[:10%]')", "bd.materialize('d', split='train[:10%]'", ...),
    ("bd.materialize(ds, to='x')", "expected the name or directory of a published dataset, got <Dataset", ...),
    ("bd.export('d', output='out')", "bd.export('d', to='out')", ...),
    ("bd.export(ds, 'out')", "expected the name or directory of a published dataset, got <Dataset", ...),
    ("bd.read_tfrecord('a.tfrecord')", "bd.adopt('a.tfrecord', features)", ...),
    ("bd.from_huggingface(ds)", "ds.to_parquet('train.parquet')", ...),
    ("bd.Dataset([1, 2])", "bd.DatasetBuilder", ...),
    ("bd.features.Timestamp()", "bd.features.Text()", ...),
    ("bd.features.Image(decode=False)", "bd.decode.SkipDecoding()", ...),
    ("bd.features.Audio(sampling_rate=16000)", "bd.features.Audio(sample_rate=16000)", ...),
    ("bd.features.ClassLabel(3)", "bd.features.ClassLabel(num_classes=10)", ...),
    ("bd.features.ClassLabel(classes=['a'])", "bd.features.ClassLabel(names=['a'])", ...),
    ("bd.features.Tensor((2, 3), 'int8')", "all arguments are given by keyword", ...),
    ("bd.features.Scalar()", "bd.features.Scalar('int64')", ...),
    ("bd.clean_stale_shared_memory()", "Leave it out: no shared memory is left behind.", ...),
    # items of what has none, and operations after an adapter
    ("builder['train']", "builder.as_dataset('train')", ...),
    ("len(builder)", "len(builder.as_dataset('train'))", 12),
    ("[split for split in builder]", "builder.as_dataset(0)", ...),
    ("iterator[3]", "`next(iterator)`, or `ds[3]`", ...),
    ("info['features']", "info.features", ...),
    ("bd.Stream(remote='s3://bucket', local='/tmp')", "bd.load(name, split='train')", ...),
    ("bd.mix(ds)", "mix([a, b], weights=[0.7, 0.3])", ...),
    ("ds.take(indices=[1, 2])", "ds[[1, 2]]", ...),
    ("ds.chunk(4)", "ds.chunk(4, ['tokens'])", ...),
    ("ds.chunk(chunk_size=4)", "ds.chunk(4, ['tokens'])", ...),
    ("ds.chunk(4, columns=['a'])", "ds.chunk(4, ['a'])", ...),
    ("stream.chunk(8)", "stream.chunk(8, ['tokens'])", ...),
    ("ds.flat_map(fn=f)", "ds.flat_map(f)", ...),
    ("ds.iterate(3)", "ds.iterate(epoch=3)", ...),
    ("ds.to_arrow(schema=1)", "ds.to_arrow().cast(1)", ...),
    ("ds.to_polars(lazy=True)", "ds.to_polars().lazy()", ...),
    ("ds.as_torch(True)", "all arguments are given by keyword", ...),
    ("ds.as_tf_dataset(worker=1)", "Its arguments are output_signature, state, fill, epoch", ...),
    ("ds.shuffle(1, shuffle_algo='py1s')", "ds.shuffle(seed=1)", ...),
    ("ds.with_epoch(nbatches=10)", "ds.repeat().take(10)", ...),
    ("ds.map_with_index(f)", "(f(i, e) for i, e in enumerate(ds))", ...),
    ("ds.select(lambda e: True)", "ds.filter(function)", ...),
    ("ds.subsample(0.1)", "split='train[:10%]'", ...),
    ("ds.checkout(version='1.0.0')", "bd.load(name, split='train', version='1.0.0')", ...),
    ("ds.add_columns({'a': 'b'})", "ds.map(lambda e: {**e, 'name': value})", ...),
    ("ds.delete('id = 1')", "bd.materialize(..., where='id = 1')", ...),
    ("ds.merge_insert('id')", "bd.append(name, source)", ...),
    ("ds.to_reader()", "pyarrow.RecordBatchReader.from_stream(ds)", ...),
    ("ds.train", "bd.load(name, split='train')", ...),
    ("ds.trim(16)", "ds.batch(32, pad_length=16)", ...),
    ("bd.load('d', datadir='dir')", "bd.load('d', split='train', data_dir='dir')", ...),
    ("bd.load('d', batching_method='random')", "the order does not depend on shards", ...),
    ("bd.utils.logging", "docs/reference/api.md", ...),
    ("bd.write_dataset(ds, 'x')", "bd.DatasetBuilder", ...),
    ("info.to_json()", "info.as_json", ...),
    # steps of other libraries' life cycles, and their names of formats
    ("ds.prepare()", "beam-datasets build MODULE_OR_FILE", ...),
    ("ds.as_iterator()", "iter(ds)", ...),
    ("ds.to_numpy_iterator()", "iter(ds)", ...),
    ("ds.pytorch()", "ds.as_torch()", ...),
    ("ds.tf()", "ds.as_tf_dataset()", ...),
    ("ds.to_arrayrecord('x')", "bd.export(source, to=directory", ...),
    ("ds.digest", "bd.builder(name, data_dir=directory).digest", ...),
    ("ds.seed_worker", "workers draw no random numbers", ...),
    ("ds.label", "[e['label'] for e in ds]", ...),
    ("ds.num_labels", "features['label']", ...),
    ("ds.ids", "[e['id'] for e in ds]", [*range(12)]),
    ("ds.map('id')", "map(lambda e: e['id'])", ...),
    ("ds.to_polars(rechunk=True)", "ds.to_polars().rechunk()", ...),
    ("ds.pack(512, pad=0)", "ds.pack(512, ['tokens'])", ...),
    ("bd.load('d', epoch=3)", "bd.load('d', split='train').iterate(epoch=3)", ...),
    ("bd.load('d', to='torch')", "as_torch()", ...),
    ("bd.mix([ds, ds], probs=[0.5, 0.5])", "bd.mix([ds, ds], weights=[0.5, 0.5])", ...),
    ("builder.shards", "builder.info.splits['train'].filepaths", ...),
    ("builder.path", "builder.dataset_dir", ...),
    ("builder.delete()", "beam-datasets prune", ...),
    ("builder.exists()", "builder.is_prepared()", ...),
    ("iterator.send(1)", "next(iterator)", ...),
    # operators, and lengths of iterators
    ("len(iterator)", "operator.length_hint(iterator)", ...),
    ("ds * 2", "ds.repeat(2)", ...),
    ("3 * ds", "ds.repeat(3)", ...),
    ("stream * 2", "ds.repeat(2)", ...),
    ("ds | ds", "bd.load(..., split='train+test')", ...),
    ("ds - ds", "bd.diff(old, new)", ...),
    ("ds[['id', 'text']]", "PartialDecoding(['id', 'text'])", ...),
    ("ds.take('10%')", "split='train[:10%]'", ...),
    ("ds.take(0.25)", "split='train[:25%]'", ...),
    ("ds.skip()", "ds.skip(100)", ...),
    ("ds.shard(2)", "ds.shard(0, 2)", ...),
    ("builder.as_dataset(0.8)", "'train[:80%]'", ...),
    # arguments that have no row: a similar argument, or all
    ("bd.load('d', splitt='train')", "no argument 'splitt'. Did you mean 'split'?", ...),
    ("ds.batch(4, sized=3)", "Its arguments are batch_size, drop_remainder", ...),
    ("bd.verify('dir', colour=1)", "Its arguments are dataset_dir, decode, jobs", ...),
    ("bd.ReadConfig(interleave_cycle_lenght=3)", "Did you mean 'interleave_cycle_length'?", ...),
    # functions of this package
    ("bd.append('d', pattern='x.csv')", "Csv(name='d', pattern='x.csv', key='id')", ...),
    ("bd.append('d', more='e')", "bd.append('d', 'e')", ...),
    ("bd.append('d', rows=[1])", "a `bd.DatasetBuilder` that yields [1]", ...),
    ("bd.append('d', ds, mode='overwrite')", "on_duplicate='replace'", ...),
    ("bd.append('d', keys=[1])", "bd.append('d', delete=[1])", ...),
    ("bd.append('d', ds, data_dir=data_dir)", "Give a bd.DatasetBuilder that yields the new examples", ...),
    ("bd.append('d', 'x.csv', data_dir=data_dir)", "from beam_datasets.files.csv import Csv", ...),
    ("bd.builder('d', '1.0.0')", "bd.builder('d', data_dir=directory)", ...),
    ("bd.adopt('a.tfrecord')", "bd.adopt('a.tfrecord', {'image': bd.features.Image()}", ...),
    ("bd.adopt('a.tfrecord', schema=f)", "bd.adopt('a.tfrecord', f)", ...),
    ("bd.diff('d:1.0.0')", "bd.diff('name:1.0.0', 'name:2.0.0', data_dir=directory)", ...),
    ("bd.diff('d', 'd', dir='x')", "bd.diff('d', 'd', data_dir='x')", ...),
    ("bd.diff(ds, ds)", "bd.builder(name, data_dir=directory).dataset_dir", ...),
    ("bd.load('d', skip=3)", "bd.load('d', split='train').skip(3)", ...),
    ("builder.validate()", "bd.verify(builder.dataset_dir)", ...),
    ("ds.apply_chat_template(f)", "ds.map(function)", ...),
    ("bd.choose_from_datasets([ds, ds], [0, 1])", "bd.mix([ds, ds], weights=[0.7, 0.3], seed=0)", ...),
    ("bd.parse_single_example(b'')", "builder.info.features.deserialize_example(b'')", ...),
    ("bd.mix([ds, ds], probabilities=[1, 1])", "bd.mix([ds, ds], weights=[1, 1])", ...),
    ("bd.mix({'a': ds, 'b': ds})", "bd.mix([a, b], weights=[1, 1], names=['a', 'b'], source_key='source')", ...),
    ("bd.mix([ds, ds], schedule={0: [1, 1]})", "Give a list, such as [(0, [0.9, 0.1]), (1000, [0.5, 0.5])]", ...),
    ("bd.verify(ds)", "bd.builder(name, data_dir=directory).dataset_dir", ...),
    ("bd.verify('d', data_dir='x')", "bd.verify(bd.builder('d', data_dir='x').dataset_dir)", ...),
    ("bd.verify('d', fix=True)", "bd.repair('d')", ...),
    ("bd.show_examples(ds, n=3)", "bd.show_examples(ds, rows=3)", ...),
    ("bd.as_dataframe(ds, limit=3)", "bd.as_dataframe(ds.take(3))", ...),
    ("bd.materialize('d', overwrite=True)", "to='few:1.0.1'", ...),
    ("bd.materialize('d', seed=3)", "bd.materialize('d', reshuffle='1')", ...),
    ("bd.materialize('d', version='2.0.0')", "to='few:2.0.0'", ...),
    ("bd.export('d', 'out', compression='zstd')", "Parquet files are compressed", ...),
    ("bd.export('d', 'out', overwrite=True)", "with a directory that does not exist", ...),
    ("bd.mix([ds, ds], length=5)", "bd.mix([ds, ds]).take(5)", ...),
    ("bd.mix([ds, ds], batch_size=5)", "bd.mix([ds, ds]).batch(5)", ...),
    ("bd.mix([ds, ds], shuffle=True)", "each source is shuffled before", ...),
    ("bd.load('d', batch=32)", "bd.load('d', split='train').batch(32)", ...),
    ("bd.load('d', decode=False)", "bd.decode.SkipDecoding()", ...),
    ("bd.load('d', frac=0.1)", "split='train[:10%]'", ...),
    ("bd.load('d', pin_memory=True)", "as_torch(), pin_memory=True)", ...),
    ("bd.load('d', device='cuda')", "as_jax(device='cuda')", ...),
    ("bd.load('d', lazy=True)", "examples are read as they are needed", ...),
    ("bd.ReadConfig(seed=3)", "bd.ReadConfig(shuffle_seed=0)", ...),
    ("bd.ReadConfig(num_workers=3)", "ds.parallel(threads=4)", ...),
    ("bd.Version(1, 0, 0)", "bd.Version('1.0.0')", ...),
    ("bd.features.Image(224, 224, 3)", "bd.features.Image(shape=(224, 224, 3))", ...),
    ("bd.features.Image(height=3)", "resize in `ds.map(function)`", ...),
    ("bd.features.Audio(16000)", "bd.features.Audio(sample_rate=16000)", ...),
    ("bd.features.Video(fps=3)", "ffmpeg_extra_args=('-r', '8')", ...),
    ("bd.features.Text(shape=(3,))", "bd.features.Sequence(bd.features.Text())", ...),
    ("bd.features.Sequence('int64', max_length=4)", "bd.features.Sequence('int64', length=4)", ...),
    ("bd.features.FeaturesDict(a='int64')", "bd.features.FeaturesDict({'id': 'int64'", ...),
    ("bd.features.MultiLabel(['a'])", "bd.features.Sequence(bd.features.ClassLabel(names=['a']))", ...),
    ("bd.features.OneHot(3)", "bd.features.ClassLabel(num_classes=3)", ...),
    ("bd.features.Uint8()", "bd.features.Scalar('uint8')", ...),
    ("bd.features.Polygon()", "shape=(None, 2)", ...),
    ("bd.features.Graph()", "a list of dicts", ...),
    ("bd.features.Union()", "optional=True", ...),
    ("bd.features.Option('x')", "optional=True", ...),
    ("bd.features.Html()", "bd.features.Text()", ...),
    # what a Dataset, an iterator or a builder lacks
    ("ds.split_at(3)", "ds.take(3)` and `ds.skip(3)", ...),
    ("ds.corr()", "ds.to_pandas().corr(...)", ...),
    ("ds.astype('int8')", "ds.map(function)", ...),
    ("ds.pop('id')", "without 'id'", ...),
    ("ds.to_excel('x.xlsx')", "ds.to_pandas().to_excel(...)", ...),
    ("ds.to_jsonl('x')", "format='jsonl'", ...),
    ("ds.write_parquet('x')", "bd.export(source, to='x', format='parquet')", ...),
    ("ds.display()", "bd.show_examples(ds)", ...),
    ("ds.row(3)", "ds[3]", ...),
    ("ds.last()", "ds[-1]", ...),
    ("ds.any(f)", "any(map(f, ds))", True),
    ("ds.contains(3)", "ds.find(3) is not None", ...),
    ("ds.find_index(f)", "next(i for i in range(len(ds)) if f(ds[i]))", 0),
    ("ds.cross_validate(5)", "for 5 folds", ...),
    ("ds.bootstrap()", "replacement=True", ...),
    ("ds.bucket([8, 16])", "ds.batch_by_length([8, 16], [32, 16, 8]", ...),
    ("ds.pad(3)", "ds.batch(32, pad=True)", ...),
    ("ds.truncate(3)", "pad_length=3", ...),
    ("ds.collate(f)", "ds.batch(32).map(f)", ...),
    ("ds.with_prefetch(3)", "ds.parallel(threads=4)", ...),
    ("ds.with_batch_size(4)", "ds.batch(4)", ...),
    ("ds.with_shuffle(3)", "ds.shuffle(seed=3)", ...),
    ("ds.with_columns({'a': 1})", "{**e, 'name': value}", ...),
    ("ds.add_column(name='a', column=f)", "{**e, 'a': value}", ...),
    ("ds.num_epochs(3)", "ds.repeat(3)", ...),
    ("ds.cycle()", "ds.repeat()", ...),
    ("ds.resume(f)", "ds.iterate(state=f)", ...),
    ("ds.save_state()", "iter(ds).state_dict()", ...),
    ("ds.fast_forward(4)", "ds.skip(4)", ...),
    ("ds.drop_remainder()", "drop_remainder=True", ...),
    ("ds.batches_per_epoch", "len(ds.batch(32))", 1),
    ("ds.chunked(4)", "ds.batch(4)", ...),
    ("ds.packed(4)", "ds.pack(4, ['tokens'])", ...),
    ("ds.mix(ds)", "bd.mix([ds, ds], weights=[0.7, 0.3], seed=0)", ...),
    ("ds.class_weights", "collections.Counter(", ...),
    ("ds.standardize()", "ds.map(function)", ...),
    ("ds.sql('select 1')", "a table that DuckDB queries", ...),
    ("ds.order_by('id')", "sorted(ds, key=", ...),
    ("ds.keep(['id'])", "PartialDecoding(['id'])", ...),
    ("ds.path", "bd.builder(name, data_dir=directory).dataset_dir", ...),
    ("ds.spec", "ds.features", ...),
    ("ds.is_infinite", "a TypeError where there is no end", ...),
    ("ds.world_size", "ds.as_torch()", ...),
    ("ds.n", "len(ds)", 12),
    ("iterator.collect()", "list(iterator)", ...),
    ("iterator.features", "before `iter()`", ...),
    ("iterator.num_rows", "operator.length_hint(iterator)", ...),
    ("iterator.rewind()", "`iter(ds)`, which starts from the beginning", ...),
    ("iterator.as_torch()", "ds.as_torch()", ...),
    ("builder.columns", "builder.info.features", ...),
    ("builder.to_pandas()", "builder.as_dataset('train').to_pandas(...)", ...),
    ("info.splits['train'].examples", "split.num_examples", ...),
    ("bd.LightningDataModule()", "whose `train_dataloader` returns", ...),
    ("bd.tokenizer", "a tokenizer in `ds.map(function)`", ...),
    ("bd.schema", "bd.builder(name, data_dir=directory).info.features", ...),
    ("bd.write_tfrecord('x')", "bd.DatasetBuilder", ...),
    ("bd.to_tfrecord(ds)", "shards of a dataset are TFRecord files", ...),
    ("bd.from_folder('x')", "beam-datasets build --help", ...),
    ("bd.open_dir('x')", "bd.builder_from_directory('x')", ...),
    # files, frames and tables
    ("bd.load_dataset('json', data_files='a.jsonl')", "`beam-datasets build a.jsonl` names the command", ...),
    ("bd.load_dataset('csv', data_files={'train': 'a.csv'})", "`beam-datasets build FILE` names the command", ...),
    ("bd.scan_parquet('a.parquet')", "beam-datasets build parquet --name NAME --pattern a.parquet", ...),
    ("bd.scan_ndjson('a.jsonl')", "beam-datasets build jsonl --name NAME --pattern a.jsonl", ...),
    ("bd.read_excel('a.xlsx')", "pandas or Polars to read 'a.xlsx' and to write Parquet", ...),
    ("bd.from_dicts([{'a': 1}])", "bd.DatasetBuilder", ...),
    ("ds.height", "len(ds)", 12),
    ("ds.to_dicts()", "list(ds)", ...),
    ("ds.glimpse()", "bd.show_examples(ds)", ...),
    ("ds.get_column('id')", "[e['id'] for e in ds]", list(range(12))),
    ("ds.gather([1, 2])", "ds[[1, 2]]", ...),
    ("ds.drop_nulls()", "ds.filter(", ...),
    ("ds.fill_null(0)", "ds.batch(32, fill=0)", ...),
    ("ds.pivot_table(index='id')", "ds.to_pandas().pivot_table(...)", ...),
    ("ds.top_k(3)", "ds.to_polars().top_k(...)", ...),
    ("ds.sink_parquet('out')", "bd.export(source, to='out', format='parquet')", ...),
    ("ds.latest_version", "beam-datasets list --versions", ...),
    ("ds.map_and_batch(f, 5)", "ds.map(f).batch(5)", ...),
    ("ds.make_one_shot_iterator()", "iter(ds)", ...),
    ("ds.take_batch(5)", "next(iter(ds.batch(5)))", ...),
    ("ds.prefetch(2)", "in a script that begins under if __name__ == '__main__'", ...),
    ("ds.take([1, 2])", "ds[[1, 2]]", ...),
    ("bd.load('d', data_dir=data_dir)[:3]", "`datasets['train'][:10]`", ...),
    ("ds.map(lambda image, label: image)", "with one argument, the example: missing a required argument: 'label'", ...),
    ("ds.filter(lambda image, label: True)", "`lambda pair: function(*pair)` with as_supervised=True", ...),
    ("bd.Split.train", "bd.Split.TRAIN", "train"),
    # anybody
    ("bd.read_csv('x.csv')", "beam-datasets build csv --name NAME --pattern x.csv", ...),
    ("ds.head(3)", "ds[:3]", ...),
    ("stream.num_rows", "sum(1 for _ in stream)", 12),
    ("stream.as_jax()", "iter(stream)", ...),
    ("bd.materialise", "Did you mean 'materialize'?", ...),
    # names that no table has: the names that there are
    ("ds.frobnicate()", "Dataset has no attribute 'frobnicate'. It has as_grain_source, as_jax", ...),
    ("builder.frobnicate()", "ReadOnlyBuilder has no attribute 'frobnicate'. It has as_data_source", ...),
    ("ds.features.frobnicate", "Its features are items: 'id', 'key', 'text'", ...),
    ("bd.frobnicate()", "`dir(beam_datasets)` lists the names", ...),
    # the numbers, keywords and names of the caller
    ("ds.train_test_split(0.05)", "bd.load(..., split=['train[5%:]', 'train[:5%]'])", ...),
    ("ds.rsample(0.25)", "split='train[:25%]'", ...),
    ("bd.load('d', frac=0.3)", "split='train[:30%]'", ...),
    ("ds.sort('id', reverse=True)", "sorted(ds, key=lambda e: e['id'])", ...),
    ("ds.shuffle(seed=42, generator=None)", "ds.shuffle(seed=42)", ...),
    ("ds.map_dict(id=f)", "ds.map(lambda e: {**e, 'id': f(e['id'])})", ...),
    ("ds.rename_keys(image='jpg')", "({'jpg': 'image'}).get(name, name): e[name] for name in e}", ...),
    ("ds.to_tuple('id', 'text')", "ds.map(lambda e: (e['id'], e['text']))", ...),
    ("ds.to_tf_dataset(batch_size=2)", "ds.batch(2).as_tf_dataset()", ...),
    ("bd.DataLoader(ds, batch_size=4)", "DataLoader(ds.as_torch(), batch_size=4)", ...),
    ("bd.RandomMix([ds, ds], probs=[0.5, 0.5])", "bd.mix([ds, ds], weights=[0.5, 0.5], seed=0)", ...),
    ("bd.StreamingDataset(remote='s3://b/x', local='y')", "data_dir='s3://b/x'", ...),
    ("bd.get_dataset(mixture_or_task_name='d')", "bd.load('d', split='train')", ...),
    # commands as functions, and arguments of functions without any
    ("bd.head('d')", "beam-datasets head d", ...),
    ("bd.explore('d')", "beam-datasets explore d", ...),
    ("bd.tag('d:1.0.0', 'best')", "beam-datasets tag d:1.0.0 best", ...),
    ("ds.raw(True)", "raw(): too many positional arguments. Use `ds.raw()`", ...),
    ("ds.as_grain_source(shuffle=True)", "Grain's `shuffle(seed=0)`", ...),
    ("bd.DatasetInfo(features={}, schema={})", "bd.DatasetInfo(builder=self, features={})", ...),
    ("ds.shuffle(None)", "Give a number, such as seed=0", ...),
    ("ds.__setattr__('transform', f)", "a Dataset never changes. Use `ds.map(function)`", ...),
    ("stream.__setattr__('epoch', 3)", "a Stream never changes. Use `ds.iterate(epoch=0)`", ...),
    ("ds.features.__setitem__('id', 'int8')", "bd.features.FeaturesDict({**ds.features, 'id': feature})", ...),
]


def problem_of(guess: str, names: dict[str, Any], tmp_path: Path) -> str:
    """Returns what the error of a guess says; it is in a file, as the caller's source is read."""
    file = tmp_path / "guess.py"
    file.write_text(f"import beam_datasets as bd\n\n\nvalue = (\n    {guess}\n)\n", encoding="utf-8")
    with pytest.raises((AttributeError, TypeError)) as caught:
        exec(compile(file.read_text(encoding="utf-8"), str(file), "exec"), {**names, "__name__": "__main__"})
    return str(caught.value)


@pytest.mark.parametrize("guess, expected, value", GUESSES, ids=[guess for guess, _, _ in GUESSES])
def test_an_error_says_what_to_write(
    names: dict[str, Any], tmp_path: Path, guess: str, expected: str, value: object
) -> None:
    problem = problem_of(guess, names, tmp_path)
    assert expected in problem
    if value is not ...:
        assert eval(expected, dict(names)) == value


@pytest.mark.parametrize(
    "guess, expected",
    [
        ("ds.shuffle(seed=0)[0]", "here list(ds.take(10)) returns the first items"),
        ("stream[0]", "here list(ds.take(10)) returns the first items"),
        ("bd.features.ClassLabel(names=['a', 'b']).int2str([0, 1])", "[label.int2str(i) for i in indices]"),
        ("bd.features.ClassLabel(names=['a', 'b']).int2str(next(iter(ds.batch(2)))['id'])", "takes one index"),
        ("bd.show_examples('d')", "Use `bd.load('d', split='train')`"),
        ("bd.as_dataframe('d')", "Use `bd.load('d', split='train')`"),
        (
            "bd.show_examples(bd.load('d', data_dir=data_dir))",
            "got a dict with 'train', 'test'. Give the dataset of one",
        ),
        (
            "bd.as_dataframe(bd.load('d', data_dir=data_dir))",
            "got a dict with 'train', 'test'. Give the dataset of one",
        ),
    ],
)
def test_objects_that_others_take(names: dict[str, Any], guess: str, expected: str) -> None:
    with pytest.raises(TypeError, match=re.escape(expected)):
        eval(guess, names)


def test_values_that_mean_something_elsewhere(names: dict[str, Any]) -> None:
    ds = names["ds"]
    with pytest.raises(ValueError, match=r"repeat\(\) without a number has no end"):
        ds.repeat(-1)
    for number, count, call in ((4, 1, "shard(1, 4)"), (4, 0, "shard(0, 4)")):  # tf.data has their number first
        with pytest.raises(ValueError, match=re.escape(f"comes first, then how many there are: {call}")):
            ds.shard(number, count)
    with pytest.raises(KeyError, match="no feature 'label'; known are 'id', 'key', 'text'"):
        ds.features["label"]
    for split, hint in (("val", "'test', 'train'"), ("train[0.1:]", "A share is a percentage, such as '10%'")):
        with pytest.raises(bd.errors.SplitError, match=hint):
            names["builder"].as_dataset(split)


@pytest.mark.parametrize(
    "guess, expected",
    [
        ("bd.builder('csv', pattern='x.csv')", "Csv(name='NAME', pattern='*.csv', data_dir=directory).build()"),
        ("bd.builder('d', split='train')", "`bd.builder('d').as_dataset('train')`"),
        ("bd.builder('d', dataset_dir='x')", "`bd.builder('d', data_dir='x')`"),
        ("bd.builder('d', batch_size=3)", "`bd.builder('d').as_dataset('train', batch_size=3)`"),
        ("bd.load('d@1.0.0')", "A version is written 'd:1.0.0'."),
        ("bd.load('d==1.0.0')", "A version is written 'd:1.0.0'."),
        ("bd.load('d-1.0.0')", "A version is written 'd:1.0.0'."),
        ("bd.load('d:2')", "'d:2.*.*'"),
        ("bd.load('ylecun/mnist', data_dir=data_dir)", "Use `tfds.load('mnist')` of TensorFlow Datasets"),
        ("bd.load('d', data_dir=data_dir, split='train,test')", "joined by '+', as in 'train+test'"),
        ("bd.features.FeaturesDict({'a': int})", "a: <class 'int'> is not a dtype of a feature; write np.int64"),
        ("bd.features.Sequence(str)", "<class 'str'> is not a dtype of a feature; write np.int64, np.float32, np.str_"),
        ("bd.load('d:2.1')", "'d:2.1.*'"),
        ("bd.load('d[:5]')", "split='train[:5]' (--split)"),
        ("bd.load('x.csv')", "`beam-datasets build csv --name x --pattern x.csv --data_dir DIR`"),
        ("bd.load('/data/x.csv')", "`beam-datasets build csv --name x --pattern /data/x.csv --data_dir DIR`"),
        ("bd.load('https://example.org/x.csv')", "`beam-datasets build --help` lists the formats"),
        ("bd.load('in/x.jsonl')", "`beam-datasets build jsonl --name x --pattern in/x.jsonl --data_dir DIR`"),
        ("bd.load(f'{data_dir}/d')", "This dataset is bd.load('d', data_dir="),
        ("bd.load('d', data_dir=data_dir, split='train', as_supervised=True)", "ds.map(lambda e: (e['x'], e['y']))"),
        ("bd.features.Scalar('int')", "Did you mean 'int64'?"),
        ("bd.features.Scalar('double')", "Did you mean 'float64'?"),
        ("bd.load('d/train', data_dir=data_dir)", "A split is split='train' (--split train)."),
        ("bd.load('d', data_dir=data_dir, version=1)", "such as '1.*.*'"),
    ],
)
def test_names_of_datasets_that_others_write(names: dict[str, Any], guess: str, expected: str) -> None:
    with pytest.raises((ValueError, bd.errors.AlreadyPublishedError)) as caught:
        eval(guess, names)
    assert expected in str(caught.value)


def test_builders_of_files_take_the_arguments_that_an_error_names(names: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,x\n1,2\n3,4\n", encoding="utf-8")
    csv = importlib.import_module("beam_datasets.files.csv").Csv
    csv(name="rows_of_csv", pattern=str(tmp_path / "a.csv"), key="id", data_dir=tmp_path).build(num_workers=1)
    (tmp_path / "b.csv").write_text("id,x\n5,6\n", encoding="utf-8")
    bd.append("rows_of_csv", csv(name="rows_of_csv", pattern=str(tmp_path / "b.csv"), key="id"), data_dir=tmp_path)
    assert len(bd.load("rows_of_csv", data_dir=tmp_path, split="train")) == 3
    bd.export("rows_of_csv", tmp_path / "out", data_dir=tmp_path)
    file = next((tmp_path / "out").rglob("*.parquet"))
    metadata = importlib.import_module("pyarrow.parquet").ParquetFile(file).metadata
    assert metadata.row_group(0).column(0).compression != "UNCOMPRESSED"


def test_a_dataset_is_not_callable_and_no_iterator(names: dict[str, Any]) -> None:
    # sources of builders, and libraries, tell functions, iterators and datasets apart by these
    assert not callable(names["ds"])
    assert not hasattr(names["ds"], "__next__")
    assert names["iterator"]


def test_the_datasets_of_all_splits_are_a_dict_that_says_how_to_get_one(names: dict[str, Any]) -> None:
    datasets = bd.load("d", data_dir=names["data_dir"])
    assert isinstance(datasets, dict)
    assert list(datasets) == ["train", "test"]
    assert not hasattr(datasets, "_repr_html_")
    assert list(pickle.loads(pickle.dumps(datasets))) == ["train", "test"]
    with pytest.raises(KeyError, match="no split 'trian'; it has 'train', 'test'. Did you mean 'train'"):
        datasets["trian"]


def test_a_slice_of_a_dataset_is_a_list(names: dict[str, Any]) -> None:
    examples = names["ds"][:5]
    assert isinstance(examples, list)
    assert [e["id"] for e in examples] == [names["ds"][i]["id"] for i in range(5)]
    for other in (pickle.loads(pickle.dumps(examples)), copy.copy(examples), copy.deepcopy(examples), examples[:5]):
        assert type(other) is list
        assert str(other) == str(examples)
    assert not hasattr(examples, "keys")


def test_splits_of_an_expression_name_the_call_that_reads_it(names: dict[str, Any]) -> None:
    datasets = bd.load("d", data_dir=names["data_dir"])
    for split in ("train+test", "train[:10%]"):
        with pytest.raises(KeyError, match=re.escape(f"A slice is bd.load(..., split='{split}')")):
            datasets[split]


def test_a_data_dir_in_place_of_a_version_lists_those_of_configs(tmp_path: Path) -> None:
    write_dataset(tmp_path / "d" / "1.0.0", {"train": [3]})
    write_dataset(tmp_path / "e" / "small" / "2.0.0", {"train": [3]})
    with pytest.raises(bd.errors.DatasetNotFoundError, match=r"d/1\.0\.0, e/small/2\.0\.0\.$"):
        bd.builder_from_directory(tmp_path)


def test_a_dataset_that_names_others_by_its_features_can_be_pickled(names: dict[str, Any]) -> None:
    ds = names["ds"]
    assert repr(pickle.loads(pickle.dumps(ds))) == repr(ds)
    assert not hasattr(ds.map(lambda example: example["id"]), "text_of_another")
    assert copy.copy(ds.features) == ds.features


def test_builders_of_files_are_not_the_datasets_of_their_names(names: dict[str, Any], tmp_path: Path) -> None:
    importlib.import_module("beam_datasets.files.csv")  # registers its builder
    with pytest.raises(bd.errors.DatasetNotFoundError, match="files become a dataset first, then `bd.load` reads it"):
        bd.load("csv", data_dir=tmp_path, split="train")
    write_dataset(tmp_path / "csv" / "1.0.0", {"train": [3]})
    assert len(bd.load("csv", data_dir=tmp_path, split="train")) == 3


def test_a_version_in_place_of_a_config_and_a_directory_in_place_of_a_name(names: dict[str, Any]) -> None:
    with pytest.raises(bd.errors.DatasetNotFoundError, match="A split is split='train'"):
        bd.load("d:train", data_dir=names["data_dir"])
    with pytest.raises(bd.errors.DatasetNotFoundError, match=r"A version is 'd:1\.0\.0'"):
        bd.load("d/1.0.0", data_dir=names["data_dir"])
    with pytest.raises(
        bd.errors.DatasetNotFoundError, match=r"use bd\.verify\(bd\.builder\('d:1\.0\.0'\)\.dataset_dir\)"
    ):
        bd.verify("d:1.0.0")
    directory = names["builder"].dataset_dir
    with pytest.raises(ValueError, match=rf"opened by bd\.builder_from_directory\('{directory}'\)"):
        bd.load(directory)


def test_without_source_arguments_have_their_names_or_values(names: dict[str, Any]) -> None:
    ds = names["ds"]
    for guess, expected in (
        ("ds.rename_column('id', 'n')", "{'new_name' if name == 'old_name' else name: e[name]"),
        ("ds.rename_columns({'id': 'n'})", "(dict(old_name='new_name')).get(name, name)"),
        ("ds.remove_columns(['id'])", "without those to remove"),
        ("bd.list('d')", "bd.list_builders(data_dir)"),
        ("ds.map(f, num_proc=4)", "ds.map(function).parallel(processes=4)`, in a script that begins under if __name__"),
        ("ds.head(3)", "ds[:5]"),
        ("bd.mix([ds, ds], probabilities=[1, 1])", "bd.mix([a, b], weights=[1, 1])"),
        ("bd.info('d')", "bd.builder('name', data_dir=directory).info"),
        ("bd.data_source('d')", "bd.load(name, split='train')"),
        ("bd.prune('d')", "bd.builder('name').dataset_dir"),
    ):
        with pytest.raises((AttributeError, TypeError)) as caught:
            eval(guess, {"ds": ds, "bd": bd, "f": lambda e: e, "__name__": "__main__"})
        assert expected in str(caught.value)


def test_a_long_argument_is_cut(names: dict[str, Any], tmp_path: Path) -> None:
    problem = problem_of(f"ds.select({list(range(100))})", names, tmp_path)
    assert "ds[...]" in problem


@pytest.mark.parametrize("name", ["Bool", "Int32", "Float32", "Double", "UInt8"])
def test_a_type_of_numbers_leads_to_its_dtype(name: str) -> None:
    with pytest.raises(AttributeError) as caught:
        getattr(bd.features, name)
    code = re.findall("`([^`]+)`", str(caught.value))[0]
    feature = eval(code, {"bd": bd})
    assert feature.dtype.name == {"Double": "float64"}.get(name, name.lower())


def test_a_buffer_size_for_the_seed_is_named_once(names: dict[str, Any]) -> None:
    ds = names["ds"]
    advice._warn_of_buffer_size.cache_clear()
    with pytest.warns(UserWarning, match=r"1000 is the seed.*shuffle\(seed=0, window=1000\)") as caught:
        assert len(ds.shuffle(1000)) == len(ds.shuffle(1000)) == 12
    assert [Path(warning.filename).name for warning in caught] == [Path(__file__).name]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for shuffled in (ds.shuffle(seed=1000), ds.shuffle(7), ds.shuffle(7, 5), ds.shuffle(1000, window=5)):
            assert len(shuffled) == 12
    for swapped in (ds, names["stream"]):
        advice._warn_of_buffer_size.cache_clear()
        with pytest.warns(UserWarning, match=r"write shuffle\(seed=5, window=1000\); otherwise"):
            swapped.shuffle(1000, 5)


def test_a_data_frame_has_a_column_for_each_feature(names: dict[str, Any]) -> None:
    pytest.importorskip("pandas")
    examples = [{"box": {"x": 1, "y": 2.5}, "text": b"a"}, {"box": {"x": 3, "y": 4.5}, "text": b"b"}]
    frame = bd.as_dataframe(examples)
    assert list(frame.columns) == ["box/x", "box/y", "text"]
    assert frame.to_dict("list") == {"box/x": [1, 3], "box/y": [2.5, 4.5], "text": [b"a", b"b"]}
    assert list(bd.as_dataframe(names["ds"])["id"]) == [example["id"] for example in names["ds"]]
    assert list(bd.as_dataframe([(1, 2)]).columns) == ["0", "1"]
