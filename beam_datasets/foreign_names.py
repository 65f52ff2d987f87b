"""Names of other libraries and their replacements here: the tables of `advice`.

TensorFlow Datasets, Hugging Face datasets, PyTorch, tf.data, MosaicML Streaming, WebDataset, SeqIO, Grain, LitData and
pandas. Only names that do not exist here are in the tables. The text of a row completes "Use ...".

A key is a name, with the parameters of the foreign function if the text uses them. Several names are separated by
` | `; the parameters of each stand for those of the first, in their order: in `select(column) | pick(name)` the
`name` of `pick` is the `{column}` of the text. `{column}` is the argument as the caller wrote it, otherwise its name, or
its default in `{column:'label'}`. `{ds}`, `{iterator}` and `{builder}` are the caller's names of the object,
`{name}` is the foreign name. `{argument}` and `{value}` are the foreign argument, `{first}` is the first positional one.
Of keywords such as `x=f`, `{keyword_items}` is `'x': f(e['x'])`, and `{keyword_names}` is `{f: 'x'}`. A default such as
`{p:20%}` shows a number such as 0.1 as 10%.

`COMMANDS`, `OPTIONS` and `FORMATS` are for command lines. In a text, `{args}` are the arguments of the foreign command,
`{name}` is the first of them that is no option and no file of data, `{second}` the one after it, `{file}` the first file.
"""

from __future__ import annotations

from collections.abc import Mapping

_PARTIAL = "`bd.load(..., decoders=bd.decode.PartialDecoding"
_FILES = "`beam-datasets build"
_IN_MAP = "`{ds}.map(function)`, where the function returns the changed example"
_INFO = "`bd.builder(name, data_dir=directory).info.{name}`, or the info of `bd.load(..., with_info=True)`"
_TFDS = "`import beam_datasets.tfds as tfds`, which has `tfds.{name}`"
_CACHE = "`{ds}` as it is: local files need no cache; for remote ones set $BEAM_DATASETS_CACHE_DIR"
_INDEX = "a library for vector search, with arrays of `{ds}.batch(256)`"
_TORCH_LOADER = "`torch.utils.data.DataLoader(ds.as_torch())`"
_EXPORT = "`bd.export(source, to=directory, format='parquet')`"
_QUIET = "`beam-datasets build --quiet`"
_BUILDER = "`bd.DatasetBuilder`: its `_split_generators` returns an iterable or a Beam transform for each split"
_RANKS = "`ds.as_torch()`, which divides the examples among ranks and workers"
_BYTES = "`features.Text()` for text; encode it where it is read, in `ds.map(function)`"
_RUN_MODEL = "the code that trains: a dataset here has no metrics and no model"
_GUARD = ", in a script that begins under if __name__ == '__main__'"

DATASET: Mapping[str, str] = {
    # ------------------------------------------------------------------------------ Hugging Face datasets: properties
    "num_rows | num_samples | size | count | cardinality | nrows | epoch_size | length | n | total | num_records": "`len({ds})`",
    "count_rows": "`len({ds})`; `sum(1 for _ in {ds}.filter(function))` counts those of a condition",
    "num_columns | width": "`len({ds}.features)`",
    "ndim": "`{ds}.features`: each feature has a shape of its own",
    "shape": "`(len({ds}), len({ds}.features))`",
    "column_names | columns | feature_names | keys | fields": "`list({ds}.features)`",
    "schema | lance_schema | dtypes | output_features | element_types | output_types | output_shapes | spec | signature | element"
    " | element_type | structure": "`{ds}.features`",
    "element_spec": "`{ds}.features`; `{ds}.as_tf_dataset().element_spec` is that of tf.data",
    "info | with_info": "`bd.load(..., with_info=True)`, or `bd.builder(name, data_dir=directory).info`",
    "builder_name": "`bd.builder(name, data_dir=directory).name`",
    "builder": "`bd.builder(name, data_dir=directory)`",
    "config_name": "`bd.builder(name, data_dir=directory).config_name`",
    "version": "`bd.builder(name, data_dir=directory).version`",
    "versions | list_versions": "`beam-datasets list --versions`",
    "checkout(version) | checkout_version(version) | at_version(version)": "`bd.load(name, split='train', version={version:'1.0.0'})`",
    "fingerprint | digest | checksum": "`bd.builder(name, data_dir=directory).digest`, which identifies the published version",
    "citation | description | homepage | license | dataset_size | download_size | supervised_keys": _INFO,
    "size_in_bytes": "`bd.builder(name, data_dir=directory).info.dataset_size`",
    "download_checksums": "checksums.tsv beside the builder; `bd.builder(name, data_dir=directory).manifest` has those of the shards",
    "split": "`repr({ds})`, which shows the slice; `bd.load(..., split=['train[20%:]', 'train[:20%]'])` splits",
    "data": "`{ds}.to_arrow()`",
    "cache_files | filepaths | filenames | shards | urls | files": "`bd.builder(name, data_dir=directory).info.splits['train'].filepaths`",
    "num_shards | n_shards": "`bd.builder(name, data_dir=directory).info.splits['train'].num_shards`",
    "format": "`{ds}[0]`: values are NumPy's",
    "epoch": "`{ds}.iterate(epoch=0)`, which reads the given epoch",
    # --------------------------------------------------------------------------------- Hugging Face datasets: columns
    "select_columns(column_names) | project(columns) | with_features(features) | keep(columns) | keep_columns(columns)"
    " | only(columns)": _PARTIAL + "({column_names}))`, which decodes these features alone",
    "remove_columns(column_names) | pop(column) | drop_columns(columns) | drop_column(column)": _PARTIAL
    + "([...]))` with the features to keep, without {column_names:those to remove}",
    "rename_column(original_column_name, new_column_name)": (
        "`{ds}.map(lambda e: {{{new_column_name:'new_name'} if name == {original_column_name:'old_name'} else name: e[name] for name in e}})`"
    ),
    "rename_columns(column_mapping) | rename(columns)": "`{ds}.map(lambda e: {{({column_mapping:dict(old_name='new_name')}).get(name, name): e[name] for name in e}})`",
    "add_columns(transforms) | with_columns(transforms) | assign(transforms)": "`{ds}.map(lambda e: {{**e, 'name': value}})` for {transforms:new features}",
    "with_column(new, column) | add_column(name, column)": "`{ds}.map(lambda e: {{**e, {new:'name'}: value}})`",
    "cast_column(column, feature)": "`{ds}.map(lambda e: {{**e, {column}: convert(e[{column}])}})` for {feature}",
    "cast(features) | astype(dtype) | align_labels_with_mapping(label2id) | class_encode_column(column) | flatten": _IN_MAP,
    "add_item(item)": "`bd.append(name, source)`, which publishes a version with more examples, for {item}",
    "unique(column)": "`{{e[{column}] for e in {ds}}}`; `beam-datasets stats NAME` counts values",
    "column(name)": "`[e[{name}] for e in {ds}]`",
    # ---------------------------------------------------------------------- Hugging Face datasets: examples and order
    "select(indices) | subset(indices) | take_indices(indices)": (
        "`{ds}[{indices}]`, a list of examples; `split='train[10:20]'` is a dataset; `{ds}.filter(function)` selects by a condition, "
        + _PARTIAL
        + "([...]))` features"
    ),
    "sort(column_names) | sort_values(by) | order_by(column) | sort_by(column) | orderBy(column) | sorted": (
        "`sorted({ds}, key=lambda e: e[{column_names:'label'}])`, or `{ds}.to_pandas().sort_values(...)`"
    ),
    "train_test_split(test_size)": (
        "`bd.load(..., split=['train[{test_size:20%}:]', 'train[:{test_size:20%}]'])`, or `'train[100:]'` and `'train[:100]'` "
        "for a number of examples: slices are random samples"
    ),
    "reshard(num_shards) | to_distributed": "`bd.materialize(..., num_shards={num_shards:8})`, which writes other shards",
    "iter(batch_size) | with_batch_size(batch_size) | iter_chunks(size) | chunks(size) | chunked(n) | in_batches(size)"
    " | batch_read(batch_size)": "`{ds}.batch({batch_size:32})`",
    "set_epoch(epoch)": "`{ds}.iterate(epoch={epoch:0})`; `{ds}.as_torch()` has set_epoch()",
    "state_dict | save_state | state | position | cursor": "`iter({ds}).state_dict()`: the iterator has the state",
    "load_state_dict(state_dict) | resume(state) | from_state(state) | restore(state) | load_state(state)"
    " | load_checkpoint(state) | continue_from(state)": "`{ds}.iterate(state={state_dict})`",
    "get_state": "`iter({ds}).get_state()`: the iterator has the state",
    "set_state(state)": "`{ds}.iterate(state={state})`",
    "with_format(type) | set_format(type) | formatted_as(type) | reset_format": (
        "`{ds}.as_torch()`, `{ds}.as_jax()` or `{ds}.as_tf_dataset()`; without them values are NumPy's"
    ),
    "with_transform(transform) | set_transform(transform)": "`{ds}.map({transform:function})`",
    "decode": "`{ds}` as it is: examples are decoded; " + _PARTIAL + "({{...}}))` decodes some features",
    "iter_batches(batch_size) | iter_torch_batches(batch_size) | to_batched | get_batch(batch_size) | batches(batch_size)"
    " | next_batch(batch_size) | as_batches": "`{ds}.batch({batch_size:32})`",
    "map_batches(fn) | map_elements(fn) | map_rows(fn) | apply_batch(fn)": "`{ds}.batch(32).map({fn:function})`, or `{ds}.map({fn:function})` for single examples",
    "foreach(fn) | for_each(fn)": "`for example in {ds}: {fn:function}(example)`",
    "flatmap(fn) | flatMap(fn) | explode | unnest": "`{ds}.flat_map({fn:function})`",
    "fold(fn)": "`functools.reduce({fn:function}, {ds}, 0)`",
    "shuffled(seed) | with_shuffle(seed) | random_shuffle(seed) | permute(seed) | randomize_block_order | randomize(seed) | shuffle_files(seed)"
    " | global_shuffle(seed)": "`{ds}.shuffle(seed={seed:0})`",
    "dataloader | loader | to_dataloader | as_dataloader | get_dataloader | data_loader | to_torch_dataloader | as_torch_dataloader"
    " | as_torch_dataset | to_iterable | to_torch_dataset": _TORCH_LOADER,
    "normalize | augment | rescale | preprocess | tokenize | apply_chat_template | transforms | resize | add_transform | fillna | isna"
    " | standardize | to_uint8 | to_float | vectorize | embed | encode | lowercase"
    " | replace | clean | impute | one_hot": _IN_MAP,
    "min(column) | max(column) | mean(column) | std(column) | sum(column) | median(column) | nunique(column)"
    " | histogram(column) | summary(column) | info_stats | profile": "`beam-datasets stats NAME`, or `{ds}.to_pandas()[{column:'label'}]`",
    "repartition(num_blocks) | coalesce(num_blocks) | num_blocks | rechunk": "`bd.materialize(..., num_shards={num_blocks:8})`, which writes other shards",
    "union(other) | extend(other) | cat(other) | chain(other)": "`bd.mix({{{ds}: len({ds}), {other}: len({other})}}, stop='all')`, or `bd.load(..., split='train+test')`",
    "join(other) | merge(other)": "`{ds}.to_pandas().merge(...)`, or a builder that reads both datasets",
    "distinct(column)": "`{{e[{column:'label'}] for e in {ds}}}`, a set; keys are unique within a split",
    "print_schema | printSchema | schema_string | show_schema": "`{ds}.features`, or `beam-datasets info NAME`",
    "set_slice(sl) | islice(sl)": "`{ds}.skip(10).take(20)`, or `split='train[10:30]'`",
    "size_limit | replication | hash | num_partitions": "nothing: the order does not depend on files, caches or nodes",
    "reset_state_dict | reset_state | restart | rewind | reload | refresh | open | initialize": "`iter({ds})`, which starts from the beginning each time",
    "optimize | compact_files | vacuum | compact": "`bd.materialize(..., num_shards=8)`, which writes other shards: a published version never changes",
    "get_label_names | get_labels | get_classes | id2label | label2id": "`{ds}.features['label'].names`; a ClassLabel also has `int2str` and `str2int`",
    "len": "`len({ds})`",
    "help | doc": "`help({ds})`, or docs/reference/api.md",
    "pad_sequences(maxlen)": "`{ds}.batch(32, pad_length={maxlen:128})`",
    "pad_batch(batch_size) | pad_and_batch(batch_size)": "`{ds}.padded_batch({batch_size:32})`, or `{ds}.batch({batch_size:32}, pad_length=128)`",
    "dynamic_batch | bucket_batch | token_batch(tokens) | batch_by_tokens(tokens) | batch_by_size(tokens) | group_by_length | dynamic_batching": (
        "`{ds}.batch_by_length([128, 512], [32, 16, 8], length='tokens')`, or `{ds}.pack({tokens:512}, ['tokens'])`"
    ),
    "pack_examples(length) | pack_tokens(length) | pack_dataset(length) | concat_and_chunk(length)": "`{ds}.pack({length:512}, ['tokens'])`",
    "chunk_tokens(length) | split_long(length)": "`{ds}.chunk({length:512}, ['tokens'])`",
    "decode_images | decode_image | load_images": "`{ds}` as it is: images are decoded arrays",
    "encode_labels | label_encode": "`bd.features.ClassLabel` in the builder; a label that is read is an integer",
    "threads(count) | with_num_threads(count) | multithread(count) | with_threads(count) | with_workers(count)": "`{ds}.parallel(threads={count:4})`",
    "multiprocess(count) | multiprocessing(count) | with_processes(count) | num_proc": "`{ds}.parallel(processes={count:4})`"
    + _GUARD,
    "publish | materialise(path)": "`bd.materialize(source, split='train[:10%]', to='name', data_dir=directory)`, which publishes a slice",
    "is_empty | empty": "`len({ds}) == 0`",
    "is_streaming | is_lazy | is_iterable | is_map_style | is_indexable": (
        "`isinstance({ds}, bd.Dataset)`: a Dataset has a length and items, a `bd.Stream` is read in order; both read as needed"
    ),
    "set_worker_info": _RANKS,
    "type | tensor": "`{ds}[0]`: values are NumPy's; `{ds}.as_torch()` has tensors",
    "trim_and_pad(max_length)": "`{ds}.padded_batch(32, pad_length={max_length:512})`, where the length may be a dict from features to lengths",
    "num_bytes | nbytes | size_bytes | memory_usage": "`bd.builder(name, data_dir=directory).info.dataset_size`",
    "dataset_name": "`bd.builder(name, data_dir=directory).name`",
    "metadata": "`bd.builder(name, data_dir=directory).info.metadata`",
    "lookup(key) | get(key) | by_key(key) | get_by_key(key) | get_by_id(key) | fetch(key) | index(key)": "`{ds}.find({key})` for a key, or `{ds}[3]` for a position",
    "as_iterable | iterable | iter_rows | iterate_rows | iter_examples | rows | examples | to_iterator | stream | streaming": "`for example in {ds}`",
    "copy | clone | deepcopy | freeze | lazy | random_access": "`{ds}` as it is: it never changes, and its examples are read when they are asked for",
    "batch_size | num_steps | n_batches | num_iterations": "`len({ds}.batch(32))` for the number of batches",
    "balance(column) | oversample(column) | undersample(column) | weighted(column)": (
        "`bd.materialize(..., where=\"label = 'cat'\")` for each class, and `bd.mix({{a: 0.5, b: 0.5}})` of them"
    ),
    "kfold(n) | k_fold(n) | cross_validation(n) | cross_validate(n) | folds(n) | get_fold(n)": "`bd.load(..., split=[f'train[:{{i}}%]+train[{{i + 20}}%:]' for i in range(0, 100, 20)])` for 5 folds",
    "split_by(column) | stratify(column) | partition(column) | partition_by(column)": (
        "`bd.SplitByValue` in the builder, or `beam-datasets build csv --split_by`; `{ds}.filter(function)` selects"
    ),
    "filter_by(function) | filter_map(function) | find_all(function) | remove(function)": "`{ds}.filter({function:function})`",
    "memory_map | to_memory | load_into_memory | preload": "`list({ds})`, or `{ds}.to_arrow()` for columns in memory",
    "to_ray | to_dask | to_spark | to_beam | to_duckdb | to_lance | to_zarr | to_hdf5": "`{ds}.to_arrow()`, which these libraries read",
    "peek | sample_one | example": "`{ds}[0]`",
    "with_options_and_seed | with_seed(seed)": "`{ds}.shuffle(seed={seed:0})`",
    "flatten_indices | to_iterable_dataset | to_iter_dataset | unlisted": "`{ds}` as it is; `iter({ds})` is an iterator",
    "cleanup_cache_files": "`beam-datasets gc DATA_DIR`, which removes what killed runs left",
    # ------------------------------------------------------------------------- Hugging Face datasets: files and tables
    "to_torch | to_pytorch | torch | as_pytorch | pytorch": "`{ds}.as_torch()`",
    "to_jax | jax": "`{ds}.as_jax()`",
    "to_tf_dataset(batch_size) | to_tf | to_tensorflow | as_tf | as_tensorflow | tf | tensorflow": "`{ds}.as_tf_dataset()`, for batches `{ds}.batch({batch_size:32}).as_tf_dataset()`",
    "as_keras | to_keras | as_keras_dataset | to_keras_dataset": "`{ds}.as_tf_dataset()`, or `torch.utils.data.DataLoader({ds}.as_torch())`, which Keras takes",
    "as_lightning | to_lightning | as_lightning_datamodule | as_datamodule": "`torch.utils.data.DataLoader({ds}.as_torch())` as the `train_dataloader` of Lightning",
    "to_grain | as_data_source | to_map_dataset": "`{ds}.as_grain_source()`",
    "to_grain_dataset | as_grain_dataset | as_grain": "`grain.MapDataset.source({ds}.as_grain_source())`",
    "to_dataframe | to_df | as_pandas": "`{ds}.to_pandas()`, or `bd.as_dataframe({ds})` for the values as they are read",
    "as_dataframe": "`bd.as_dataframe({ds})`",
    "to_reader | to_record_batch_reader | record_batch_reader": "`pyarrow.RecordBatchReader.from_stream({ds})`",
    "to_table | scanner | to_arrow_table | to_batches | to_pyarrow | as_arrow | arrow": "`{ds}.to_arrow()`",
    "to_dict | as_dict | as_arrays | to_arrays": "`{{name: [e[name] for e in {ds}] for name in {ds}.features}}`, or `next(iter({ds}.batch(len({ds}))))`, a dict of arrays",
    "to_list | tolist | collect | to_pylist": "`list({ds})`",
    "as_polars | polars": "`{ds}.to_polars()`",
    "to_hf | as_hf | to_huggingface | to_datasets": "`datasets.Dataset.from_pandas({ds}.to_pandas())`",
    "export(path)": "`bd.export(source, to={path:directory}, format='parquet')`, or another format",
    "to_webdataset | write | to_array_record | to_arrayrecord | write_arrayrecord | write_webdataset | export_webdataset | to_tar | to_tars | write_array_record": "`bd.export(source, to=directory, format='webdataset')`",
    "to_tfrecord(path) | to_tfrecords(path) | write_tfrecord(path) | save_tfrecord(path) | export_tfrecord(path)": (
        "`bd.materialize(source, to='name', data_dir={path:directory})`, whose shards are TFRecord files; `bd.export(...)` writes other formats"
    ),
    "materialize": "`bd.materialize(source, split='train[:10%]', to='name', data_dir=directory)`",
    "verify | check": "`beam-datasets verify NAME`, or `bd.verify(directory)`",
    "diff(other) | compare(other)": "`bd.diff(old, new)`, with the names or directories of two versions",
    "stats | statistics | plot | hist": "`beam-datasets stats NAME --html page.html`",
    "name | data_dir | dataset_dir": "`bd.builder(name, data_dir=directory).{name}`",
    "labels | classes | class_names | label_names | names | num_classes | num_labels | int2str | str2int | class_to_idx": (
        "`{ds}.features['label'].names`; a ClassLabel also has `num_classes`, `int2str` and `str2int`"
    ),
    "targets | y | y_train | y_test | label": "`[e['label'] for e in {ds}]`",
    "ids": "`[e['id'] for e in {ds}]`; `{ds}.find(key)` finds an example by its key",
    "X | x | x_train | x_test | inputs": "`next(iter({ds}.batch(len({ds}))))`, a dict with an array of each feature",
    "train | test | validation | val | dev": "`bd.load(name, split='{name}')`: `{ds}` is of one split, or of a slice",
    "as_supervised": "`bd.load(..., as_supervised=True)`",
    "unshuffle": "`{ds}` before `shuffle()`",
    "trim(length) | trim_and_pad_dataset(length) | pad_to(length) | truncate(length)": "`{ds}.batch(32, pad_length={length:128})`, or `{ds}.map(function)`",
    "next": "`next(iter({ds}))`",
    "to(device) | cuda(device) | to_device(device) | device": "`{ds}.as_jax(device={device:None})`, or `tensor.to({device:'cuda'})` for each tensor of a batch of `{ds}.as_torch()`",
    "pin_memory | collate_fn | worker_init_fn | batch_sampler | persistent_workers": _TORCH_LOADER
    + ", whose argument it is",
    "split_by_node(rank, world_size) | split_by_worker": "`{ds}.as_torch()`, which finds the ranks, or `{ds}.shard({rank:0}, {world_size:2})`",
    "pipeline | compute | persist | checkpoint | execute | run": "`{ds}` as it is: examples are made when they are read",
    "to_numpy | as_numpy | numpy": "`{ds}[0]` as it is: values are NumPy's; `next(iter({ds}.batch(len({ds}))))` is all",
    "prepare | build | generate | download_and_prepare": "`beam-datasets build MODULE_OR_FILE`: what `bd.load` returns is published",
    "seed_worker": "nothing: workers draw no random numbers; `{ds}.shuffle(seed=0)` decides the order",
    "as_numpy_iterator | to_numpy_iterator | as_iterator": "`iter({ds})`; examples are NumPy values already",
    "to_csv(path_or_buf) | write_csv(path) | save_csv(path) | export_csv(path) | save_as_csv(path) | save_to_csv(path)": "`{ds}.to_pandas().to_csv({path_or_buf:'train.csv'})`",
    "to_json(path_or_buf) | to_jsonl(path) | write_json(path) | write_jsonl(path) | save_json(path) | save_jsonl(path) | export_json(path) | export_jsonl(path)": "`bd.export(source, to={path_or_buf:directory}, format='jsonl')`",
    "to_parquet(path_or_buf) | write_parquet(path) | save_parquet(path) | export_parquet(path) | save_as_parquet(path)": "`bd.export(source, to={path_or_buf:directory}, format='parquet')`",
    "to_sql(name, con)": "`{ds}.to_pandas().to_sql({name:'table'}, {con:connection})`",
    "save_to_disk(dataset_path) | save(path) | snapshot(path) | dump(path) | write_dataset | to_disk(path) | to_file(path) | to_files(path)": (
        "`bd.materialize(source, split='train[:10%]', to='name', data_dir=directory)`, which publishes a slice"
    ),
    "load_from_disk(dataset_path) | load(path)": "`bd.builder_from_directory({dataset_path:directory}).as_dataset('train')`",
    "push_to_hub(repo_id) | upload(path)": _EXPORT + ", whose files can be uploaded to {repo_id:a hub}",
    "from_csv(path_or_paths)": _FILES + " csv --name NAME --pattern {path_or_paths:'*.csv'} --data_dir DIR`",
    "from_json(path_or_paths)": _FILES + " jsonl --name NAME --pattern {path_or_paths:'*.jsonl'} --data_dir DIR`",
    "from_parquet(path_or_paths)": _FILES
    + " parquet --name NAME --pattern {path_or_paths:'*.parquet'} --data_dir DIR`",
    "from_text(path_or_paths) | list_files(file_pattern)": _FILES
    + " text_lines --name NAME --pattern {path_or_paths:'*.txt'} --data_dir DIR`",
    "from_generator(generator) | from_list(mapping) | from_dict(mapping) | from_tensor_slices(tensors) | from_tensors"
    " | from_pandas(df) | from_polars(df) | from_spark(df) | from_sql(sql) | from_file | from_buffer | range | random"
    " | counter | source(source)": _BUILDER,
    "create_index | create_scalar_index | create_vector_index | nearest | list_indices | add_faiss_index | add_elasticsearch_index | add_faiss_index_from_external_arrays | drop_index | get_index"
    " | get_nearest_examples | get_nearest_examples_batch | is_index_initialized | list_indexes"
    " | load_elasticsearch_index | load_faiss_index | save_faiss_index | search | search_batch": _INDEX,
    # --------------------------------------------------------------------------------------------------------- tf.data
    "pipe(transformation_func)": "`{transformation_func:function}({ds})`",
    "apply(transformation_func)": "`{ds}.map({transformation_func:function})` for a function of an example; that of tf.data is `function({ds})`",
    "bucket_by_sequence_length(element_length_func, bucket_boundaries, bucket_batch_sizes)": (
        "`{ds}.batch_by_length({bucket_boundaries}, {bucket_batch_sizes}, length={element_length_func:'tokens'})`"
    ),
    "group_by_window": "`{ds}.batch_by_length(boundaries, batch_sizes, length='tokens')`, or `itertools.groupby`",
    "cache | mcached | lmdb_cached | cache_usage | cache_limit": _CACHE,
    "concatenate(dataset) | concat(dataset)": (
        "`bd.load(..., split='train+test')`; `bd.mix([{ds}, {dataset:other}], weights=[len({ds}), len({dataset:other})])` mixes"
    ),
    "choose_from_datasets | sample_from_datasets | rejection_resample | resample_streams": "`bd.mix({{a: 0.7, b: 0.3}}, seed=0)`",
    "enumerate(start)": "`enumerate({ds}, {start:0})`",
    "map_with_index(transform)": "`({transform:function}(i, e) for i, e in enumerate({ds}))`",
    "get_single_element": "`{ds}[0]`",
    "ignore_errors": "`beam-datasets verify NAME --repair`; a damaged record is an error that names it",
    "interleave | parallel_interleave": (
        "`{ds}` as it is: files are interleaved; `bd.ReadConfig(interleave_cycle_length=16)` changes how"
    ),
    "options | with_options": "`bd.ReadConfig(...)` of `bd.load(..., read_config=...)`",
    "prefetch(buffer_size) | mp_prefetch(options) | prefetch_to_device | with_prefetch(n)": (
        "`{ds}.parallel(threads=4)`; `{ds}.parallel(processes=4)` for functions in Python"
        + _GUARD
        + "; remote files are read ahead as it is"
    ),
    "ragged_batch(batch_size) | dense_to_ragged_batch(batch_size) | sparse_batch(batch_size) | rebatch(batch_size)"
    " | batched(batchsize) | listed(batchsize) | shuffle_batch(batch_size)": "`{ds}.batch({batch_size:32})`",
    "window(size, shift) | sliding_window(size, step) | rolling_window(size, step) | windows(size, shift)": (
        "`{ds}.batch({size:4})`, or `({ds}[i : i + {size:4}] for i in range(0, len({ds}), {shift:1}))` for windows that overlap, "
        "in dataset order"
    ),
    "reduce(initial_state, reduce_func)": "`functools.reduce({reduce_func:function}, {ds}, {initial_state:0})`",
    "scan(initial_state, scan_func)": "`itertools.accumulate({ds}, {scan_func:function}, initial={initial_state:0})`",
    "take_while(predicate)": "`itertools.takewhile({predicate:function}, {ds})`",
    "unbatch | unbatched": "the dataset before `batch()`: its items are single examples",
    "zip": "`zip(a, b)`, or one dataset with the features of both",
    "__add__ | __or__": "`bd.load(..., split='train+test')`, or `bd.mix({{a: len(a), b: len(b)}}, stop='all')`",
    "__and__ | __sub__": "`bd.diff(old, new)` for two versions, or `{ds}.filter(function)`",
    "__contains__(name)": "`{name} in {ds}.features` for a feature, or `{ds}.find(key)`, which is None where there is no such key",
    "__mul__(count)": "`{ds}.repeat({count:2})`",
    "__setitem__(key)": "`{ds}.map(lambda e: {{**e, {key}: value}})` for a feature, `{ds}.shuffle(seed=0)` for another order, or "
    "`bd.append(name, source)` for more or corrected examples",
    # ----------------------------------------------------------------------------------------------------------- Grain
    "seed(seed) | set_seed(seed) | reshuffle(seed)": "`{ds}.shuffle(seed={seed:0})`",
    "slice(sl)": "`{ds}.skip(10).take(20)`, or `split='train[10:30]'`",
    "parents | is_shuffled | operations": "`repr({ds})`, which shows the operations",
    # ----------------------------------------------------------------------------------------------- words of anybody
    "split_at(position) | cut(position)": "`{ds}.take({position:100})` and `{ds}.skip({position:100})`",
    "seek(count) | start_from(count) | fast_forward(count) | from_step(count) | advance(count)": "`{ds}.skip({count:100})`",
    "row(index) | item(index) | get_row(index) | nth(index) | example_at(index)": "`{ds}[{index:3}]`",
    "last": "`{ds}[-1]`",
    "any(fn) | all(fn)": "`{name}(map({fn:function}, {ds}))`",
    "contains(key) | has(key) | exists(key) | has_key(key)": "`{ds}.find({key}) is not None`",
    "find_index(fn) | index_where(fn)": "`next(i for i in range(len({ds})) if {fn:function}({ds}[i]))`",
    "print | display | preview | view": "`bd.show_examples({ds})`",
    "bootstrap | resample | sample_with_replacement": (
        "`{ds}.as_torch(map_style=True)`, with `torch.utils.data.RandomSampler(..., replacement=True)` for the DataLoader"
    ),
    "bucket(boundaries) | bucket_by_length(boundaries) | buckets(boundaries)": (
        "`{ds}.batch_by_length({boundaries:[128, 512]}, [32, 16, 8], length='tokens')`"
    ),
    "pad | padded": "`{ds}.batch(32, pad=True)`, or `{ds}.batch(32, pad_length=128)`",
    "packed(length) | pack_sequences(length) | group_texts(length)": "`{ds}.pack({length:512}, ['tokens'])`",
    "collate(fn) | with_collate(fn)": "`{ds}.batch(32).map({fn:function})`",
    "with_rng | with_random | random_map(transform)": "`{ds}.map(function)`, where the function takes its randomness from a feature of the example, such as its key",
    "num_epochs(count) | epochs(count)": "`{ds}.repeat({count:2})`",
    "cycle | forever | loop | infinite": "`{ds}.repeat()`, which has no end",
    "is_finite | is_infinite | is_endless": "`len({ds})`, which is a TypeError where there is no end",
    "drop_remainder | drop_last": "`{ds}.batch(32, drop_remainder=True)`",
    "mix(other, weights) | blend(other, weights)": "`bd.mix([{ds}, {other}], weights={weights:[0.7, 0.3]}, seed=0)`",
    "class_weights | class_counts | label_counts | sample_weights | class_distribution": (
        "`collections.Counter(int(e['label']) for e in {ds})`, or `beam-datasets stats NAME`"
    ),
    "sql(query) | duckdb": "`{ds}.to_arrow()`, a table that DuckDB queries; `bd.materialize(..., where='price > 3')` selects examples",
    "path | url | root | directory | location | uri": "`bd.builder(name, data_dir=directory).dataset_dir`",
    "rank | world_size | process_index | process_count | local_rank": "`{ds}.as_torch()`, which finds the ranks, or `{ds}.shard(0, 2)`",
    "T | abs | aggregate | asof | bfill | boxplot | clip | convert_dtypes | cov | cummax | cummin | cumprod | duplicated | ewm"
    " | expanding | ffill | iat | idxmax | idxmin | interpolate | isin | kurtosis | mask | mode | notna | notnull | pct_change"
    " | pivot_table | prod | product | quantile | reindex | round | select_dtypes | shift | skew | sort_index | squeeze | stack | style"
    " | to_clipboard | to_hdf | to_orc | to_records | to_stata | to_xarray | to_xml | transpose | unstack | var | corr | isnull | melt | pivot | nlargest | nsmallest | set_index | reset_index | to_excel | to_feather | to_pickle | to_html"
    " | to_markdown | to_string | to_latex | crosstab | cumsum | rolling | eval": "`{ds}.to_pandas().{name}(...)`",
    # ------------------------------------------------------------------------------------------------- Polars, pyarrow
    "height": "`len({ds})`",
    "to_dicts": "`list({ds})`",
    "glimpse": "`bd.show_examples({ds})`",
    "to_pydict": "`{ds}.to_arrow().to_pydict()`",
    "get_column(name) | to_series(name) | field(name)": "`[e[{name}] for e in {ds}]`, or `{ds}.to_polars()[{name}]`",
    "get_columns | iter_columns | itercolumns | to_struct | to_dummies | hstack | vstack | unpivot | upsample | null_count | n_unique"
    " | is_duplicated | is_unique | top_k | bottom_k | group_by_dynamic | join_asof | join_where | rows_by_key | sum_horizontal"
    " | max_horizontal | mean_horizontal | min_horizontal | write_excel | write_ipc | write_avro | write_database | write_delta"
    " | write_clipboard": "`{ds}.to_polars().{name}(...)`",
    "gather(indices)": "`{ds}[{indices}]`, a list of examples",
    "gather_every(n)": "`{ds}[::{n:2}]`, a list of examples",
    "reverse": "`reversed({ds})`, or `{ds}[::-1]`",
    "drop_nulls | drop_null | drop_nans": "`{ds}.filter(lambda example: example[name] is not None)`",
    "fill_null(value) | fill_nan(value)": "`{ds}.batch(32, fill={value:0})`, whose `fill` replaces missing values",
    "with_row_index | with_row_count": "`enumerate({ds})`",
    "with_columns_seq | select_seq | map_columns": _IN_MAP,
    "iter_slices(n_rows)": "`{ds}.batch({n_rows:32})`",
    "write_ndjson(path) | sink_ndjson(path)": "`bd.export(source, to={path:directory}, format='jsonl')`",
    "sink_parquet(path) | sink_csv(path) | sink_ipc(path)": "`bd.export(source, to={path:directory}, format='parquet')`",
    "estimated_size | get_total_buffer_size": "`bd.builder(name, data_dir=directory).info.dataset_size`",
    "collect_schema": "`{ds}.features`",
    "explain | show_graph": "`repr({ds})`, which shows the operations",
    "combine_chunks | shrink_to_fit | set_sorted | unify_dictionaries": "`{ds}.to_arrow()`, a table",
    "from_dicts | from_pylist | from_pydict | from_arrays | from_batches | from_records": _BUILDER,
    "equals(other)": "`bd.diff(old, new)`, with the names or directories of two versions",
    # ----------------------------------------------------------------------------------- Lance, Ray, older names of tf.data
    "get_fragments | get_fragment | fragments | input_files": "`bd.builder(name, data_dir=directory).info.splits['train'].filepaths`",
    "latest_version | tags": "`beam-datasets list --versions`, which shows versions and tags",
    "cleanup_old_versions": "`beam-datasets prune NAME --keep 7`",
    "alter_columns | replace_schema | append_column | set_column | insert_column | replace_column | remove_column": (
        _IN_MAP + "; a published version never changes"
    ),
    "take_all": "`list({ds})`",
    "take_batch(batch_size)": "`next(iter({ds}.batch({batch_size:32})))`",
    "streaming_split(n) | split_at_indices(indices) | split_proportionately(proportions) | streaming_train_test_split": (
        "`bd.load(..., split=['train[20%:]', 'train[:20%]'])`; `{ds}.as_torch()` divides examples among ranks and workers"
    ),
    "iter_tf_batches(batch_size)": "`{ds}.batch({batch_size:32}).as_tf_dataset()`",
    "write_tfrecords(path)": "`bd.materialize(source, to='name', data_dir={path:directory})`, whose shards are TFRecord files",
    "make_one_shot_iterator | make_initializable_iterator": "`iter({ds})`",
    "map_and_batch(map_func, batch_size)": "`{ds}.map({map_func:function}).batch({batch_size:32})`",
    "parallel_map(map_func)": "`{ds}.map({map_func:function}).parallel(threads=4)`",
    "shuffle_and_repeat": "`{ds}.shuffle(seed=0).repeat()`",
    "copy_to_device | device_put": "`{ds}.as_jax(device=None)`",
    "assert_cardinality(count)": "`len({ds}) == {count:100}`",
    "window_shuffle(window_size)": "`{ds}.shuffle(seed=0, window={window_size:1000})`",
    "select_from_datasets": "`bd.mix({{a: 0.7, b: 0.3}}, seed=0)`",
    # -------------------------------------------------------- PyTorch, torchvision, MosaicML, WebDataset, SeqIO: attributes
    "samples | imgs | images | tensors | indices": "`{ds}[0]` for an example; `for example in {ds}` reads all",
    "prefetch_factor | timeout | multiprocessing_context | generator": _TORCH_LOADER + ", whose argument it is",
    "cumulative_sizes": "`bd.builder(name, data_dir=directory).info.splits['train'].shard_lengths`",
    "download": "`beam-datasets build MODULE_OR_FILE`, whose builder downloads; a published dataset is read from its data_dir",
    "local | remote": "`bd.load(name, data_dir=directory)`, where data_dir may be a URL; $BEAM_DATASETS_CACHE_DIR keeps what was read",
    "shuffle_algo | shuffle_block_size | num_canonical_nodes | set_shuffle | shardshuffle | nodesplitter": (
        "`{ds}.shuffle(seed=0)`, or `{ds}.shuffle(seed=0, window=1000)`; the order depends on no number of nodes"
    ),
    "partition_algo | sampling_method | sampling_granularity | batching_method | ddp_equalize | resampled": (
        "`{ds}.as_torch()`, whose ranks take the same number of steps"
    ),
    "streams | tasks": "`bd.mix({{a: 0.7, b: 0.3}}, seed=0)`, which takes datasets",
    "associate | extract": "`{ds}.map(function)`",
    "metric_fns | postprocess_fn | predict_metric_fns | score_metric_fns": _RUN_MODEL,
    "cache_dir | cached_dataset | requires_caching | supports_caching": _CACHE,
    # ------------------------------------------------------------------------------------------------------ WebDataset
    "to_tuple(x, y)": "`bd.load(..., as_supervised=True)`, or `{ds}.map(lambda e: (e[{x:'image'}], e[{y:'label'}]))`",
    "map_tuple(x, y)": "`bd.load(..., as_supervised=True)`, then `{ds}.map(lambda pair: ({x:f}(pair[0]), {y:g}(pair[1])))`",
    "map_dict | map_keys": "`{ds}.map(lambda e: {{**e, {keyword_items:'image': function(e['image'])}}})`",
    "rename_keys": "`{ds}.map(lambda e: {{({keyword_names:names}).get(name, name): e[name] for name in e}})`",
    "extract_keys": "`{ds}.map(lambda e: {{'x': e['image'], 'y': e['label']}})`",
    "with_epoch(nsamples, nbatches)": "`{ds}.repeat().take({nsamples:{nbatches:1000}})`",
    "with_length(n)": "`len({ds})`, which is known",
    "rsample(p) | random_sample(p) | subsample(p)": "`bd.load(..., split='train[:{p:10%}]')`, which is a random sample",
    "sample(n) | choice(n)": "`{ds}.shuffle(seed=0).take({n:100})`, or `bd.load(..., split='train[:10%]')`, which is a random sample",
    "xdecode": "`bd.load(..., decoders={{'image': decoder}})`",
    "log_keys": "`list({ds}.features)`",
    "append | stage | compose | invoke": "`{ds}.map(function)` or `function({ds})`; `bd.append(name, source)` appends examples",
    "create_url_iterator | iterator | iterator1 | get_iterator": "`iter({ds})`",
    "close": "`with iter({ds}) as iterator:`, which closes its files; a dataset holds none open",
    # ----------------------------------------------------------------------------------------------- MosaicML, LitData
    "get_item(sample_id)": "`{ds}[{sample_id:0}]`",
    "next_epoch": "`{ds}.iterate(epoch=1)`, or `{ds}.repeat()`",
    "prepare_shard | evict_shard | evict_coldest_shard | on_exception": _CACHE,
    "predownload | download_timeout | download_retry": "`{ds}.parallel(threads=4)`; remote files are read ahead as it is",
    "get_len | reset": "`len({ds})`; each `iter({ds})` starts from the beginning",
    # ----------------------------------------------------------------------------------------------------------- SeqIO
    "num_input_examples(split)": "`bd.builder(name, data_dir=directory).info.splits[{split:'train'}].num_examples`",
    "get_dataset": "`bd.load(name, split='train')`",
    "splits": "`list(bd.builder(name, data_dir=directory).info.splits)`",
    "preprocessors | postprocessor | target_transform": "`{ds}.map(function)`",
    # ---------------------------------------------------------------------------------------------------- pandas, Lance
    "head(n) | show | limit(n) | first": "`{ds}[:{n:5}]`; `bd.show_examples({ds})` shows them in a notebook",
    "tail(n)": "`{ds}[-{n:5}:]`",
    "iloc | loc | at | index_select": "`{ds}[3]`, `{ds}[10:20]` or `{ds}[[3, 1, 2]]`",
    "describe | value_counts | agg": "`beam-datasets stats NAME --data_dir DIR`",
    "groupby(by) | group_by(by)": "`{ds}.to_pandas().groupby({by:'label'})`",
    "query(expr) | where(expr)": "`{ds}.filter(function)`, or `bd.materialize(..., where={expr:'price > 3'})`",
    "iterrows | itertuples | to_iter | items | values": "`for example in {ds}`",
    "delete(predicate) | delete_where(predicate)": "`bd.materialize(..., where={predicate:'price > 3'})`, whose condition is that of the examples to keep; `beam-datasets append NAME --delete FILE` deletes keys",
    "insert(data) | update(values) | upsert(data) | merge_insert(on) | merge_columns(data)": "`bd.append(name, source)`, which publishes a version with more or corrected examples: a published one never changes",
    "drop(columns) | exclude(columns)": _PARTIAL + "([...]))` with the features to keep, without {columns}",
    "dropna": "`{ds}.filter(lambda example: example[name] is not None)`",
    "drop_duplicates | dedup": "`beam-datasets build --ignore_duplicates`; keys are unique within a split",
    "apply_map | transform(function)": "`{ds}.map({function:function})`",
    "num_examples": "`len({ds})`",
    "num_batches | steps_per_epoch | steps | batches_per_epoch": "`len({ds}.batch(32))`",
    "dataset | datasets | sampler": "`{ds}` itself",
    "num_workers": _TORCH_LOADER,
    "random_split(lengths) | split_dataset": "`bd.load(..., split=['train[20%:]', 'train[:20%]'])`, or `bd.even_splits('train', 2)`",
}

STREAM: Mapping[str, str] = {
    "num_rows | num_samples | size | count | count_rows | cardinality | num_examples": "`sum(1 for _ in {stream})`",
    "select(indices) | iloc | loc | get_item": "`itertools.islice({stream}, 10)`: what passes is known when it is read",
    "head(n) | show | limit(n) | first": "`list({stream}.take({n:5}))`",
    "tail | train_test_split | random_split | to_map_dataset | find": "the dataset before `filter()`, or `bd.materialize(..., where=...)`",
    "prefetch | mp_prefetch | parallel | raw": "`{name}()` of the dataset, before `filter()`",
    "state_dict | get_state": "`iter({stream}).get_state()`: the iterator has the state",
    "to_dataframe | as_dataframe": "`bd.as_dataframe({stream})`",
    "to_arrow | to_pandas | to_polars": "`{name}()` of the dataset before `filter()`, and filter the table, as in `ds.to_arrow().filter(...)`",
    "as_jax | to_jax | as_tf_dataset | to_tf_dataset | as_grain_source | as_data_source": (
        "`iter({stream})`: that adapter divides a dataset by positions, of which a stream has none; `{stream}.as_torch()` takes streams"
    ),
}
"""The names for which a `Stream` has another text than a Dataset."""

ITERATOR: Mapping[str, str] = {
    "__len__": "`len(ds)` of the dataset; `operator.length_hint({iterator})` counts what remains. A DataLoader of PyTorch takes `ds.as_torch()`",
    "num_rows | num_examples | size | length | count": "`len(ds)` of the dataset; `operator.length_hint({iterator})` counts what remains",
    "features | info | column_names | schema | dataset": "`ds`, the dataset before `iter()`, such as `ds.features`",
    "prev | previous | back": "`{iterator}.set_state(state)`, with what `{iterator}.get_state()` returned before",
    "as_torch | as_jax | as_tf_dataset | as_grain_source": "`ds.{name}()` of the dataset: adapters come before `iter()`",
    "to | cuda | device": "`ds.as_jax(device=None)`, or `tensor.to('cuda')` for each tensor of a batch of `ds.as_torch()`",
    "split | random_split": "`bd.load(..., split=['train[20%:]', 'train[:20%]'])`",
    "__getitem__(position)": "`next({iterator})`, or `ds[{position:0}]` of the dataset",
    "get_next | next | get | read | take_one": "`next({iterator})`",
    "has_next | is_exhausted | done | at_end": "`next({iterator}, None)`, which is None at the end",
    "send | throw": "`next({iterator})`: it is no generator; `{iterator}.set_state(state)` moves it",
    "peek | lookahead": "`next(ds.iterate(state={iterator}.get_state()))`",
    "position | step | tell | index | offset | num_batches | epoch | cursor | sample_in_epoch | global_step": "`{iterator}.get_state()`, which has the position and the epoch",
    "seek(position) | fast_forward(position) | jump(position)": "`iter(ds.skip({position:10}))`, or `{iterator}.advance(10)` from here",
    "to_pandas | to_arrow | to_list | as_dataframe | to_numpy | collect | tolist": "`list({iterator})`, or `ds.to_pandas()` of the dataset",
    "get_next_as_optional": "`next({iterator}, None)`",
    "save(path)": "`json.dump({iterator}.get_state(), file)`",
    "restore(path) | load(path)": "`{iterator}.set_state(json.load(file))`",
    "skip(n)": "`{iterator}.advance({n:1})`",
    "checkpoint | state | get_checkpoint": "`{iterator}.get_state()`",
    "reset | rewind | restart": "`iter(ds)`, which starts from the beginning; `{iterator}.set_state(state)` goes to a state",
    "set_epoch(epoch)": "`ds.iterate(epoch={epoch:0})`",
    "element_spec": "`ds.features`",
    "as_numpy": "`{iterator}` as it is: values are NumPy's",
    "batch(batch_size) | map(function) | shuffle(seed) | take(count) | repeat(count) | filter(function)"
    " | shard(rank)": "`iter(ds.{name}(...))`: operations come before `iter()`",
    "start_prefetch | prefetch": "`ds.parallel(threads=4)`",
}

BUILDER: Mapping[str, str] = {
    "__getitem__(split)": "`{builder}.as_dataset({split:'train'})`",
    "__len__": "`len({builder}.as_dataset('train'))`, or `{builder}.info.splits.total_num_examples`",
    "download_and_prepare | build | prepare | generate | create": "`beam-datasets build MODULE_OR_FILE`, or the builder's class: this version is published",
    "as_streaming_dataset": "`{builder}.as_dataset('train')`, which reads a store as needed",
    "data_path | pkg_dir_path | data_dir_root | path | directory": "`{builder}.dataset_dir`",
    "shards | files | filepaths | filenames": "`{builder}.info.splits['train'].filepaths`",
    "exists | is_built | is_published": "`{builder}.is_prepared()`",
    "verify | validate | check | repair": "`bd.verify({builder}.dataset_dir)`",
    "delete | remove | rm": "`beam-datasets prune`, which removes old versions; a published version never changes",
    "cleanup | clean | clear | close | clear_cache | cleanup_cache_files": (
        "nothing: reading leaves no files; `beam-datasets gc DATA_DIR` lists what killed runs left"
    ),
    "builder_config | builder_config_name | builder_configs": "`{builder}.config_name`",
    "canonical_version | versions | supported_versions": "`{builder}.version`; `beam-datasets list --versions` shows all",
    "features | splits | description | citation | homepage": "`{builder}.info.{name}`",
    "columns | column_names | schema": "`{builder}.info.features`",
    "to_pandas | to_arrow | to_polars | as_torch | as_jax | as_tf_dataset | as_grain_source | batch | shuffle | map | filter | take"
    " | skip | repeat | iterate": "`{builder}.as_dataset('train').{name}(...)`",
    "get_file_spec(split)": "`{builder}.info.splits[{split:'train'}].file_spec()`",
    "get_reference": "`{builder}.info.display_name`",
    "get_metadata": "`{builder}.info`",
    "is_blocked | assert_is_not_blocked | blocked_versions | release_notes | download_manager": "the builder's class: a published version has none",
    "url_infos | get_default_builder_config | get_all_exported_dataset_infos | get_exported_dataset_info": "`{builder}.info`; what is stored of the code is in `{builder}.manifest`",
    "split | split_names | list_splits | get_splits": "`{builder}.info.splits`, or `{builder}.as_dataset('train[:10%]')` for a slice",
    "head | show | show_examples | preview": "`bd.show_examples({builder}.as_dataset('train'))`",
    "download": "`beam-datasets build MODULE_OR_FILE`, whose builder downloads; this version is published",
    "size | num_bytes | nbytes": "`{builder}.info.dataset_size`",
    "read_text_file | read_tfrecord_as_dataset | read_tfrecord_as_examples | download_url": "`{builder}.as_dataset('train')`: the code of the builder has its own functions",
    "cache_dir | hash | cls": "`{builder}.dataset_dir` and `{builder}.digest`",
    "load | read | get_dataset | to_dataset | dataset | train | test | val | validation | open": "`{builder}.as_dataset('train')`",
    "metadata | num_examples | num_classes | supervised_keys | dataset_size": "`{builder}.info`, such as `{builder}.info.splits['train'].num_examples`",
    "VERSION | SUPPORTED_VERSIONS": "`{builder}.version`",
    "RELEASE_NOTES | BUILDER_CONFIGS | MANUAL_DOWNLOAD_INSTRUCTIONS": "the builder's class: a published version has none",
}

TORCH_ITERATOR: Mapping[str, str] = {
    "state_dict | get_state | state": "`dataset.state_dict()` of `dataset = ds.as_torch()`, which is that of its last iterator",
    "load_state_dict(state) | set_state(state)": "`dataset.load_state_dict({state})` of `dataset = ds.as_torch()`, before `iter(dataset)`",
    "set_epoch(epoch)": "`dataset.set_epoch({epoch:0})` of `dataset = ds.as_torch()`, before `iter(dataset)`",
    "get_next | next | get": "`next({torch_iterator})`",
    "batch(batch_size) | map(function) | shuffle(seed) | take(count) | repeat(count) | filter(function)": (
        "`ds.{name}(...).as_torch()`: operations come before `as_torch()`"
    ),
    "features | info | dataset": "`ds`, the dataset before `as_torch()`, such as `ds.features`",
}

TORCH_DATASET: Mapping[str, str] = {
    "__getitem__(index)": "`as_torch(map_style=True)[{index:0}]`, or `ds[{index:0}]` of the dataset; a DataLoader reads this one in order",
    "batch(batch_size) | padded_batch(batch_size)": "`ds.{name}({batch_size:32}).as_torch()`, with `DataLoader(..., batch_size=None)`",
    "map(function) | filter(function) | flat_map(function)": (
        "`ds.{name}({function:function}).as_torch()`: operations come before `as_torch()`"
    ),
    "with_transform(function) | set_transform(function)": (
        "`ds.map({function:function}).as_torch()`: operations come before `as_torch()`"
    ),
    "shuffle(seed)": "`ds.shuffle(seed={seed:0}).as_torch()`: operations come before `as_torch()`",
    "skip(count) | take(count) | repeat(count)": "`ds.{name}({count:2}).as_torch()`: operations come before `as_torch()`",
    "pack(max_length) | chunk(max_length)": "`ds.{name}({max_length:512}, ['tokens']).as_torch()`: operations come before `as_torch()`",
    "shard(index) | split_by_node": "`ds.as_torch(rank=0, num_ranks=2)`, or `ds.as_torch()`, which finds ranks and workers itself",
    "features | dataset | column_names | info": "`ds`, the dataset before `as_torch()`, such as `ds.features`",
    "size | num_rows | num_samples | length": "`len(ds)`, the number of examples of all ranks; `len()` of this one counts those of a rank",
    "epoch": "`set_epoch(3)` to set it, and `state_dict()` to read it",
    "dataloader | loader | to_dataloader | get_dataloader": "`torch.utils.data.DataLoader(ds.as_torch(), batch_size=32)`",
    "seed | set_seed": "`ds.shuffle(seed=0).as_torch()`: operations come before `as_torch()`",
    "with_epoch | num_epochs": "`ds.repeat(2).as_torch()`: operations come before `as_torch()`",
    "to | cuda | device": "`tensor.to('cuda')` for each tensor of a batch",
    "as_torch | examples | data": "a loop over it, or `ds`, the dataset before `as_torch()`",
    "state": "`state_dict()`, and `load_state_dict(state)`",
    "get_state": "`state_dict()`, or torchdata's `StatefulDataLoader`",
    "set_state(state)": "`load_state_dict({state:state})`",
    "resume | resumption": "`load_state_dict(state)`, with a state of `state_dict()` or `state_after(examples=steps * batch_size * num_ranks)`",
    "num_workers | batch_size | collate_fn | pin_memory | drop_last | sampler": "`torch.utils.data.DataLoader(ds.as_torch(), ...)`, whose argument it is",
}

MAP_STYLE: Mapping[str, str] = {
    "set_epoch(epoch)": "`sampler.set_epoch({epoch:0})` of PyTorch's `DistributedSampler`: a map-style dataset is in dataset order",
    "classes | class_names | class_to_idx | num_classes": "`ds.features['label'].names`",
    "targets | labels | samples | imgs | data | tensors": "`[e['label'] for e in ds]`, or `ds.to_pandas()`",
    "transform | target_transform | transforms": "`ds.map(function).as_torch(map_style=True)`",
    "state_dict | load_state_dict | state_after": "`ds.as_torch()`, which has states: the order of a map-style dataset is its sampler's",
}
"""The names for which a map-style dataset has another text than an iterable one."""

JAX_DATASET: Mapping[str, str] = {
    "batch(batch_size) | padded_batch(batch_size)": "`ds.{name}({batch_size:32}).as_jax()`: operations come before `as_jax()`",
    "map(function) | filter(function)": "`ds.{name}({function:function}).as_jax()`: operations come before `as_jax()`",
    "shuffle(seed)": "`ds.shuffle(seed={seed:0}).as_jax()`: operations come before `as_jax()`",
    "skip(count) | take(count) | repeat(count)": "`ds.{name}({count:2}).as_jax()`: operations come before `as_jax()`",
    "features | info | dataset": "`ds`, the dataset before `as_jax()`, such as `ds.features`",
    "set_epoch(epoch)": "`iterate(epoch={epoch:0})`; each further loop reads the next epoch",
    "get_state | set_state | state_dict | load_state_dict": "the `get_state()` and `set_state()` of its iterator, and `iterate(state=state)`",
}

GRAIN_SOURCE: Mapping[str, str] = {
    "batch(batch_size)": "`grain.MapDataset.source(ds.as_grain_source()).batch({batch_size:32})`",
    "map(function) | filter(function)": "`grain.MapDataset.source(ds.as_grain_source()).{name}({function:function})`",
    "shuffle(seed)": "`grain.MapDataset.source(ds.as_grain_source()).shuffle(seed={seed:0})`",
    "repeat(count) | to_iter_dataset | slice | seed": "`grain.MapDataset.source(ds.as_grain_source()).{name}(...)`",
    "features | info": "`ds`, the dataset before `as_grain_source()`, such as `ds.features`",
}

FEATURES: Mapping[str, str] = {
    "string | str | bytes": "`bd.features.Text()`",
    "bool | int8 | int16 | int32 | int64 | uint8 | uint16 | float16 | float32 | float64": "`bd.features.Scalar('{name}')`",
    "String | Str | Bytes | Binary": "`bd.features.Text()`",
    **{
        names: f"`bd.features.Scalar('{dtype}')`, or another dtype of NumPy"
        for dtype, names in {
            "bool": "Bool | Boolean",
            "int64": "Int64 | Int | Integer | Long | Number",
            "int32": "Int32",
            "int16": "Int16 | Short",
            "int8": "Int8",
            "uint8": "UInt8 | Uint8 | Byte",
            "uint16": "UInt16 | Uint16",
            "float64": "Float64 | Double",
            "float32": "Float32 | Float",
            "float16": "Float16 | Half",
            "bfloat16": "BFloat16",
        }.items()
    },
    "MultiLabel(names) | MultiLabels(names) | Tags(names)": "`bd.features.Sequence(bd.features.ClassLabel(names={names:['cat', 'dog']}))`",
    "OneHot(num_classes)": "`bd.features.ClassLabel(num_classes={num_classes:10})`, and `ds.map(function)` to encode it",
    "Label(names) | Labels(names) | Categorical(names) | Enum(names)": "`bd.features.ClassLabel(names={names:['cat', 'dog']})`",
    "Embedding(size)": "`bd.features.Tensor(shape=({size:128},), dtype='float32')`",
    "Array(shape) | NDArray(shape) | Ndarray(shape) | NdArray(shape)": "`bd.features.Tensor(shape={shape:(2, 3)}, dtype='float32')`",
    "Dict(features) | Struct(features) | Nested(features) | Object(features) | Message(features)": "`bd.features.FeaturesDict({features})`",
    "Features(features)": "`bd.features.FeaturesDict({features:dict})`",
    "Value(dtype)": "`bd.features.Scalar({dtype:'int64'})`, or `bd.features.Text()` for strings",
    "List(feature) | LargeList(feature)": "`bd.features.Sequence({feature})`",
    "Array2D(shape, dtype) | Array3D(shape, dtype) | Array4D(shape, dtype) | Array5D(shape, dtype)": (
        "`bd.features.Tensor(shape={shape:(2, 3)}, dtype={dtype:'float32'})`"
    ),
    "Json | JSON": "`bd.features.Text()`, with the JSON text",
    "Timestamp | Date | Datetime | DateTime | Time | Duration": "`bd.features.Text()` with ISO 8601, or `bd.features.Scalar('int64')` with seconds since 1970",
    "Decimal | BigInteger": "`bd.features.Text()` with the digits, or `bd.features.Scalar('float64')`",
    "Map | Mapping | Dictionary | MapType": "`ds.map(function)`; as a feature, `bd.features.Sequence({{'key': bd.features.Text(), 'value': bd.features.Text()}})`",
    "Url | URL | Path | Uri | Uuid | UUID | Varchar | Char | Html | HTML | XML | Markdown | Regex | Email": "`bd.features.Text()`",
    "BoundingBox | Bbox | Box | BoundingBoxes": "`bd.features.BBoxFeature()`",
    "Category(names) | Class(names) | Classes(names) | LabelFeature(names)": "`bd.features.ClassLabel(names={names:['cat', 'dog']})`",
    "Sound | Waveform | Speech": "`bd.features.Audio()`",
    "Point | Points | Polygon | Keypoints | Landmarks | PointCloud": "`bd.features.Tensor(shape=(None, 2), dtype='float32')`",
    "Graph | Table | DataFrame": "`bd.features.Sequence({{'source': 'int64', 'target': 'int64'}})`, a list of dicts",
    "Union | Variant | Null | Either": "`bd.features.Scalar('int64', optional=True)`, one for each type, or `bd.features.Text()` with JSON",
    "Picture | Img | Jpeg | Png | JPEG | PNG | Mask | Segmentation | SegmentationMask": "`bd.features.Image()`",
    "Vector(shape) | Matrix(shape) | Tokens(shape) | Ragged | RaggedTensor | VarLen | FixedSizeList": "`bd.features.Tensor(shape={shape:(8,)}, dtype='float32')`, or `bd.features.Sequence(bd.features.Scalar('int64'))` for any length",
    "Raw | Blob | File | Document | Pdf | Nifti | BioSequence | BioStructure | Mesh": "`bd.features.Text()`, which stores bytes unchanged",
    "TopLevelFeature": "`bd.features.CustomFeature`",
    "Optional(feature) | Option(feature) | Nullable(feature)": "`bd.features.Scalar('int64', optional=True)`",
    "FixedLenFeature(shape, dtype)": "`bd.features.Tensor(shape={shape:()}, dtype={dtype:'int64'})`",
    "VarLenFeature(dtype)": "`bd.features.Sequence(bd.features.Scalar({dtype:'int64'}))`",
}

PACKAGE: Mapping[str, str] = {
    # --------------------------------------------------------------------------------------------- TensorFlow Datasets
    "as_numpy(dataset)": "{dataset:the dataset} as it is: values are NumPy's; `beam_datasets.tfds.as_numpy` converts tf.data",
    "lazy_imports | naming | read_only_builder | dataset_utils | tfds_path | gcs_path": "`import beam_datasets.tfds as tfds`, which has `tfds.core.{name}`",
    "core | dataset_builders | deprecated | disable_progress_bar | display_progress_bar | download | enable_progress_bar"
    " | public_api | typing": _TFDS,
    "builder_cls(name)": "`bd.builder({name})`, or the class itself",
    "dataset_collection | list_dataset_collections": "`bd.load(name)` for each dataset",
    "utils | base | python | data | inspect | arrow_dataset | lance | seqio | streaming | wds | webdataset | litdata | commands"
    " | packaged_modules | formatting | io | SeqIO": "docs/reference/api.md, which lists the names of this package: it has no modules like those of other libraries",
    "DatasetCollectionLoader | DatasetCollection | DatasetCollectionInfo": "`bd.load(name)` for each dataset",
    "write_dataset(data) | write_lance(data) | write_parquet(data)": _BUILDER
    + "; `bd.export(source, to=directory, format='parquet')` writes files of a published one",
    "folder_dataset": _FILES + " --help`, for the formats of files; `bd.adopt(pattern, features)` for TFRecord files",
    "GenerateMode": "a new version; `beam-datasets build --overwrite` replaces a published one",
    "is_dataset_on_gcs": "`bd.list_builders(data_dir)`; nothing is read from the bucket of TFDS",
    "show_statistics": "`beam-datasets stats NAME`, which also writes a page with plots",
    "visualization": "`bd.show_examples(ds)`; `beam-datasets stats NAME` also writes a page with plots",
    "transform": "`ds.map(function)`, or a builder that reads the other dataset",
    "rlds": "`bd.features.Dataset` for the steps of episodes",
    "proto": "`info.as_json`",
    "version | VERSION": "`bd.Version`, or `bd.__version__`",
    "ReadDataset | ReadFromDataset": "`from beam_datasets.beam import ReadDataset`",
    "WriteDataset | WriteToDataset": "`from beam_datasets.beam import WriteDataset`",
    "download_config": "the download manager that `_split_generators` gets; `from beam_datasets.downloads import DownloadManager`",
    "benchmark(ds)": "`sum(1 for _ in {ds})` and a clock",
    "data_source(name)": "`bd.load({name}, split='train')`, which has `len` and `ds[i]`",
    "ImageFolder(root_dir)": _FILES + " image_folder --name NAME --root {root_dir:DIR} --data_dir DIR`",
    "TranslateFolder(root_dir)": _FILES + " text_lines --name NAME --pattern 'DIR/*.txt' --data_dir DIR`",
    # ------------------------------------------------------------------------------------------- Hugging Face datasets
    "load_dataset(path) | get_dataset(mixture_or_task_name)": (
        "`bd.load({path}, split='train')` for a published dataset; files become one first: `beam-datasets build {data_files:FILE}` "
        "names the command for their format"
    ),
    "load_dataset_builder(path)": "`bd.builder({path}, data_dir=directory)`",
    "load_from_disk(dataset_path)": "`bd.builder_from_directory({dataset_path:directory}).as_dataset('train')`",
    "split_dataset_by_node(dataset, rank, world_size) | distributed": (
        "`{dataset:ds}.as_torch()`, which finds the ranks, or `{dataset:ds}.shard({rank:0}, {world_size:2})`"
    ),
    "from_generator(generator) | from_list | from_dict | from_pandas | from_polars | from_tensor_slices | from_tensors"
    " | from_records | range": _BUILDER,
    "find(name) | get(name)": "`bd.builder({name}, data_dir=directory)`; `ds.find(key)` finds an example",
    "torch | jax | tf | pytorch | tensorflow": "`ds.as_torch()`, `ds.as_jax()` or `ds.as_tf_dataset()`",
    "DatasetDict | IterableDatasetDict": "`bd.load(name)`, which returns a dict of all splits",
    "IterableDataset": "`bd.Dataset`, or `ds.as_torch()` for PyTorch's",
    "concatenate_datasets(dsets) | ConcatDataset(datasets) | ChainDataset(datasets)": (
        "`bd.load(name, split='train+test')`, or `bd.mix({{a: len(a), b: len(b)}}, stop='all')` for {dsets:several datasets}"
    ),
    "interleave_datasets(datasets, probabilities) | sample_from_datasets(datasets, weights)"
    " | CombinedStreamingDataset(datasets, weights) | ParallelStreamingDataset(datasets, weights) | Mixture"
    " | RandomMix(datasets, probs) | RoundRobin(datasets) | CycleStreamingDataset(datasets)": "`bd.mix({datasets:[a, b]}, weights={probabilities:[0.7, 0.3]}, seed=0)`",
    "get_dataset_config_names(path)": "`beam-datasets list --data_dir DIR`",
    "get_dataset_split_names(path)": "`list(bd.builder({path:name}, data_dir=directory).info.splits)`",
    "get_dataset_infos | get_dataset_config_info(path)": "`bd.builder({path:name}, data_dir=directory).info`",
    "get_dataset_default_config_name": "`bd.builder(name, data_dir=directory).config_name`",
    **{names: text for names, text in FEATURES.items() if "DataFrame" not in names},
    "DataFrame(data) | Table(data)": "`{data:ds}.to_pandas()`, `{data:ds}.to_polars()` or `{data:ds}.to_arrow()`",
    "ClassLabel | Image | Audio | Video | Sequence | Translation | TranslationVariableLanguages | Text | Tensor | Scalar"
    " | FeaturesDict": "`bd.features.{name}`",
    "ArrowBasedBuilder": _BUILDER,
    "SplitGenerator | SplitBase | SubSplitInfo": "a dict from split names to sources, which `_split_generators` returns",
    "NamedSplit | NamedSplitAll": "`bd.Split`, or a str",
    "percent": "`'train[:10%]'`",
    "DownloadManager | StreamingDownloadManager | DownloadConfig": "the download manager that `_split_generators` gets; `from beam_datasets.downloads import DownloadManager`",
    "DownloadMode | VerificationMode | disable_caching | enable_caching | is_caching_enabled": (
        "a version: what is published does not change; `beam-datasets verify` checks it"
    ),
    "are_progress_bars_disabled | disable_progress_bars | enable_progress_bars | is_progress_bar_enabled | tqdm": _QUIET,
    "Column | IterableColumn": "`[e['label'] for e in ds]`",
    "schema | columns | column_names": "`bd.builder(name, data_dir=directory).info.features`",
    "splits | split_names": "`list(bd.builder(name, data_dir=directory).info.splits)`",
    "choose_from_datasets(datasets)": "`bd.mix({datasets:[a, b]}, weights=[0.7, 0.3], seed=0)`; its argument schedule changes weights",
    "Example | SequenceExample | parse_example(serialized) | parse_single_example(serialized)": (
        "`builder.info.features.deserialize_example({serialized:record})`; a dataset that is read is parsed already"
    ),
    "experimental": "docs/index.md, which lists what there is",
    # --------------------------------------------------------------------------------------------------------- PyTorch
    "DataLoader(dataset, batch_size) | StatefulDataLoader(dataset, batch_size) | StreamingDataLoader(dataset, batch_size)"
    " | WebLoader(dataset, batch_size)": "`torch.utils.data.DataLoader({dataset:ds}.as_torch(), batch_size={batch_size:32})`",
    "DistributedSampler | BatchSampler | SequentialSampler | RandomSampler | Sampler": _RANKS,
    "WeightedRandomSampler | SubsetRandomSampler": "`ds.as_torch(map_style=True)` and PyTorch's sampler",
    "Subset(dataset, indices)": "`{dataset:ds}[{indices}]`, or `split='train[10:20]'`",
    "TensorDataset | StackDataset": _BUILDER,
    "random_split(dataset, lengths)": "`bd.load(..., split=['train[20%:]', 'train[:20%]'])`, or `bd.even_splits('train', 2)`, for {lengths:any lengths}",
    "train_test_split | split": "`bd.load(..., split=['train[20%:]', 'train[:20%]'])`, whose slices are random samples",
    "DataModule | LightningDataModule": (
        "a `LightningDataModule` of Lightning, whose `train_dataloader` returns `torch.utils.data.DataLoader(ds.as_torch())`"
    ),
    "default_collate | default_convert | litdata_collate | collate_fn": "`ds.batch(32)`",
    "IterableWrapper | keras": "`ds.as_torch()`, or `ds.as_tf_dataset()`",
    "get_worker_info | with_epoch | with_length": _RANKS,
    "Stateful": "`iterator.state_dict()` and `iterator.load_state_dict(state)`",
    "IterDataPipe | MapDataPipe | DFIterDataPipe | DataChunk | functional_datapipe | guaranteed_datapipes_determinism"
    " | non_deterministic | argument_validation | runtime_validation | runtime_validation_disabled": "`ds.map(function)` and the other operations of a Dataset",
    # --------------------------------------------------------------------------------------------------------- tf.data
    "AUTOTUNE": "`ds.parallel(threads=4)`, with a number",
    "TFRecordDataset(filenames) | TFRecordDataSource(filenames)": "`bd.adopt({filenames:pattern}, features)`, then `bd.load`",
    "TextLineDataset(filenames)": _FILES + " text_lines --name NAME --pattern {filenames:'*.txt'} --data_dir DIR`",
    "CsvDataset | make_csv_dataset(file_pattern)": _FILES
    + " csv --name NAME --pattern {file_pattern:'*.csv'} --data_dir DIR`",
    "make_batched_features_dataset | parse_example_dataset": "`bd.adopt(pattern, features)`, then `bd.load`",
    "FixedLengthRecordDataset | SqlDataset | RandomDataset": _BUILDER,
    "TFRecordWriter | ExampleWriter | SequentialWriter | MDSWriter | CSVWriter | JSONWriter | TSVWriter | XSVWriter"
    " | ShardWriter | TarWriter | ArrayRecordWriter | optimize | Cached | store_as_tfds_dataset | write_tfrecord"
    " | write_tfrecords | write_examples | Writer": _BUILDER
    + "; `beam_datasets.beam.WriteDataset` ends a pipeline of your own",
    "INFINITE_CARDINALITY | UNKNOWN_CARDINALITY": "`len(ds)`, which is a TypeError where the length is unknown or infinite",
    "Options | ThreadingOptions | DistributeOptions | OptimizationOptions | AutotuneOptions": "`bd.ReadConfig(...)`",
    "DatasetSpec | Iterator | IteratorSpec | NumpyIterator | DataLoaderIterator": "`bd.DatasetIterator`, which `iter(ds)` returns",
    "AutoShardPolicy": "`ds.shard(rank, num_ranks)`",
    "bucket_by_sequence_length": "`ds.batch_by_length(boundaries, batch_sizes, length='tokens')`",
    # ----------------------------------------------------------------------------------- MosaicML Streaming and LitData
    "StreamingDataset(local, remote) | LocalDataset(local) | StreamingRawDataset(input_dir)": (
        "`bd.load(name, data_dir={remote:{local:directory}}, split='train')`, where data_dir may be a URL"
    ),
    "TokensLoader | TemporalArrayLoader": "`ds.pack(2048, ['tokens'])`",
    "merge_datasets | dataset_update": "`bd.materialize` of several sources, or `bd.append(name, source)`",
    "walk | list_media_folder | build_keys_index | index_parquet_dataset | index_hf_dataset | optimize_hf": _FILES
    + " --help`, for the formats of files",
    "StreamingEnWiki | StreamingCIFAR10 | StreamingADE20K | StreamingImageNet | StreamingWebVid": "`bd.load(name, split='train')`",
    "merge_index | reader_from_json": "`bd.materialize` of several sources: no file lists the shards but the dataset's own",
    "World | multimodal": _RANKS,
    "PyGrainCheckpointSave | PyGrainCheckpointRestore": "`iterator.get_state()`, a dict that JSON can hold",
    "performance_config | pick_performance_config": "`ds.parallel(threads=4)`",
    "WithOptions | DatasetSelectionMap": "`bd.mix({{a: 0.7, b: 0.3}}, seed=0)`, or `ds.map(function)`",
    "vocabularies | SeqioPreprocessing": "`ds.map(function)`",
    "use_cached | beam_utils": "`bd.load(name, split='train')`",
    "clean_stale_shared_memory": "nothing: no shared memory is left behind",
    # ------------------------------------------------------------------------------------------------------ WebDataset
    "WebDataset(urls) | DataPipeline | FluidInterface | FluidWrapper | MockDataset": (
        "`bd.load(name, split='train')`; `bd.export(source, to=directory, format='webdataset')` writes the tar files"
    ),
    "SimpleShardList | ResampledShards | MultiShardSample | split_by_node | split_by_worker | single_node_only"
    " | resampled | shardspec | detshuffle": _RANKS,
    "tarfile_samples | tarfile_to_samples | group_by_keys | gopen": "`bd.load(name, split='train')`",
    "associate | getfirst | gzfilter | extract_keys | imagehandler | torch_audio | torch_video | Decoder"
    " | handle_extension": "`ds.map(function)`",
    "ignore_and_continue | ignore_and_stop | warn_and_continue | warn_and_stop | reraise_exception"
    " | DecodingError": "`beam-datasets build --skip_bad`, or `beam-datasets verify`; reading skips nothing silently",
    "torch_loads | torch_dumps | numpy_dumps | pytorch_weights_only": "`bd.features.Tensor(shape=(2, 3), dtype='float32')`",
    # ----------------------------------------------------------------------------------------------------------- SeqIO
    "Task | TaskRegistry | MixtureRegistry | get_mixture_or_task | maybe_get_mixture_or_task | get_subtasks": (
        "`bd.load(name, split='train').map(function)`, and `bd.mix({{a: 0.7, b: 0.3}})` for a mixture"
    ),
    "TfdsDataSource(tfds_name)": "`bd.load({tfds_name}, split='train')`, which reads what TFDS wrote",
    "FunctionDataSource | DataSource | FileDataSource | TextLineDataSource | TFExampleDataSource | ProtoDataSource"
    " | RandomAccessDataSource | RangeDataSource | DataSourceInterface | DatasetFnCallable": _BUILDER,
    "ArrayRecordDataSource(paths)": "`ds.as_grain_source()`; `bd.export(source, to=directory, format='arrayrecord')`",
    "Feature | ContinuousFeature": "`bd.features.Tensor(shape=(2, 3), dtype='float32')` or `bd.features.Sequence(bd.features.Scalar('int64'))`",
    "FeatureConverter | EncDecFeatureConverter | LMFeatureConverter | PrefixLMFeatureConverter"
    " | DecoderFeatureConverter | EncoderFeatureConverter | PassThroughFeatureConverter | GrainFeatureConverter"
    " | PrePackedEncDecFeatureConverter | PrePackedLMFeatureConverter | PrefixSuffixLMFeatureConverter"
    " | PrePackedPrefixLMFeatureConverter | pack_dataset | pack_or_pad | trim_and_pack_dataset | trim_and_pad_dataset | trim_dataset"
    " | make_autoregressive_inputs": "`ds.pack(512, ['inputs', 'targets'])`, or `ds.padded_batch(32, pad_length=512)`",
    "SentencePieceVocabulary | ByteVocabulary | Vocabulary | PassThroughVocabulary | UnigramVocabulary"
    " | BertWordPieceVocabulary | FullCodepointVocabulary | PartialCodepointVocabulary | preprocessors | tokenize | tokenizer"
    " | append_eos | append_eos_after_trim | truncate_inputs_left | rekey | print_dataset"
    " | tokenize_and_append_eos": "a tokenizer in `ds.map(function)`, or in the builder, before examples are stored",
    "CacheDatasetPlaceholder | SourceInfo | add_global_cache_dirs | set_global_cache_dirs"
    " | get_global_cache_dirs | set_tfds_data_dir_override | set_tfds_read_config_override": "`bd.load(name, data_dir=directory)`",
    "Evaluator | metrics | evaluation | loggers | Logger | JSONLogger | TensorBoardLogger | PyLoggingLogger"
    " | MetricManager | get_valid_eval_tasks | PredictFnCallable | ScoreFnCallable | ModelFnCallable | Trainer | Model": _RUN_MODEL,
    "mixing_rate_num_examples | mixing_rate_num_characters": "`bd.mix({{a: len(a), b: len(b)}})`",
    "stateless_shuffle | map_seed_manager | set_preprocessor_seed": "`ds.shuffle(seed=0)`",
    "map_over_dataset | helpers | test_utils | add_kwargs_to_transform | LazyTfdsLoader | TfdsSplit"
    " | dict_to_tfexample | tfexample_to_dict | flatten_dict | unflatten_dict": "`ds.map(function)`",
    # ----------------------------------------------------------------------------------------------------------- Grain
    "MapDataset(source) | IterDataset(source)": "`bd.load(name, split='train')`; `ds.as_grain_source()` is a source for Grain",
    "data_sources": "`bd.load(name, split='train')`, which has `len` and `ds[i]`; `bd.DatasetBuilder` makes a dataset of a source",
    "IndexSampler | samplers": "`ds.shuffle(seed=0).repeat(epochs)`",
    "ShardInfo(index, num_shards)": "`ds.shard({index:0}, {num_shards:2})`",
    "ShardOptions | ShardByJaxProcess | NoSharding | sharding": "`ds.shard(rank, num_ranks)`, or `bd.split_for_jax_process('train')`",
    "ReadOptions | MultiprocessingOptions | multiprocessing": "`ds.parallel(processes=4)`" + _GUARD,
    "Batch(batch_size)": "`ds.batch({batch_size:32})`",
    "MapTransform | MapWithIndex | RandomMap | RandomMapTransform | transforms"
    " | Transformation | Transformations": "`ds.map(function)`",
    "Filter | FilterTransform": "`ds.filter(function)`",
    "FlatMapTransform": "`ds.flat_map(function)`",
    "PyGrainCheckpointHandler | CheckpointHandler | checkpoint": "`iterator.get_state()`, a dict that JSON can hold",
    "Record | RecordMetadata | sources | monitoring | constants": "`ds.as_grain_source()` with Grain itself",
    # ------------------------------------------------------------------------------------------------- words of anybody
    "from_folder | from_files | from_dir | glob": _FILES + " --help`, which lists the formats of files",
    "open_directory(path) | open_dir(path) | from_path(path)": "`bd.builder_from_directory({path:directory})`",
    "to_tfrecord | to_tfrecords | to_csv | to_json | to_parquet": _EXPORT + "; shards of a dataset are TFRecord files",
    "open | read | read_dataset | from_directory | open_dataset | dataset": "`bd.load(name, split='train')` or `bd.builder_from_directory(directory)`",
    "read_csv(path) | from_csv(path)": _FILES + " csv --name NAME --pattern {path:'*.csv'} --data_dir DIR`",
    "read_json(path) | from_json(path)": _FILES + " jsonl --name NAME --pattern {path:'*.jsonl'} --data_dir DIR`",
    "read_parquet(path) | from_parquet(path)": _FILES
    + " parquet --name NAME --pattern {path:'*.parquet'} --data_dir DIR`",
    "build | create | write | generate | save | publish | prepare | download_and_prepare": "`Builder(data_dir=directory).build()`, or `beam-datasets build FILE`",
    "list(data_dir) | list_datasets | available | datasets | registry | registered | mixtures": "`bd.list_builders({data_dir})`",
    "register | register_builder | register_dataset": "an import of the builder's module, which registers it; `beam-datasets build FILE`",
    "DATA_DIR | home | data_home | cache_dir | HOME": "$BEAM_DATASETS_DATA_DIR, or `bd.load(name, data_dir=directory)`",
    "stats | describe": "`beam-datasets stats NAME`",
    "info(name) | get_info(name) | dataset_info(name)": "`bd.builder({name:'name'}, data_dir=directory).info`",
    "list_dataset(data_dir) | list_names | ls | catalogue": "`bd.list_builders({data_dir})`",
    "list_versions(name) | list_configs(name) | versions(name) | get_versions(name) | configs(name)": "`beam-datasets list --versions --data_dir DIR`",
    "make_dataset | create_dataset | get_data | load_data(name) | fetch(name) | load_split(name) | import_dataset(name)": "`bd.load({name:'name'}, split='train')`",
    "load_builder(name) | get_builder(name) | builder_from_name(name)": "`bd.builder({name}, data_dir=directory)`",
    "builder_from_files | read_tfrecord(pattern) | read_tfrecords(pattern) | from_tfrecord(pattern) | from_tfrecords(pattern)": (
        "`bd.adopt({pattern:'*.tfrecord'}, features)`, then `bd.load`; "
        + _FILES
        + " tfrecord --name NAME --pattern {pattern:'*.tfrecord'} --data_dir DIR`"
    ),
    "read_images(root) | from_images(root) | image_folder(root) | ImageFolderBuilder(root) | imagefolder(root)"
    " | image_dataset_from_directory(root)": _FILES + " image_folder --name NAME --root {root:DIR} --data_dir DIR`",
    "read_audio(root) | AudioFolder(root) | audio_dataset_from_directory(root) | SoundFolder(root)": _FILES
    + " sound_folder --name NAME --root {root:DIR} --data_dir DIR`",
    "read_text(path) | from_text(path) | text_dataset_from_directory(path)": _FILES
    + " text_lines --name NAME --pattern {path:'*.txt'} --data_dir DIR`",
    "scan_csv(path) | read_table(path) | read_fwf(path)": _FILES
    + " csv --name NAME --pattern {path:'*.csv'} --data_dir DIR`",
    "scan_parquet(path) | ParquetLoader(path) | scan_pyarrow_dataset(path)": _FILES
    + " parquet --name NAME --pattern {path:'*.parquet'} --data_dir DIR`",
    "read_lines(path) | scan_lines(path)": _FILES + " text_lines --name NAME --pattern {path:'*.txt'} --data_dir DIR`",
    "read_excel(path) | read_ods(path) | read_feather(path) | read_orc(path) | read_ipc(path) | scan_ipc(path) | read_avro(path)"
    " | read_hdf(path) | read_pickle(path) | read_sql(path) | read_sql_query(path) | read_sql_table(path) | read_delta(path)"
    " | scan_delta(path) | scan_iceberg(path) | read_iceberg(path) | scan_lance(path) | read_xml(path) | read_html(path)"
    " | read_stata(path) | read_sas(path) | read_spss(path) | read_database_uri(path)": (
        "pandas or Polars to read {path:it} and to write Parquet, then `beam-datasets build parquet --name NAME --pattern FILE"
        " --data_dir DIR`; or a builder that yields the rows"
    ),
    "read_jsonl(path) | from_jsonl(path) | read_ndjson(path) | scan_ndjson(path)": _FILES
    + " jsonl --name NAME --pattern {path:'*.jsonl'} --data_dir DIR`",
    "from_huggingface(dataset) | from_hf(dataset) | from_datasets(dataset)": (
        "`{dataset:hf_dataset}.to_parquet('train.parquet')`, then `beam-datasets build parquet --name NAME --pattern train.parquet --data_dir DIR`"
    ),
    "from_tfds(name)": "`bd.load({name:'name'}, data_dir='~/tensorflow_datasets')`, which reads what TensorFlow Datasets wrote",
    "from_dicts | LazyFrame | InMemoryDataSource | LanceFragment | batch_udf | from_numpy | from_arrow | from_torch | from_items | from_webdataset | from_iterable | from_arrays | from_rows"
    " | from_examples | from_records_iter | from_source | from_beam | from_frame | from_dataframe | from_array"
    " | from_jax | from_pytorch | from_df | from_pandas_df | from_sql | from_excel | ShardedGeneratorBasedBuilder | Builder_": _BUILDER,
    "delete(name) | remove(name) | drop(name) | rm(name) | prune(name)": "`beam-datasets prune {name:NAME} --keep 1`, or delete the directory that `bd.builder({name:'name'}).dataset_dir` is",
    "upload(name) | push(name) | copy(name) | pull(name) | sync(name)": "`bd.materialize({name:'name'}, source_data_dir=directory, data_dir='gs://bucket/data')`",
    "set_data_dir(path) | data_dir(path) | set_default_data_dir(path)": "$BEAM_DATASETS_DATA_DIR, or `bd.load(name, data_dir={path:directory})`",
    "settings | config | set_caching_enabled | set_cache_dir": "$BEAM_DATASETS_CACHE_DIR, or `bd.ReadConfig(...)` for one reader",
    "logging | set_verbosity | set_log_level": "`logging.getLogger('beam_datasets')`, or " + _QUIET,
    "set_seed | manual_seed | seed_everything | seed": "`ds.shuffle(seed=0)`: nothing else is random",
    "map(fn) | filter(fn)": "`ds.{name}({fn:function})`",
    "chain(datasets) | sample(datasets) | weighted_mix(datasets)": "`bd.mix({{a: 0.7, b: 0.3}}, seed=0)`, or `bd.load(name, split='train+test')`, for {datasets:several datasets}",
    "shuffle | batch | shard | take | repeat | pack | padded_batch": "`ds.{name}(...)`, a method of a Dataset",
    "PyGrainDatasetIterator | DataLoaderIter": "`bd.DatasetIterator`, which `iter(ds)` returns",
    "grain": "`ds.as_grain_source()`, which Grain reads",
    "col | lit | when | expr | sql_expr | element": "`ds.filter(lambda e: e['id'] > 3)` or `ds.map(function)`, with functions of an example",
    "pandas | arrow | polars": "`ds.to_{name}()`",
    "numpy": "`ds[0]` as it is: values are NumPy's",
    "compare | is_equal": "`bd.diff(old, new)`",
    "head(dataset) | slices(dataset, slice)": (
        "`beam-datasets head {dataset:NAME}`, or `beam-datasets slices {dataset:NAME} {slice:'train[:10%]'}`"
    ),
    "explore(dataset)": "`beam-datasets explore {dataset:NAME}`",
    "plan(file)": "`beam-datasets plan {file:FILE}`",
    "new(dataset)": "`beam-datasets new {dataset:NAME}`",
    "tag(dataset, tag)": "`beam-datasets tag {dataset:NAME:1.0.0} {tag:TAG}`",
    "gc(directory)": "`beam-datasets gc {directory:DATA_DIR}`",
    "site(directory)": "`beam-datasets site {directory:DATA_DIR} --to DIR`",
    "doctor": "`beam-datasets doctor`",
    "inspect_dataset(path)": "`bd.builder({path}, data_dir=directory).info`",
    "load_metric | list_metrics | evaluate": _RUN_MODEL,
    "LanceDataset(uri)": "`bd.builder_from_directory({uri:directory}).as_dataset('train')`",
    "autodecode | shardlists | filters | handlers | cache | pipeline | compat | iterators": (
        "docs/reference/api.md, which lists the names of this package: it has no modules like those of other libraries"
    ),
    "help | doc | docs": "`help(bd)`, or docs/reference/api.md",
    "check | validate": "`bd.verify(directory)`",
    "show | display | plot": "`bd.show_examples(ds)`",
    "concat | concatenate | zip | join | merge | interleave": "`bd.mix({{a: 0.7, b: 0.3}})`, or `bd.load(name, split='train+test')`",
    "Builder | dataset_builder": "`bd.DatasetBuilder`",
    "Config": "`bd.BuilderConfig`",
    "to_torch(ds) | to_pytorch(ds)": "`{ds}.as_torch()`",
    "as_torch(ds) | as_jax(ds) | as_tf_dataset(ds) | as_grain_source(ds)": "`{ds}.{name}()`",
    "to_pandas(ds) | to_dataframe(ds)": "`{ds}.to_pandas()`",
}

INFO: Mapping[str, str] = {
    "__getitem__(name)": "its attributes, such as `{info}.features`, `{info}.splits` and `{info}.description`",
    "num_examples | num_rows | total_num_examples": "`{info}.splits['train'].num_examples`",
    "size_in_bytes | num_bytes | size": "`{info}.dataset_size`",
    "shape | shapes": "`{info}.features.shape`, a dict; `{info}.splits['train'].num_examples` counts examples",
    "dtype | dtypes": "`{info}.features.dtype`, a dict",
    "digest | lineage | manifest": "`bd.builder(name, data_dir=directory).{name}`",
    "dataset_name | builder_name | builder": "`{info}.name`",
    "column_names | columns": "`list({info}.features)`",
    "num_shards | shard_lengths": "`{info}.splits['train'].num_shards`",
    "num_classes | names | classes | label_names | labels | num_labels | class_names | id2label | label2id": "`{info}.features['label'].names`",
    "as_proto | from_proto | to_proto | to_dict | to_json": "`{info}.as_json`",
    "read_from_directory | from_directory": "`bd.builder_from_directory(directory).info`",
    "post_processed | task_templates | post_processing_size | download_checksums | dataset_file_size": "the builder: none of it is stored",
    "train | test | num_splits": "`{info}.splits`",
    "path | data_dir | dataset_dir | directory | location": "`bd.builder(name, data_dir=directory).dataset_dir`",
    "write_to_directory | initialize_from_bucket": "a builder, which writes it when it publishes",
}

SPLITS: Mapping[str, str] = {
    "num_examples | num_rows": "`{splits}.total_num_examples`, or `{splits}['train'].num_examples`",
    "train | test | validation | val | dev": "`{splits}['{name}']`",
    "num_shards | num_bytes | shard_lengths | filenames | filepaths": "`{splits}['train'].{name}`",
    "names | splits": "`list({splits})`",
    "total_num_bytes | size_in_bytes": "`sum(split.num_bytes for split in {splits}.values())`",
}

SPLIT: Mapping[str, str] = {
    "num_rows | size | count | num_samples | examples | length": "`{split}.num_examples`",
    "get_read_instruction | get_available_shards": "`{split}.file_instructions`",
    "features | info": "`bd.builder(name, data_dir=directory).info.features`",
    "as_dataset | dataset | load": "`bd.load(name, split='train')`",
    "files | shards | paths": "`{split}.filepaths`",
}

SPLIT_NAMES: Mapping[str, str] = {
    "TRAINING": "`bd.Split.TRAIN`",
    "train": "`bd.Split.TRAIN`",
    "test": "`bd.Split.TEST`",
    "validation": "`bd.Split.VALIDATION`",
    "all": "`bd.Split.ALL`",
    "VAL | DEV | VALID | EVAL | val | dev | valid": "`bd.Split.VALIDATION`, or the name that the dataset uses, as a str",
    "TESTING | TEST_SET": "`bd.Split.TEST`",
    "subsplit": "`'train[:10%]'` for a slice, or `bd.even_splits('train', 3)`",
}

FEATURE: Mapping[str, str] = {
    "id2label | index_to_name | idx_to_class | int_to_str | vocab": "`dict(enumerate({feature}.names))`",
    "label2id | name_to_index | class_to_idx | str_to_int": "`{{name: i for i, name in enumerate({feature}.names)}}`",
    "classes | class_names | labels | categories | _int2str | _str2int": "`{feature}.names`",
    "num_labels | n_classes | nb_classes": "`{feature}.num_classes`",
    "decode(index) | int_to_name(index) | to_str(index) | index2str(index)": (
        "`{feature}.int2str({index:0})` for a label; what is read is decoded already"
    ),
    "encode(name) | name_to_int(name) | to_int(name)": "`{feature}.str2int({name})` for a label",
    "height | width | size | channels | num_channels | mode | ndim | rank": "`{feature}.shape`, which is (height, width, channels) for an image",
    "type | kind | pa_type | storage_dtype": "`{feature}.dtype`, or `{feature}` itself",
    "inner | element | elem | item | value_type | inner_feature | items": "`{feature}.feature`",
    "sampling_rate | rate | sr": "`{feature}.sample_rate`",
    "vocab_size | tokenizer | lang": "a tokenizer in `ds.map(function)`: text is stored as it is",
    "is_nullable | nullable | required": "`{feature}.optional`",
    "description": "`{feature}.doc`",
}

FEATURES_DICT: Mapping[str, str] = {
    "__setitem__(name)": "`bd.features.FeaturesDict({{**ds.features, {name}: feature}})`, a new one",
    "as_dict | asdict": "`dict({features_dict})`",
    "arrow_schema | schema": "`ds.to_arrow().schema`",
    "type | types | dtypes": "`{features_dict}.dtype`",
    "shapes": "`{features_dict}.shape`",
    "encode_batch | decode_batch | encode_column | decode_column": "`{features_dict}.serialize_example(example)` and `{features_dict}.deserialize_example(record)`",
    "names | columns | column_names": "`list({features_dict})`",
    "copy | update | pop | reorder_fields_as | flatten": "`bd.features.FeaturesDict({{**{features_dict}}})`, a new one: features do not change",
    "num_classes | int2str | str2int": "`{features_dict}['label'].{name}`, where label is the name of a ClassLabel",
    "to_dict | to_list": "`dict({features_dict})`, or `{features_dict}.to_json()`",
    "from_dict | from_arrow_schema": "`bd.features.from_json`, or `bd.features.FeaturesDict` of a dict",
}

ATTRIBUTES: Mapping[str, Mapping[str, str]] = {
    "ds": DATASET,
    "stream": STREAM,
    "iterator": ITERATOR,
    "builder": BUILDER,
    "info": INFO,
    "features": FEATURES,
    "bd": PACKAGE,
    "splits": SPLITS,
    "split": SPLIT,
    "split_names": SPLIT_NAMES,
    "features_dict": FEATURES_DICT,
    "feature": FEATURE,
    "torch_dataset": TORCH_DATASET,
    "torch_iterator": TORCH_ITERATOR,
    "map_style": MAP_STYLE,
    "jax_dataset": JAX_DATASET,
    "grain_source": GRAIN_SOURCE,
}
"""The tables, by what the object is called in a text."""

NAMES_THAT_MEAN_SOMETHING_IF_FALSE = frozenset(
    ("decode", "text", "partial", "stop_on_empty_dataset", "compression", "compress", "required")
)
"""Foreign arguments whose value False, or None, needs other code; elsewhere such an argument can be left out."""

_ORDERED = "nothing: the order is always the same"

ARGUMENTS: Mapping[str, Mapping[str, str]] = {
    "mix": {
        "": "`bd.mix([a, b], weights=[0.7, 0.3], seed=0)`, or `bd.mix({{a: 0.7, b: 0.3}}, seed=0)`",
        "shuffle": "`bd.mix({sources:[a, b]}, seed=0)`; each source is shuffled before, as in `ds.shuffle(seed=0)`",
        "length | num_examples | num_samples | size | take | limit": "`bd.mix({sources:[a, b]}).take({value})`",
        "batch_size": "`bd.mix({sources:[a, b]}).batch({value})`",
        "num_workers | num_proc": "`bd.mix({sources:[a, b]}).parallel(processes={value})`" + _GUARD,
        "probabilities | probs | rates | proportions | proportion | ratios | fractions | sampling_weights": "`bd.mix({sources:[a, b]}, weights={value})`",
        "rerandomize_each_iteration | deterministic": "nothing: the seed decides the order, and `repeat()` reads each epoch in another one",
        "stopping_strategy | stop_on_empty_dataset": "`bd.mix({sources:[a, b]}, stop='first')`, or `stop='all'`",
    },
    "map": {
        "": "`{ds}.map({function})`, with a function of one argument",
        "batched | batch_size": "`{ds}.batch({batch_size:32}).map({function})`",
        "num_proc": "`{ds}.map({function}).parallel(processes={value})`" + _GUARD,
        "num_parallel_calls | num_workers | workers | num_threads | max_workers | threads | concurrency | parallel": (
            "`{ds}.map({function}).parallel(threads=4)`"
        ),
        "with_indices": "`enumerate({ds})`, or a feature with the number",
        "remove_columns | features | columns | output_columns | output_signature": "a function that returns the features that are wanted",
        "input_columns": "`{ds}.map(lambda e: ({function})(*[e[name] for name in names]))`, where names is a list, for {value}",
        "fn_kwargs": "`{ds}.map(functools.partial({function}, **{value}))`",
        "deterministic | ordered": _ORDERED,
        "seed | rng": "`{ds}.map({function})`, where the function takes its randomness from a feature of the example, such as its key",
        "with_rank | desc | load_from_cache_file | keep_in_memory | cache_file_name | writer_batch_size | new_fingerprint"
        " | name | cache": "`{ds}.map({function})`: nothing is stored, the function is called as examples are read",
        "drop_last_batch": "`{ds}.batch(32, drop_remainder=True).map({function})`",
        "suffix_template | try_original_type": "`{ds}.map({function})`: nothing is stored, the function is called as examples are read",
        "map_func | transform | func | fn": "`{ds}.map({value})`",
    },
    "parallel": {
        "": "`{ds}.parallel(threads=4)`, or `{ds}.parallel(processes=4)` for functions in Python" + _GUARD,
        "num_workers | workers | num_proc | num_processes | n_jobs | cpus | cores | jobs": "`{ds}.parallel(processes={value})`"
        + _GUARD,
        "num_threads | max_workers": "`{ds}.parallel(threads={value})`",
    },
    "to_frame": {
        "": "`{ds}.to_arrow()`, `{ds}.to_pandas()` or `{ds}.to_polars()`, whose arguments are label_names and binary",
        "types_mapper": "`{ds}.to_arrow().to_pandas(types_mapper={value})`, or `{ds}.to_pandas(dtype_backend='pyarrow')`",
        "rechunk": "`{ds}.to_polars().rechunk()`",
        "lazy": "`{ds}.to_polars().lazy()`; `pyarrow.RecordBatchReader.from_stream({ds})` reads batches as they are needed",
        "schema": "`{ds}.to_arrow().cast({value})`",
        "text | decode | encoding": "nothing: text is str, except in the features that binary= names",
        "columns | features": "`bd.load(name, decoders=bd.decode.PartialDecoding({value}))`, which reads these alone",
        "limit | n | nrows | rows | max_rows": "`{ds}.take({value})`, and make the table of it",
        "batch_size | batched": "`pyarrow.RecordBatchReader.from_stream({ds})`, which reads batches as they are needed",
    },
    "filter": {
        "": "`{ds}.filter({function:function})`, with a function of an example that returns True to keep it",
        "num_parallel_calls | num_workers | workers | deterministic": "`{ds}.filter({function:function})`; `{ds}.parallel(threads=4)` before it decodes ahead",
        "batched | batch_size": "`{ds}.filter({function})`, a function of one example",
        "with_indices": "`(e for i, e in enumerate({ds}) if ({function})(e, i))`",
        "input_columns": "`{ds}.filter(lambda e: ({function})(*[e[name] for name in names]))`, where names is a list, for {value}",
        "num_proc": "`{ds}.parallel(processes={value}).filter({function})`" + _GUARD,
        "fn_kwargs": "`{ds}.filter(functools.partial({function}, **{value}))`",
        "load_from_cache_file | keep_in_memory | name | desc": "`{ds}.filter({function})`: nothing is stored",
        "predicate | transform | func | fn": "`{ds}.filter({value})`",
    },
    "shuffle": {
        "": "`{ds}.shuffle(seed={seed:0})`, or `{ds}.shuffle(seed={seed:0}, window={first:1000})`, where tf.data's buffer size is the window",
        "buffer_size | bufsize | shuffle_block_size | block_size | buffer": (
            "`{ds}.shuffle(seed={seed:0}, window={value})`, or leave out the window to shuffle all"
        ),
        "initial": "`{ds}.shuffle(seed=0, window={first:1000})`: its window is full before the first example",
        "reshuffle_each_iteration | reshuffle": (
            "`{ds}.shuffle(seed=0)`, whose order is the same each time; `{ds}.shuffle(seed=0).repeat()` reshuffles each epoch"
        ),
        "epoch": "`{ds}.shuffle(seed={seed:0}).iterate(epoch={value})`",
        "generator | rng": "`{ds}.shuffle(seed={seed:0})`, with a number",
        "random_state | random_seed": "`{ds}.shuffle(seed={value})`",
        "keep_in_memory | load_from_cache_file | writer_batch_size | name | shuffle_algo | num_canonical_nodes": "`{ds}.shuffle(seed={seed:0})`",
    },
    "repeat": {
        "": "`{ds}.repeat({first:2})`, or `{ds}.repeat()` without an end",
        "count | num_epochs | num_times | nepochs | times | n | num": "`{ds}.repeat({value})`",
        "reseed_each_epoch | name": "`{ds}.repeat()`, which shuffles each epoch in a new order",
    },
    "take": {
        "": "`{ds}.take({first:100})`, with a number of examples; `bd.load(..., split='train[:10%]')` is a share",
        "indices | rows": "`{ds}[{value}]`",
        "n | size | num | limit": "`{ds}.take({value})`",
        "columns | features": "`bd.load(name, decoders=bd.decode.PartialDecoding({value}))`, which reads these alone",
        "name": "`{ds}.take({count})`",
    },
    "raw": {
        "": "`{ds}.raw()`, without arguments, whose items are the records as bytes",
    },
    "as_grain_source": {
        "": "`{ds}.as_grain_source()`: its argument fill is given by keyword",
        "epoch | seed | shuffle": "`{ds}.as_grain_source()`; Grain's `shuffle(seed=0)` and `repeat()` decide the order",
        "batch_size | batch": "`grain.MapDataset.source({ds}.as_grain_source()).batch({value})`",
        "transform | map_fn": "`{ds}.map({value}).as_grain_source()`",
    },
    "find": {
        "default": "`{ds}.find({key})`, which is None where there is no such key",
        "": "`{ds}.find({first:key})`, with the key that the builder yielded; `{ds}.filter(function)` selects by a feature",
    },
    "skip": {
        "": "`{ds}.skip({first:100})`, with a number of examples",
        "n | size | num": "`{ds}.skip({value})`",
        "name": "`{ds}.skip({count})`",
    },
    "shard": {
        "": "`{ds}.shard(0, {first:2})`: the worker's number, then how many there are",
        "num_shards | index": "`{ds}.shard({index:0}, {num_shards:{worker_index:2}})`: the worker's number, then how many there are",
        "world_size | rank": "`{ds}.shard({rank:0}, {world_size:2})`: the worker's number, then how many there are",
        "shard_count | shard_index": "`{ds}.shard({shard_index:0}, {shard_count:2})`: the worker's number, then how many there are",
        "process_count | process_index": "`{ds}.shard({process_index:0}, {process_count:2})`: the worker's number, then how many there are",
        "count | total | num_workers | num_replicas | num_ranks": (
            "`{ds}.shard({index:{rank:0}}, {value})`: the worker's number, then how many there are"
        ),
        "contiguous": "`bd.even_splits('train', 4)`, whose parts are ranges",
        "name | keep_in_memory | writer_batch_size": "`{ds}.shard(0, 2)`: the worker's number, then how many there are",
    },
    "batch": {
        "": "`{ds}.batch({batch_size:32}, drop_remainder=True)`: all but the size are given by keyword",
        "padding": "`{ds}.batch({batch_size:32}, pad=True)`, or `{ds}.batch({batch_size:32}, pad_length={max_length:128})` for one length",
        "pad_to_multiple_of | multiple_of": "`{ds}.batch({batch_size:32}, pad_length=128)` with a multiple of {value}, or `{ds}.batch_by_length(...)`",
        "truncation | truncate": "`{ds}.map(function)`, where the function cuts what is too long",
        "columns | features": "`bd.load(name, decoders=bd.decode.PartialDecoding({value}))`, which reads these alone",
        "device": "`{ds}.batch({batch_size:32}).as_jax(device={value})`, or `tensor.to({value})` for each tensor of a batch of `{ds}.as_torch()`",
        "max_length | max_len | length | pad_to | seq_len | sequence_length": "`{ds}.batch({batch_size:32}, pad_length={value})`",
        "pad_token_id | pad_id | fill_value | pad_token": "`{ds}.batch({batch_size:32}, pad_value={value})`",
        "shuffle | seed": "`{ds}.shuffle(seed=0).batch({batch_size:32})`",
        "prefetch | prefetch_factor | buffer_size": "`{ds}.batch({batch_size:32}).parallel(threads=4)`",
        "transform | map_fn | fn": "`{ds}.batch({batch_size:32}).map({value})`",
        "drop_last_batch | drop_last": "`{ds}.batch({batch_size:32}, drop_remainder={value})`",
        "partial": "`{ds}.batch({batch_size:32}, drop_remainder=not {value})`",
        "num_parallel_calls | num_proc | num_workers": "`{ds}.batch({batch_size:32}).parallel(threads=4)`",
        "deterministic | name": _ORDERED,
        "collate_fn | collation_fn | batch_fn": "`{ds}.batch({batch_size:32}).map({value})`",
        "padding_values | padding_value": "`{ds}.batch({batch_size:32}, pad_value={value})`",
        "padded_shapes": "`{ds}.padded_batch({batch_size:32})`, which pads to the longest, or `pad_length=128` or a dict of lengths, for {value}",
        "size | batchsize | batch | n | bs": "`{ds}.batch({value})`",
    },
    "batch_by_length": {
        "": "`{ds}.batch_by_length({boundaries:[128, 512]}, {batch_sizes:[32, 16, 8]}, length='tokens')`, with the feature whose length counts",
        "element_length_func | length_func | key | feature | column": (
            "`{ds}.batch_by_length({boundaries:[128, 512]}, {batch_sizes:[32, 16, 8]}, length={value})`"
        ),
        "bucket_boundaries": "`{ds}.batch_by_length({value}, {bucket_batch_sizes:[32, 16, 8]}, length='tokens')`",
        "bucket_batch_sizes": "`{ds}.batch_by_length({boundaries:[128, 512]}, {value}, length='tokens')`",
    },
    "flat_map": {
        "": "`{ds}.flat_map({function:function})`, with a function that returns a list of items for an example",
        "map_func | fn | func | transform": "`{ds}.flat_map({value})`",
    },
    "chunk": {
        "": "`{ds}.chunk({max_length:512}, ['tokens'])`, with the names of the features to divide",
        "chunk_size | size | length | max_len | seq_len | seq_length | block_size | chunk_length | window": "`{ds}.chunk({value}, ['tokens'])`",
        "stride | step | overlap_size | shift": "`{ds}.chunk({max_length:512}, {features:['tokens']}, overlap=64)`: the overlap is the length without the stride, {value}",
        "columns | fields | keys": "`{ds}.chunk({max_length:512}, {value})`, with a list of names",
        "column | feature": "`{ds}.chunk({max_length:512}, [{value}])`",
    },
    "pack": {
        "": "`{ds}.pack({max_length:512}, ['tokens'])`, with the names of the features to pack",
        "seq_len | seq_length | sequence_length | length | max_len | max_seq_len | max_seq_length | context_length"
        " | length_struct | task_feature_lengths | block_size": "`{ds}.pack({value}, ['tokens'])`, with the names of the features to pack",
        "columns | fields | keys": "`{ds}.pack({max_length:512}, {value})`, with a list of names",
        "column | feature": "`{ds}.pack({max_length:512}, [{value}])`",
        "batch_size": "`{ds}.pack({max_length:512}, ['tokens']).batch({value})`",
        "pad | pad_value | pad_id | pad_token_id | padding": (
            "`{ds}.pack({max_length:512}, ['tokens'])`, which fills up with 0; segment_ids are 0 there, too"
        ),
    },
    "iterate": {
        "": "`{ds}.iterate(epoch={first:0})`, or `{ds}.iterate(state=state)`",
        "seed": "`{ds}.shuffle(seed={value})`, then `iterate()`",
        "shuffle": "`{ds}.shuffle(seed=0)`, then `iterate()`",
        "batch_size": "`{ds}.batch({value}).iterate()`",
        "start | skip | offset | step | start_index | start_step | position": "`{ds}.skip({value}).iterate()`",
        "epochs | num_epochs | repeat": "`{ds}.repeat({value}).iterate()`",
        "rank | world_size | num_ranks | num_shards | index | worker": "`{ds}.shard({rank:0}, {world_size:2}).iterate()`",
        "prefetch | num_workers | num_threads | workers": "`{ds}.parallel(threads=4).iterate()`",
        "checkpoint | state_dict | resume | resume_from": "`{ds}.iterate(state={value})`",
    },
    "as_jax": {
        "": "`{ds}.as_jax(device={first:None})`: all arguments are given by keyword: device, fill, epoch",
        "batch_size | batch": "`{ds}.batch({value}).as_jax()`",
        "mesh | sharding | devices | num_devices | device_put | backend": (
            "`{ds}.batch(32).as_jax(device=sharding)`, with a `jax.sharding.Sharding` or a `jax.Device`"
        ),
        "shuffle | seed": "`{ds}.shuffle(seed=0).as_jax()`",
        "dtype | dtypes": "`{ds}.map(function).as_jax()`, where the function converts arrays",
        "prefetch | num_workers | prefetch_size": "`{ds}.parallel(threads=4).as_jax()`",
        "drop_remainder | drop_last": "`{ds}.batch(32, drop_remainder={value}).as_jax()`",
        "num_epochs | repeat": "`{ds}.repeat({value}).as_jax()`",
        "columns | features": "`bd.load(name, decoders=bd.decode.PartialDecoding({value}))`, which reads these alone",
    },
    "as_tf_dataset": {
        "": "`{ds}.as_tf_dataset()`: all arguments are given by keyword: output_signature, state, fill, epoch",
        "batch_size | batch": "`{ds}.batch({value}).as_tf_dataset()`",
        "shuffle | seed | shuffle_files | buffer_size": "`{ds}.shuffle(seed=0).as_tf_dataset()`",
        "columns | features": "`bd.load(name, decoders=bd.decode.PartialDecoding({value}))`, which reads these alone",
        "label_cols | as_supervised": "`bd.load(name, as_supervised=True)`, whose examples are pairs",
        "drop_remainder | drop_last": "`{ds}.batch(32, drop_remainder={value}).as_tf_dataset()`",
        "prefetch | num_workers | num_parallel_calls": "`{ds}.as_tf_dataset().prefetch(2)`",
        "collate_fn | transform | map_fn": "`{ds}.map({value}).as_tf_dataset()`",
        "repeat | num_epochs": "`{ds}.repeat({value}).as_tf_dataset()`",
    },
    "even_splits": {
        "num_splits | count | num | k | parts | num_parts | num_shards": "`bd.even_splits({split:'train'}, {value})`",
    },
    "list_builders": {
        "": "`bd.list_builders(data_dir)`",
        "with_community_datasets | with_details | with_community_metrics": "`bd.list_builders(data_dir)`: it lists what is published there",
    },
    "as_dataset": {
        "shuffle | seed": "`builder.as_dataset({split:'train'}).shuffle(seed=0)`",
        "columns | features": "`builder.as_dataset({split:'train'}, decoders=bd.decode.PartialDecoding({value}))`",
        "drop_remainder | drop_last": "`builder.as_dataset({split:'train'}).batch(32, drop_remainder={value})`",
        "num_epochs | repeat | epochs": "`builder.as_dataset({split:'train'}).repeat({value})`",
        "num_workers | num_proc | prefetch": "`builder.as_dataset({split:'train'}).parallel(threads=4)`",
        "sequence_length | task_feature_lengths": "`builder.as_dataset({split:'train'}).pack({value})`",
        "run_post_process | ignore_verifications | in_memory | streaming | use_cached": "`builder.as_dataset({split:'train'})`",
    },
    "show_examples": {
        "cols | plot_scale | image_key | is_batched": "`bd.show_examples({ds}, rows=4)`, a table",
        "n | num | count | limit | num_examples | max_examples | k | head": "`bd.show_examples({ds}, rows={value})`",
        "columns | features": "`bd.load(name, decoders=bd.decode.PartialDecoding({value}))`, which reads these alone",
        "split | data_dir": "`bd.show_examples(bd.load({ds:'name'}, split='train', data_dir=directory))`",
    },
    "as_dataframe": {
        "columns | features": "`bd.load(name, decoders=bd.decode.PartialDecoding({value}))`, which reads these alone",
        "n | limit | nrows | count | max_rows": "`bd.as_dataframe({ds}.take({value}))`",
        "split | data_dir": "`bd.as_dataframe(bd.load({ds:'name'}, split='train', data_dir=directory))`",
    },
    "verify": {
        "data_dir | name": "`bd.verify(bd.builder({dataset_dir:'name'}, data_dir={value}).dataset_dir)`",
        "fix | heal | repair": "`bd.repair({dataset_dir:directory})`, or `beam-datasets verify NAME --repair`",
        "num_workers | workers | num_proc | threads": "`bd.verify({dataset_dir:directory}, jobs={value})`",
        "full | deep | check_images": "`bd.verify({dataset_dir:directory}, decode={value})`",
    },
    "diff": {
        "": "`bd.diff('name:1.0.0', 'name:2.0.0', data_dir=directory)`: the old version, then the new one",
        "dir | path | directory | root": "`bd.diff({old:'name:1.0.0'}, {new:'name:2.0.0'}, data_dir={value})`",
        "split": "`bd.diff({old:'name:1.0.0'}, {new:'name:2.0.0'}, splits=[{value}])`",
    },
    "adopt": {
        "": "`bd.adopt({pattern:'*.tfrecord'}, {{'image': bd.features.Image()}}, name='name', data_dir=directory)`",
        "schema | feature_description | features_dict": "`bd.adopt({pattern:'*.tfrecord'}, {value})`",
        "output | output_dir | out | directory": "`bd.adopt({pattern:'*.tfrecord'}, {features:features}, data_dir={value})`",
    },
    "append": {
        "": "`bd.append({source:'name'}, Builder(), data_dir=directory)`: the new data is a builder, or the name or directory of a published dataset",
        "pattern | data_files | files | file | path | paths": (
            "`bd.append({source:'name'}, Csv(name={source:'name'}, pattern={value}, key='id'))`, with the builder of their format, as in "
            "`from beam_datasets.files.csv import Csv`"
        ),
        "more | other | dataset | data | builder | new_data": "`bd.append({source:'name'}, {value})`",
        "examples | rows | items | records | generator": "`bd.append({source:'name'}, Builder())`, with a `bd.DatasetBuilder` that yields {value}",
        "mode | on_conflict | if_exists | duplicates | on_duplicates": "`bd.append({source:'name'}, {new:Builder()}, on_duplicate='replace')`, or 'keep_old', 'skip_identical'",
        "keys | delete_keys | remove | remove_keys": "`bd.append({source:'name'}, delete={value})`",
        "to | name | output | output_dir": "`bd.append({source:'name'}, {new:Builder()}, data_dir=directory)`: the next version is put beside the published one",
    },
    "builder": {
        "": "`bd.builder({first:'name'}, data_dir=directory)`: all but the name are given by keyword, also `version='1.0.0'`",
    },
    "builder_kwargs": {
        "split": "`bd.builder({name}).as_dataset({value})`",
        "dataset_dir | path | directory | root | dir | cache_dir | local | remote": "`bd.builder({name}, data_dir={value})`, or `bd.builder_from_directory({value})`",
        "try_gcs | download | download_and_prepare_kwargs": "`import beam_datasets.tfds as tfds`, then `tfds.builder({name}, ...)`, which takes it",
        "config_name | subset | builder_config | variant": "`bd.builder({name}, config={value})`",
        "revision": "`bd.builder({name}, version={value})`",
        "token | use_auth_token": "`bd.builder({name}, storage_options={{'token': {value}}})`",
        "batch_size | shuffle_files | read_config | decoders | as_supervised": "`bd.builder({name}).as_dataset('train', {argument}={value})`",
    },
    "ReadConfig": {
        "seed | shuffle | shuffle_examples": "`ds.shuffle(seed=0)` for examples; `bd.ReadConfig(shuffle_seed=0)` is the order of files",
        "num_workers | num_threads | prefetch | buffer_size | num_parallel_reads | workers": "`ds.parallel(threads=4)`",
        "batch_size": "`ds.batch({value})`",
        "text": "`bd.load(name, text={value})`",
        "split": "`bd.load(name, split={value})`",
        "decoders": "`bd.load(name, decoders={value})`",
        "as_supervised": "`bd.load(name, as_supervised={value})`",
        "cycle_length": "`bd.ReadConfig(interleave_cycle_length={value})`",
        "block_length": "`bd.ReadConfig(interleave_block_length={value})`",
        "num_parallel_calls": "`bd.ReadConfig(num_parallel_calls_for_decode={value})`",
    },
    "DownloadManager": {
        "": "`DownloadManager(DownloadSettings(download_dir=pathlib.Path({first:'downloads'})))`",
        "download_dir | cache_dir | extract_dir": "`DownloadManager(DownloadSettings(download_dir=pathlib.Path({value})))`",
    },
    "Version": {
        "": "`bd.Version('1.0.0')`",
    },
    "Video": {
        "": "`bd.features.Video(shape=(None, 256, 256, 3))`: all arguments are given by keyword",
        "fps | frame_rate | num_frames": "`bd.features.Video(shape=(None, 256, 256, 3), ffmpeg_extra_args=('-r', '8'))`",
        "size | height | width | resize": "`bd.features.Video(shape=(None, 256, 256, 3))`",
    },
    "BuilderConfig": {
        "": "`bd.BuilderConfig(name='small', version='1.0.0', description='...')`",
        "lang | language | languages | size | subset | split | splits | url | urls | data_url | data_urls | data_dir | data_files | features"
        " | citation | homepage | num_classes | labels | image_size | resolution": (
            "a subclass of `bd.BuilderConfig`, decorated as a dataclass, with the attribute {argument}"
        ),
    },
    "Sequence": {
        "optional | nullable | required": "nothing: a list may be empty",
        "max_length | min_length | size | maxlen | max_len | n": "`bd.features.Sequence({feature:'int64'})` for any length, or `bd.features.Sequence({feature:'int64'}, length={value})` for one",
    },
    "FeaturesDict": {
        "": "`bd.features.FeaturesDict({{'id': 'int64', 'text': bd.features.Text()}})`",
    },
    "materialize": {
        "overwrite | force | exist_ok | replace": "`bd.materialize({source:'name'}, to='few:1.0.1')`, another version: a published one never changes",
        "shuffle | seed | salt": "`bd.materialize({source:'name'}, reshuffle='1')`, whose order is a function of this text and the keys",
        "map | transform | function | map_fn": "`ds.map(function)` where the dataset is read, or a builder that reads {source:the source}",
        "version": "`bd.materialize({source:'name'}, to='few:2.0.0')`, a name with a version",
        "limit | take | max_examples | n": "`bd.materialize({source:'name'}, split='train[:1000]')`",
        "": "`bd.materialize({source:'name'}, split='train[:10%]', to='few', data_dir=directory)`: all but the source is given by keyword",
        "name | new_name | dataset_name": "`bd.materialize({source:'name'}, to={value})`",
        "output | output_dir | out | out_dir | path | directory | output_path": "`bd.materialize({source:'name'}, data_dir={value})`",
        "columns | select": "`bd.materialize({source:'name'}, features={value})`",
        "query | predicate | condition": "`bd.materialize({source:'name'}, where={value})`",
        "num_proc | workers | num_threads": "`bd.materialize({source:'name'}, num_workers={value})`",
        "dry_run | preview | simulate": "the command: `beam-datasets materialize NAME --dry_run`",
    },
    "export": {
        "overwrite | force | exist_ok | mode": "`bd.export({source:'name'}, to=directory)` with a directory that does not exist",
        "compression | codec | compress": "`bd.export({source:'name'}, to={to:directory})` as it is: Parquet files are compressed",
        "limit | take | max_examples | n": "`bd.export({source:'name'}, to={to:directory}, split='train[:1000]')`",
        "num_files | files": "`bd.export({source:'name'}, to={to:directory}, num_shards={value})`",
        "": "`bd.export({source:'name'}, to={to:directory}, format='parquet')`",
        "source_data_dir": "`bd.export({source:'name'}, data_dir={value})`, the directory of the source",
        "output | output_dir | out | out_dir | path | directory | output_path": "`bd.export({source:'name'}, to={value})`",
        "file_format | output_format | type": "`bd.export({source:'name'}, format={value})`",
        "columns | select": "`bd.export({source:'name'}, features={value})`",
        "num_proc | workers": "`bd.export({source:'name'}, num_workers={value})`",
        "where | filter | query | predicate | condition": "`bd.materialize({source:'name'}, where='price > 3', to='part')`, then export that",
    },
    "DatasetInfo": {
        "task_templates | post_processed | post_processing_size | download_checksums | dataset_size": "nothing: none of it is given; sizes are counted",
        "version | name | dataset_name | config_name | builder_name | data_dir": "`bd.DatasetInfo(builder=self)`: the builder has it",
        "schema | columns | feature_dict | fields": "`bd.DatasetInfo(builder=self, features={value})`",
    },
    "Image": {
        "": "`bd.features.Image(shape=(224, 224, 3))`: all arguments are given by keyword",
        "mode | color_mode | channels": "`bd.features.Image(shape=(None, None, 1))` for gray, or 3 for RGB, 4 for RGBA",
        "decode": "`bd.load(..., decoders={{'image': bd.decode.SkipDecoding()}})`, where the dataset is read",
        "size | resize | target_size | height | width": "`bd.features.Image()`, and resize in `ds.map(function)`",
        "format": "`bd.features.Image(encoding_format={value})`",
        "optional | nullable | required": "`bd.features.Sequence(bd.features.Image())`, which may be empty",
    },
    "Audio": {
        "": "`bd.features.Audio(sample_rate=16000)`: all arguments are given by keyword",
        "sampling_rate | rate | sr": "`bd.features.Audio(sample_rate={value})`",
        "mono | channels | num_channels": "`bd.features.Audio()` for one channel, or `bd.features.Audio(shape=(None, 2))` for two",
        "decode": "`bd.load(..., decoders={{'audio': bd.decode.SkipDecoding()}})`, where the dataset is read",
    },
    "Text": {
        "shape": "`bd.features.Sequence(bd.features.Text())` for several texts",
        "dtype | encoding | vocab | max_length | max_len | length | tokenizer | vocab_size": "`bd.features.Text()`, which takes any text; tokenize in `ds.map(function)`",
    },
    "ClassLabel": {
        "": "`bd.features.ClassLabel(num_classes=10)`, or `bd.features.ClassLabel(names=['cat', 'dog'])`",
        "labels | classes | class_names | categories | values": "`bd.features.ClassLabel(names={value})`",
        "n | num_labels | n_classes | num": "`bd.features.ClassLabel(num_classes={value})`",
        "optional | nullable | required": "nothing: the label -1 is that of examples without one",
    },
    "Tensor": {
        "": "`bd.features.Tensor(shape=(2, 3), dtype='float32')`: all arguments are given by keyword",
        "size | dims | dim": "`bd.features.Tensor(shape={value}, dtype={dtype:'float32'})`",
    },
    "Scalar": {
        "": "`bd.features.Scalar({dtype:'int64'})`, with any dtype of NumPy",
        "shape": "`bd.features.Tensor(shape={value}, dtype={dtype:'int64'})`",
        "type": "`bd.features.Scalar({value})`",
        "default | default_value | fill_value": "`bd.features.Scalar({dtype:'int64'}, optional=True)`; `ds.batch(32, fill={value})` fills missing values where they are read",
        "nullable | required": "`bd.features.Scalar({dtype:'int64'}, optional=True)` for a value that may be missing",
    },
    "as_torch": {
        "": "`{ds}.as_torch()`: all arguments are given by keyword: map_style, rank, num_ranks, block, even, fill, epoch",
        "batch_size | batch": "`DataLoader({ds}.batch({value}).as_torch(), batch_size=None)`",
        "tokenizer | processor | image_processor": "`{ds}.map(function).as_torch()`, where the function calls {value}",
        "iterable | streaming": "nothing: it is an IterableDataset, unless `map_style=True`",
        "num_workers | pin_memory | prefetch_factor | persistent_workers | collate_fn | worker_init_fn | timeout": (
            "`DataLoader({ds}.as_torch(), {argument}={value})`: it is an argument of the DataLoader"
        ),
        "device": "`tensor.to({value})` for each tensor of a batch; arrays are put on the CPU",
        "columns | features": "`bd.load(name, decoders=bd.decode.PartialDecoding({value}))`, which reads these alone",
        "transform | transforms | map_fn": "`{ds}.map({value}).as_torch()`",
        "target_transform": "`{ds}.map(lambda e: {{**e, 'label': ({value})(e['label'])}}).as_torch()`",
        "pad": "`{ds}.batch(32, pad=True).as_torch()`, with `DataLoader(..., batch_size=None)`; `even='pad'` gives all ranks the same number of steps",
        "generator": "`{ds}.shuffle(seed=0).as_torch()`, with a number",
        "worker_id | worker_index": "nothing: it finds the worker of a DataLoader itself",
        "dtype | dtypes": "`{ds}.map(function).as_torch()`, where the function converts arrays",
        "prefetch | prefetch_batches | buffer_size": "`DataLoader({ds}.as_torch(), prefetch_factor={value}, num_workers=2)`: it is an argument of the DataLoader",
        "num_epochs | repeat": "`{ds}.repeat({value}).as_torch()`",
        "shuffle | seed": "`{ds}.shuffle(seed=0).as_torch()`",
        "drop_last": "`{ds}.as_torch(even='drop')`",
        "cuda | gpu": "`tensor.to('cuda')` for each tensor of a batch; arrays are put on the CPU",
        "infinite | endless | loop": "`{ds}.repeat().as_torch()`, which has no end",
        "world_size | num_replicas": "`{ds}.as_torch(rank={rank:0}, num_ranks={value})`",
        "sampler | batch_sampler": "`DataLoader({ds}.as_torch(map_style=True), {argument}={value})`",
    },
    "load": {
        "": (
            "`bd.load({first:'name'}, split='train', data_dir=directory)`: all but the name are given by keyword, also `config='small'`"
        ),
        "batch | bs | batchsize": "`bd.load({name}, split={split:'train'}).batch({value})`",
        "epoch": "`bd.load({name}, split={split:'train'}).iterate(epoch={value})`",
        "decode": "`bd.load({name}, split={split:'train'}, decoders={{'image': bd.decode.SkipDecoding()}})`",
        "frac | fraction | percent | sample | ratio | subsample": "`bd.load({name}, split='train[:{value:10%}]')`, which is a random sample",
        "pin_memory | collate_fn | sampler | batch_sampler | persistent_workers": (
            "`torch.utils.data.DataLoader(bd.load({name}, split={split:'train'}).as_torch(), {argument}={value})`"
        ),
        "device": "`bd.load({name}, split={split:'train'}).as_jax(device={value})`, or `tensor.to({value})` for tensors of PyTorch",
        "dtype | dtypes | cast": "`bd.load({name}, split={split:'train'}).map(function)`, where the function converts values",
        "tag | date | as_of | snapshot": "`bd.load({name}, split={split:'train'}, version='1.0.0')`; `beam-datasets list --versions` shows when each was published, and its tags",
        "config_name | subset | builder_config | variant": "`bd.load({name}, config={value}, split={split:'train'})`",
        "limit | max_examples | num_examples | n | nrows | take | count | num_samples | max_rows | max_samples": (
            "`bd.load({name}, split={split:'train'}).take({value})`"
        ),
        "transform | map | map_fn | preprocess | preprocessing | target_transform | preprocessors": (
            "`bd.load({name}, split={split:'train'}).map(function)`"
        ),
        "filter | filter_fn | predicate": "`bd.load({name}, split={split:'train'}).filter(function)`",
        "format | to | return_type | output_type | framework | backend | as_format | with_format | return_tensors": (
            "`bd.load({name}, split={split:'train'})`, then `as_torch()`, `as_jax()` or `as_tf_dataset()`, for {value}"
        ),
        "cache | cache_in_memory | in_memory | use_cache": (
            "`bd.load({name}, split={split:'train'})`: local files need no cache; for remote ones set $BEAM_DATASETS_CACHE_DIR"
        ),
        "prefetch | prefetch_factor | buffer_size | max_workers | num_threads | workers | num_parallel_calls"
        " | num_parallel_reads | predownload": "`bd.load({name}, split={split:'train'}).parallel(threads=4)`",
        "rank | world_size | num_ranks | shard | num_shards | shard_index | index | process_index | process_count | num_replicas"
        " | shard_info | worker_index": (
            "`bd.load({name}, split={split:'train'}).as_torch()`, which finds the ranks, or `ds.shard({rank:0}, {world_size:2})`"
        ),
        "train": "`bd.load({name}, split='train')`",
        "splits | split_name | subsets": "`bd.load({name}, split={value})`",
        "download_mode": "nothing: what is published does not change; `beam-datasets build --overwrite` builds it again",
        "file_format": "nothing: datasets are TFRecord files; `beam-datasets export NAME --format parquet --to DIR` writes others",
        "schema | infer_schema | on_bad_files | pattern | delimiter": (
            "`beam-datasets build --help`, which lists the formats of files; `bd.load` reads what is published"
        ),
        "as_numpy | as_dict | numpy": "`bd.load({name}, split={split:'train'})`: values are NumPy's",
        "epochs | repeat": "`bd.load({name}, split={split:'train'}).repeat({value})`",
        "download | try_gcs | download_and_prepare | download_and_prepare_kwargs | as_dataset_kwargs": (
            "`import beam_datasets.tfds as tfds`, then `tfds.load({name}, ...)`, which takes it; `bd.load` reads what is published"
        ),
        "where": "`bd.load({name}, split={split:'train'}).filter(function)`, or `bd.materialize({name}, where={value}, to='part')`",
        "streaming | lazy | mmap | memory_map": "`bd.load({name}, split={split:'train'})`: examples are read as they are needed",
        "data_files": _FILES
        + " {value:FILE}`, which names the command for its format; then `bd.load('NAME', data_dir='DIR')`",
        "path": "`bd.load({name:{value}}, split={split:'train'})`; the directory of the datasets is the argument data_dir",
        "encoding | decode_text | as_str": "`bd.load({name}, split={split:'train'}, text='str')`, which reads text as str",
        "ignore_verifications | verify | check | checksums": "nothing: what is read is checked against its checksums; `beam-datasets verify` checks all",
        "revision": "`bd.load({name}, split={split:'train'}, version={value})`",
        "cache_dir | local | remote | root | data_root | directory | dir | data_path | dataset_dir | input_dir": (
            "`bd.load({name}, split={split:'train'}, data_dir={value})`, which may be a URL"
        ),
        "shuffle | seed | shuffle_seed | random_state": "`bd.load({name}, split={split:'train'}).shuffle(seed={seed:{shuffle_seed:0}})`",
        "columns | features | fields | usecols | select | select_columns | column | keys": (
            "`bd.load({name}, split={split:'train'}, decoders=bd.decode.PartialDecoding({value}))`"
        ),
        "drop | exclude | drop_columns | remove_columns | ignore": (
            "`bd.load({name}, split={split:'train'}, decoders=bd.decode.PartialDecoding([...]))` with the features to keep, without {value}"
        ),
        "max_length | max_len | pad_length | pad_to | padding | pad | truncation": (
            "`bd.load({name}, split={split:'train'}).padded_batch(32, pad_length=128)`, or `ds.map(function)`"
        ),
        "image_size | img_size | target_size | resize | size | color_mode | normalize": (
            "`bd.load({name}, split={split:'train'}).map(function)`, where the function changes the image"
        ),
        "num_proc | num_workers": "`bd.load({name}, split={split:'train'}).parallel(processes={value})`" + _GUARD,
        "token | use_auth_token": "`bd.load({name}, storage_options={{'token': {value}}})`",
        "verbose | quiet | progress | progress_bar | show_progress | log_level": "nothing: reading prints nothing",
        "label_names | str_labels | decode_labels": "`ds.features['label'].int2str(index)`, or `ds.to_pandas(label_names=True)`",
        "trust_remote_code": "an import of the builder's module: nothing else runs code",
        "keep_in_memory | save_infos | verification_mode | fs": "`bd.load({name}, split={split:'train'})`",
        "skip | offset | start | start_index": "`bd.load({name}, split={split:'train'}).skip({value})`, or `split='train[10:]'`",
        "drop_remainder | drop_last": "`bd.load({name}, split={split:'train'}).batch(32, drop_remainder={value})`",
        "sequence_length | task_feature_lengths": "`bd.load({name}, split={split:'train'}).pack({value})`",
        "num_epochs": "`bd.load({name}, split={split:'train'}).repeat({value})`",
        "datadir | data_directory | base_dir | base_path": "`bd.load({name}, split={split:'train'}, data_dir={value})`",
        "batching_method | shuffle_algo | num_canonical_nodes | replication | cache_limit | validate_hash | item_loader | shardshuffle | nodesplitter | empty_check": (
            "`bd.load({name}, split={split:'train'})`: the order does not depend on shards, caches or nodes"
        ),
    },
}

COMMANDS: Mapping[str, str] = {
    "ls | dir | datasets | catalog | catalogue": "`beam-datasets list {args}`",
    "show | describe | inspect | details | schema | features | columns | count | len | size | splits | num_examples"
    " | metadata | du | get | wc": "`beam-datasets info {args}`, and `beam-datasets head {name:NAME}` for examples",
    "configs | log | lineage | history | tags | releases": "`beam-datasets list --versions`, and `beam-datasets info {name:NAME}` for one",
    "untag": "`beam-datasets tag {name:NAME} {second:TAG} --remove`",
    "tail | sample | cat | view | preview | peek | print | first | examples | look | take | rows": "`beam-datasets head {args}`",
    "rm | remove | delete | del | drop | uninstall": (
        "`beam-datasets prune {name:NAME} --keep 1`, which removes old versions; to remove all, delete the directory that "
        "`beam-datasets info {name:NAME}` prints"
    ),
    "mv | rename | move | cp | copy": (
        "`beam-datasets materialize {name:NAME} --to {second:NEW} --data_dir DIR`, which copies a dataset under another name; "
        "`beam-datasets prune {name:NAME} --keep 1` removes old versions"
    ),
    "download | pull | fetch | clone | push | upload | deploy | sync": (
        "`beam-datasets materialize {name:NAME} --source_data_dir FROM --data_dir TO`, which copies; both may be URLs. "
        "`bd.load({name:'NAME'}, data_dir='gs://bucket/data')` reads a store directly"
    ),
    "convert_format": "`beam-datasets export NAME --format arrayrecord --to DIR`, or another format",
    "convert | to_parquet | to_json | to_csv | to_webdataset | dump | save": (
        "`beam-datasets export {name:NAME} --format parquet --to DIR`; from files, `beam-datasets build csv --name NAME "
        "--pattern FILES`, or jsonl, parquet, tfrecord"
    ),
    "test | lint": "`beam-datasets plan {args}` for a builder, whose sample it encodes, or `beam-datasets verify NAME`",
    "validate | check | fsck | checksum | audit": "`beam-datasets verify {args}`",
    "repair | fix | heal | recover": "`beam-datasets verify {args} --repair`",
    "init | create | scaffold | start | template | add_dataset": "`beam-datasets new {args}`",
    "generate | make | run | download_and_prepare | prepare | write | ingest | import | load | gen | compile"
    " | create_dataset | optimize": "`beam-datasets build {args}`",
    "compare | changes | delta": "`beam-datasets diff {args}`",
    "commit | publish_version": "`beam-datasets append NAME --from SOURCE`, which publishes new examples as the next version",
    "build_croissant | croissant": "`beam-datasets site DATA_DIR --to DIR`, whose pages contain Croissant metadata",
    "scan_cache | delete_cache | prune_cache": "$BEAM_DATASETS_CACHE_DIR, the directory that keeps what was read of stores; it can be deleted",
    "logs | debug | trace": "the output of the build, with `--debug`; workers of an engine write to its logs",
    "python | exec | shell": "`beam-datasets build {args}`",
    "mount | repo": "$BEAM_DATASETS_DATA_DIR, a directory or a URL: readers need nothing else",
    "clean | cleanup | clear | purge | clear_cache": "`beam-datasets gc {args}`, which lists what killed runs left, and with --yes removes it",
    "ui | explorer | serve | browse | dashboard | web | gui | viewer | open | app": "`beam-datasets explore {args}`",
    "plot | hist | statistics | profile | summary | summarize | report | analyze": "`beam-datasets stats {args}`",
    "filter | where | query": (
        "`beam-datasets materialize {name:NAME} --where {second:\"label = 'cat'\"} --to few --data_dir DIR`, whose condition is that "
        "of the examples to keep"
    ),
    "split | select | subset | slice | merge | concat | join | union | shuffle | shuf | mix | extract | dedup": (
        "`beam-datasets materialize {name:NAME} --split 'train=train[:10%]' --to few --data_dir DIR`, which also takes --where, "
        "--features and several datasets"
    ),
    "sort | order | order_by": "`bd.load({name:'NAME'}, split='train').to_pandas().sort_values('column')`, in Python: keys decide "
    "the order of a dataset",
    "add | update | extend | insert | upsert": "`beam-datasets append {name:NAME} --from csv --pattern {file:FILES}`, or jsonl, parquet; "
    "`--from SOURCE` names a dataset",
    "branch | rebase | stash | blame | worktree | bisect | cherry_pick | reflog": (
        "`beam-datasets list --versions`: a dataset has versions and no branches; `beam-datasets tag {name:NAME:1.0.0} TAG` names one"
    ),
    "reset": "`NAME:1.0.0`, an older version, where a dataset is read: it stays as it is; `beam-datasets gc DATA_DIR` lists leftovers",
    "remote | origin | bucket | storage": "--data_dir URL of each command, or $BEAM_DATASETS_DATA_DIR, such as gs://bucket/data",
    "dummy_data | fake_data | mock": "`beam-datasets new NAME`, whose test has dummy data; `beam_datasets.testing.mock_data` in Python",
    "run_beam | beam | submit | launch": "`beam-datasets build {name:FILE} --runner FlinkRunner`, or another runner of Beam",
    "convert_to_parquet": "`beam-datasets export {name:NAME} --format parquet --to DIR`",
    "delete_from_hub": "`beam-datasets prune {name:NAME} --keep 1`",
    "lfs_enable_largefiles | lfs | lfs_multipart_upload": "`beam-datasets materialize NAME --data_dir gs://bucket/data`, which writes files of any size",
    "search | find | grep | sql": "`bd.load({name:'NAME'}, split='train').filter(function)`, or `find(key)`, in Python; `beam-datasets materialize "
    "{name:NAME} --where \"label = 'cat'\" --to few` writes what fits a condition",
    "resume | retry | restart | continue": "`beam-datasets build {name:NAME} --resume`",
    "jobs | status | ps | cancel | kill | stop | abort | wait": "the engine's own commands, such as those of Flink; a run on this machine ends with Ctrl-C",
    "cache | caches": "$BEAM_DATASETS_CACHE_DIR, the directory that keeps what was read of stores; it can be deleted",
    "config | configure | set | settings": "options of the commands, and $BEAM_DATASETS_DATA_DIR, which replaces --data_dir",
    "completion | completions | autocomplete | shell_completion": "docs/reference/command.md, which says how the shell completes commands: with argcomplete",
    "upgrade | migrate": "pip, as for other packages; published datasets need no change",
    "register | add_builder": "`beam-datasets build FILE.py`, or --imports MODULE of every command",
    "compact | reshard | repartition | rewrite": "`beam-datasets materialize {name:NAME} --num_shards 8 --to NEW --data_dir DIR`",
    "scrub": "`beam-datasets verify {args}`",
    "unpublish": "`beam-datasets prune {name:NAME} --keep 1`, or delete the directory of the version",
    "index | reindex | build_index": "`beam-datasets verify {args} --repair`, which writes missing indexes",
    "tfds | beam_datasets | datasets_cli | huggingface_cli | streaming | litdata | hf | wds | seqio_cache_tasks": "`beam-datasets {args}`",
    "restore | rollback | revert | checkout": "`NAME:1.0.0`, an older version, where a dataset is read: it stays as it is",
    "estimate | cost | simulate | dry_run": "`beam-datasets plan {args}`",
    "version | env | about | V": "`beam-datasets versions`",
    "login | logout | auth | whoami": "the environment of the store, such as $AWS_ACCESS_KEY_ID, or --storage_options JSON_FILE",
    "train | dataloader | benchmark": "`bd.load({name:'NAME'}, split='train').as_torch()` in Python",
}

OPTIONS: Mapping[str, str] = {
    # What is typed here: the names of others. An entry applies to commands that have the first option of its text, or
    # that it names before a colon.
    "head: `--json`": "format | output_format | output | jsonl | csv | raw",
    "head: `--images DIR`, which writes them; without it only their shape is printed": "no_images | show_images | save_images",
    "head: nothing: long values are cut to the width of the terminal": "width | truncate | wrap | max_width | columns_width",
    "head: `--split 'train[{value:5}:]'`, a slice that begins there": "start | skip | offset | begin | from | after",
    "head: `--split 'train[100:]'`, a slice that begins elsewhere: examples are in random order": "random | sample | shuffle | seed",
    "head: `beam-datasets slices NAME 'train[{value:5}:]'`, which shows where they are stored": "index | position",
    "head: `ds[ds.find({value:key})]` in Python, with `ds = bd.load('NAME', split='train')`": "key | id | find | by_key",
    "head: `beam-datasets materialize NAME --where {value:'a > 1'} --to PART`, then `beam-datasets head PART`": (
        "where | filter | query | condition | match"
    ),
    "head: `beam-datasets explore NAME`, which shows the features that are asked for": (
        "columns | features | fields | select | feature | column | c"
    ),
    "stats: `beam-datasets materialize NAME --where {value:'a > 1'} --to PART`, then `beam-datasets stats PART`": (
        "where | filter | query | condition"
    ),
    "stats: `--split 'train[:10%]'`, a random sample": "sample | limit | max_examples | n | fraction | rows | nrows | count",
    "stats: `--again`": "force | refresh | recompute | overwrite | no_cache | f",
    "stats: `--json`, with all numbers, or `--html page.html`": "csv | format | output_format | tsv | bins | histogram | plots",
    "info: `--json`, or no option: features, splits and sizes are printed": (
        "features | splits | split | subset | schema | full | all | long | details | format | output_format | stats | verbose | v"
    ),
    "list: `--versions`, which also prints sizes, times, tags and sources": "all | long | l | a | tags | details | full | history | verbose | v",
    "verify: `--jobs {value:8}`, which reads more shards at once: all of a dataset is read": "quick | fast | sample | limit | shallow",
    "verify: `beam-datasets verify NAME`, which reads all splits": "split | splits | all",
    "diff: `--json`, or no option: the numbers of each split, and examples that differ, are printed": (
        "stat | stats | summary | name_only | brief | numstat | short | output | format | verbose"
    ),
    "gc: nothing: leftovers are listed, and with --yes removed": "aggressive | prune | auto | keep_largest_pack",
    "explore: `--host 0.0.0.0 --token`, which serves other machines": "share | public | listen | bind | remote | server_name",
    "list: `--data_dir {value:DIR}`, a directory or a URL, such as gs://bucket/data, whose datasets it lists": "remote | remotes | r | url | bucket",
    "list: `beam-datasets list`, which lists datasets": "datasets | dataset",
    "materialize: `--split 'train[:{value:1000}]'`": "limit | n | max_examples | take | num_examples | max_rows | rows | count | head",
    "materialize: `--split 'train[:10%]'`, a random sample": "sample | frac | fraction | percent | subsample | ratio",
    "materialize: `--features A,B`, the features to keep": "drop | exclude | remove | remove_columns | drop_columns | without",
    "materialize: `--reshuffle {value:1}`, which makes another order": "shuffle | seed | order_by | sort | sort_by | group_by | random_seed | salt | order",
    "materialize: `--to NAME:VERSION`, another version: a published one never changes": "overwrite | force | f | replace | exist_ok",
    "materialize: `beam-datasets new NAME`, a builder that reads the dataset and changes its examples": (
        "cast | rename | map | transform | rename_column | dtype | function | add_column"
    ),
    "export: `--split 'train=train[:{value:1000}]'`": "limit | n | max_examples | take | num_examples | max_rows | rows | count | head",
    "export: `--to DIR`, a directory that does not exist: nothing is overwritten": "overwrite | force | f | replace | exist_ok | mode",
    "export: `--format parquet` as it is: its files are compressed": "compression | compress | codec | gzip | zstd",
    "export: `--features A,B`, the features to keep": "drop | exclude | remove | remove_columns | drop_columns | without",
    "build: `--manual_dir DIR/NAME`, the directory of this dataset": "add_name_to_manual_dir",
    "build: `--download_dir {value:DIR}`, which also keeps what is extracted": "extract_dir | extraction_dir | cache_extracted",
    "build: `--download_dir DIR`, `--manual_dir DIR` and `--register_checksums`, the settings of downloads": "download_config | dl_config",
    "build: `--register_checksums`, which writes checksums.tsv beside the builder": "checksums_dir | checksums | checksum_file | checksums_file",
    "build: nothing: only the builder downloads, and what is in --download_dir is not downloaded again": (
        "no_download | try_gcs | try_download_gcs | offline | use_gcs"
    ),
    "build: `beam-datasets build NAME` for each dataset: it comes first, without an option": "datasets",
    "build: `--data_dir {value:gs://bucket/data}`": "remote | bucket | gcs_bucket | s3",
    "versions: `beam-datasets list --versions`, those of datasets": "all | dataset | name",
    "export: `--to DIR`, whose files can be uploaded to {value:a hub}": "push_to_hub | repo | repo_id | hub | upload",
    "build: `--data_dir {value:DIR}`: readers see a version when it is complete": "publish_dir | tmp_dir | work_dir | staging_dir",
    "build: `python -m pdb -m beam_datasets.cli build NAME`": "pdb | ipdb | breakpoint",
    "build: `NAME/CONFIG`, the config as a part of the name": "config_idx | config_index",
    "build: `beam-datasets build NAME` for each of the others": "exclude_datasets | exclude | skip_datasets",
    "build: `VERSION` of the builder's class: another number for what changed": "update_metadata_only",
    "build: `FILE.py:CLASS:latest`, or `NAME:latest` of an imported builder: its highest supported version": "experimental_latest_version | latest_version",
    "build: `--skip_published`; without it, and without --overwrite, a published version is an error": "fail_if_exists | exist_ok | if_exists",
    "build: `--download_dir DIR`, which keeps downloads for the next build": "download_only | only_download",
    "build: `--description {value:TEXT}`, which may contain it": "license | citation | homepage | url | author | notes | readme",
    "build: `beam-datasets tag NAME:1.0.0 {value:TAG}` after it is published": "tag | tags | label_version | alias",
    "build: `beam-datasets materialize NAME --where {value:'a > 1'} --to PART` after it is built": "where | filter | query | condition | predicate | sql",
    "build: `--split train=FILES --split test=FILES`": "train_files | test_files | train_file | test_file | validation_file | validation_files | train | test | val",
    "build: `--pattern 'DIR/**/*'`, in which ** means folders of any depth": "recursive | recurse | r | subfolders",
    "append: `--on_duplicate replace`": "upsert | update | force | overwrite | replace | f | mode",
    "append: `--on_duplicate skip_identical`, or keep_old": (
        "skip_duplicates | ignore_duplicates | dedup | deduplicate | drop_duplicates | skip_existing | if_exists | on_conflict"
    ),
    "append: `--delete FILE`, a text file with a key per line": "delete_keys | remove | keys | delete_key | drop | delete_where | where",
    "append: `--version next`, the default: the smallest number that the change allows": "bump | major | minor | patch | next | message | m",
    "tag: `beam-datasets tag NAME:1.0.0 {value:TAG}`": "name | tag | label | message | m | alias",
    "tag: `--remove`": "delete | d | rm | unset | untag",
    "tag: `beam-datasets list --versions`, which shows tags": "list | l | show | all",
    "gc: `--yes`": "all | a | delete | remove",
    "gc: `beam-datasets prune NAME --keep {value:3}`": "keep | keep_last | versions",
    "prune: `--keep 3`, the number of the highest versions to keep: their age does not count": "older_than | before | days | age | since | max_age",
    "site: `--to {value:DIR}`": "output | out | output_dir | out_dir | o | dest | dir | directory | target",
    "site: `--to DIR`, which any web server can serve; `beam-datasets explore` is a server": "port | host | serve | open",
    "site: `beam-datasets site {value:DATA_DIR} --to DIR`": "data_dir | data | source",
    "new: `beam-datasets new NAME`, then write the features in `_info` of its builder": "features | schema | columns | splits | description | version",
    "new: `beam-datasets new {value:NAME}`": "name | dataset | n",
    "new: `--to DIR`, another directory: existing files are not overwritten": "force | overwrite | f",
    "doctor: `beam-datasets doctor --runner {value:FlinkRunner}`": "engine | backend | cluster | on",
    "adopt: `--features {value:features.json}`": "schema | feature_description | feature | spec",
    "explore: `beam-datasets explore`, and open the address that it prints": "open | browser | open_browser | launch",
    "export: `--to {value:DIR}`": "output | output_dir | out | out_dir | o | dest | destination | path | save_dir | dir | target",
    "append: `--from csv --pattern {value:FILE}`, or jsonl, parquet": "pattern | data | file | files | input | new | data_files | path",
    "append: `--from {value:SOURCE}`": "source | src | dataset | add | other",
    "stats: `--html {value:page.html}`": "output | out | o | plot | html_file | save | page | report",
    "materialize: `--split {value:train}`, or `--split NAME=SLICE` for each split": "splits | slice | slices | subset | s",
    "head: `--split {value:train}`": "splits | slice | slices | subset | s",
    "stats: `--split {value:train}`, also several times": "splits | slice | slices | subset | s",
    "export: `--split {value:train}`, also several times": "splits | slice | slices | subset | s",
    "gc: `--yes` to remove what it lists; without it nothing is removed": "dry_run | simulate | preview",
    "verify: `beam-datasets verify NAME`, which compares all checksums": "checksums | checksum | hash | hashes",
    "new: `--to {value:DIR}`": "dir | directory | output | data_dir | path",
    "new: nothing: each builder has one form, which reads any format": "format | data_format | template | kind | type",
    "`--pattern {value:FILES}`": "file | files | data_files | data_file | path | paths | input | inputs | input_file | i | f"
    " | input_pattern | file_pattern | glob | src | source | data | filenames | csv | from | folder | root | directory | dir"
    " | input_dir | input_directory | input_folder | input_path | input_paths | in | source_dir | data_path | data_folder"
    " | file_path | filepath | file_paths | filepaths | file_name | filename | jsonl | json | parquet | tfrecord",
    "`--root {value:DIR}`": "folder | path | input | input_dir | i | images | image_dir | image_folder | images_dir | data | source"
    " | src | data_files | audio_dir | pattern | from | files | file | directory | dir | paths | inputs | input_directory"
    " | input_folder | input_path | in | source_dir | data_path | data_folder | root_dir | root_path | base_dir | img_dir"
    " | image_path | image_root | audio_path | audio_folder | audio_root | sound_dir | sounds | sound_folder | audio | photos | glob",
    "`--data_dir {value:DIR}`": "output | output_dir | out | out_dir | o | dest | destination | target_dir | save_dir | dir"
    " | directory | root_dir | datasets_dir | cache_dir | d | base_dir | to | output_path",
    "`--delimiter {value:','}`": "sep | separator | delim | field_delim | fs",
    "`--missing {value:NA}`": "na_values | null_values | na | null | nan | missing_values | na_rep | nulls",
    "`--columns a,b,c`, for files without a header; with `--skip_header` the names replace the header": "names | header"
    " | header_names | column_names | no_header | has_header | skip_rows | skiprows | fieldnames | colnames",
    "`--feature NAME=TYPE`, such as `--feature price=float32`, repeated for each column": "dtype | dtypes | schema | types"
    " | column_types | convert | converters | cast | columns_types | features | type",
    "`--feature NAME=drop`, for each column to leave out": "usecols | use_cols | select | drop | exclude | ignore | select_columns"
    " | remove_columns | drop_columns | columns",
    "`--key {value:COLUMN}`": "index_col | keys | id | id_column | index | primary_key | pk | id_col | key_column | unique",
    "`--quote {value:QUOTE}`": "quotechar | quote_char | quoting",
    "`--decimal {value:,}`": "decimal_separator | decimal_point",
    "`--thousands {value:.}`": "thousands_separator | thousands_sep",
    "`--encoding {value:latin-1}`": "charset | codec | file_encoding",
    "`--skip_bad`": "on_bad_lines | ignore_errors | error_bad_lines | errors | skip_errors | on_error | tolerant | lenient"
    " | warn_bad_lines | strict | max_bad_records",
    "`--infer_rows {value:20000}`": "sample_rows | infer_schema_length | infer_schema | sample_size",
    "`--feature {value:COLUMN}=class`, which makes labels of a column of texts": "label | target | label_column | labels | target_column | class_column | label_col | label_key",
    "`--split train=80% --split test=20%`": "test_size | val_size | validation_split | train_size | test_split | split_ratio"
    " | validation_size | train_split | splits | val_split | test_fraction | ratio | holdout",
    "`--split {value:train}`": "slice | subset | s",
    "`--sample_rate {value:any}`": "sampling_rate | sr | rate",
    "`--channels {value:1}`": "grayscale | mode | color_mode | num_channels | mono",
    "nothing: images are stored as they are. Resize them where they are read, in `ds.map(function)`": "size | resize | image_size | shape | image_shape"
    " | target_size | img_size | width | height",
    "nothing: dates stay text, as they are written. Convert them where they are read, as in `ds.map(lambda e: "
    "{{**e, {value:'day'}: np.datetime64(e[{value:'day'}])}})`": "parse_dates | date_columns | timestamp_columns",
    "nothing: dates stay text, as they are written. Convert them where they are read, as in `ds.map(lambda e: "
    "{{**e, 'day': datetime.strptime(e['day'].decode(), {value:'%Y-%m-%d'})}})`": "date_format | datetime_format | dayfirst"
    " | timestamp_format | infer_datetime_format | date_parser",
    "`--num_workers {value:8}`": "workers | num_proc | nproc | n_jobs | processes | threads | max_workers | j | jobs | parallel"
    " | num_processes | concurrency | n_workers | num_threads",
    "`--jobs {value:8}`": "workers | num_workers | num_proc | n_jobs | processes | threads | j | parallel",
    "`--num_shards {value:8}`": "shards | n_shards | num_files | nshards | num_partitions | partitions | shard_count",
    "`--max_shard_size {value:256MiB}`": "shard_size | chunk_size | chunk_bytes | size_limit | max_shard_bytes | target_shard_size"
    " | maxsize | max_size",
    "`--max_examples_per_split {value:1000}`": "max_examples | limit | n | num_examples | nrows | max_rows | num_rows | head | take"
    " | max_samples | samples | subsample | debug_examples",
    "`--count {value:10}`": "n | limit | num | rows | num_examples | max_examples | lines | max_rows | take",
    "`--overwrite`": "force | replace | force_rebuild | redownload | overwrite_existing | f | clobber | force_redownload"
    " | download_mode | rebuild",
    "`--dry_run`": "dry | simulate | check | noop | plan | preview | what_if",
    "`--yes`": "y | force | assume_yes | no_input | f | confirm",
    "`--repair`": "fix | heal",
    "`--decode`": "full | deep | strict | thorough | check_images",
    "`--ignore_duplicates`": "dedup | deduplicate | drop_duplicates | unique_keys | on_duplicate",
    "`--resume`": "continue | restart | from_checkpoint | recover",
    "`--skip_published`": "exist_ok | if_not_exists | skip_existing | skip_if_exists | exists_ok",
    "`--where {value:'price > 3'}`": "filter | query | predicate | condition | expr | sql",
    "`--features {value:A,B.C}`": "columns | fields | select | usecols | select_columns | column | feature | keys",
    "`--to {value:NAME}`": "name | as | new_name | output_name | rename | dataset_name",
    "`--source_data_dir {value:DIR}`": "from | source_dir | input_dir | input | src",
    "`--name {value:NAME}`": "dataset_name | dataset | n | title | dataset_id",
    "export: `--format {value:parquet}`": "file_format | output_format | type | fmt | t",
    "`--html {value:page.html}`": "output | out | o | plot | html_file | save | page | report",
    "`--keep {value:3}`": "keep_last | n | num | retain | last",
    "`--beam`": "distributed | cluster",
    "nothing: shards are TFRecord files; `beam-datasets export NAME --format parquet --to DIR` writes others after it is built": (
        "format | file_format | output_format"
    ),
    "nothing: shards are TFRecord files without compression, so that any example can be read": "compression | compress | gzip"
    " | compression_type | zstd",
    "nothing: the keys decide the order. Another one for each reader is `ds.shuffle(seed=0)`": "nondeterministic_order | seed | shuffle | random_seed"
    " | random_state | shuffle_seed | shuffle_buffer",
    "`NAME:{value:1.0.0}`, the version as a part of the name, also of --to; in a builder, `VERSION` of its class": (
        "version | dataset_version | ver | tag"
    ),
    "`NAME/{value:CONFIG}`, the config as a part of the name": "config | config_name | builder_config | configuration",
    "nothing: files are read in parts, so that memory is bounded": "lazy | low_memory | engine | chunksize | chunk_rows | streaming | memory_map",
    "`--max_rejected {value:10}`, for examples that the builder rejects, as docs/how-to/building.md shows": "skip_bad | skip_errors"
    " | ignore_errors | on_error",
    "nothing: nested objects are features such as `a.b`": "flatten | json_normalize | max_level | sep_nested",
    "`--debug` for the traceback of an error; progress is shown without an option": "verbose | v | vv | log_level | verbosity"
    " | logging | trace",
    "`--quiet`": "silent | q | no_progress | s | progress | disable_tqdm",
    "the builder: its `_split_generators` returns the splits": "split | splits | test_size | val_size | validation_split",
    "an option of the builder: a keyword argument of its constructor": "builder_kwargs | config_kwargs | kwargs | dataset_args",
    "the options of Beam themselves, such as `--runner FlinkRunner`": "beam_pipeline_options | pipeline_options | beam_options"
    " | beam_args | pipeline_args",
    "the name of the dataset alone, without an option, such as `beam-datasets {command:build} {value:NAME}`": "dataset | datasets | name"
    " | builder | module | dataset_name | script | class",
    "build: `beam-datasets build csv --name NAME --pattern {value:FILES}`, or jsonl, parquet and other formats": (
        "file | files | pattern | data_files | data_file | path | paths | input | inputs | input_file | i | f"
    ),
}

_OTHER_FORMAT = (
    "a builder, which can read any file: `beam-datasets new NAME` writes its files; or convert the files to Parquet, as in "
    "`pandas.read_excel('a.xlsx').to_parquet('a.parquet')`, and build them by `beam-datasets build parquet --name NAME --pattern a.parquet`"
)
_OF_TFDS = (
    "`tfds.load({name})` of TensorFlow Datasets, whose files `bd.load({name}, data_dir='~/tensorflow_datasets')` reads; no dataset "
    "comes with beam_datasets, and docs/reference/tfds.md says how to build those of TFDS"
)
_READY = (
    "mnist | fashion_mnist | kmnist | emnist | cifar10 | cifar100 | svhn | svhn_cropped | imagenet | imagenet2012 | coco | coco/2017"
    " | squad | glue | imdb | imdb_reviews | wikitext | wikipedia | c4 | iris | titanic | celeb_a | voc | food101 | librispeech"
)

FORMATS: Mapping[str, Mapping[str, str]] = {
    "on_duplicate": {
        "overwrite | update | upsert | new | last | keep_new | take_new": "`--on_duplicate replace`",
        "skip | ignore | keep | old | first | keep_first | keep_published": "`--on_duplicate keep_old`",
        "identical | skip_equal | skip_same | dedup": "`--on_duplicate skip_identical`",
        "fail | raise | abort": "`--on_duplicate error`",
    },
    "build": {
        "json | ndjson | json_lines | jsonlines": "`beam-datasets build jsonl`",
        "text | txt | lines | textfile | text_files": "`beam-datasets build text_lines`",
        "imagefolder | images | image | image_dir | image_directory | png | jpg | jpeg | photos": "`beam-datasets build image_folder`",
        "audiofolder | audio_folder | audio | sounds | sound | wav | flac | mp3 | speech": "`beam-datasets build sound_folder`",
        "tsv | tab | psv": "`beam-datasets build csv`, which reads tabs from .tsv files, and takes `--delimiter`",
        "tfrecords | tfr | example | tfexample | tf_example": "`beam-datasets build tfrecord`",
        "pq": "`beam-datasets build parquet`",
        "pandas | arrow | feather | ipc | orc | avro | hdf5 | h5 | npz | npy | numpy | pickle | lance | delta | iceberg | sql | sqlite"
        " | bigquery | excel | xlsx | xls | xml | webdataset | tar | mds | mosaicml | arrayrecord | array_record | zip"
        " | spark": _OTHER_FORMAT,
        "hf | huggingface | hugging_face | datasets": (
            "`datasets.load_dataset(...).to_parquet('train.parquet')`, then `beam-datasets build parquet --name NAME --pattern "
            "train.parquet`"
        ),
        _READY: _OF_TFDS,
    },
    "export": {
        "csv | tsv": "`bd.load(name, split='train').to_pandas().to_csv('train.csv')`, or the format jsonl",
        "json | ndjson": "the format jsonl",
        "tfrecord | tfrecords | tfds": "the dataset's directory: its shards are TFRecord files, which TensorFlow Datasets reads",
        "arrow | feather | hf | huggingface | datasets | pandas | delta | iceberg | lance": "the format parquet, which these read",
        "wds | tar | web_dataset": "the format webdataset",
        "array_record | grain": "the format arrayrecord",
        "mds | mosaicml | streaming | litdata": "the library's own writer, in a loop over `bd.load(name, split='train')`",
    },
    "builder": {
        "csv | json | jsonl | text | parquet | text_lines | tfrecord | image_folder | sound_folder | imagefolder | audiofolder": (
            "the class, as in `from beam_datasets.files.csv import Csv` and `Csv(name='NAME', pattern='*.csv', data_dir=directory).build()`, "
            "or `beam-datasets build csv --name NAME --pattern FILES --data_dir DIR`; `beam-datasets build --help` lists the formats"
        ),
    },
    "load": {
        "csv | json | jsonl | text | parquet | text_lines | tfrecord | imagefolder | image_folder | audiofolder | sound_folder": (
            "`beam-datasets build --help`, which lists the formats of files; files become a dataset first, then `bd.load` reads it"
        ),
        _READY: _OF_TFDS,
    },
}
