"""Public names of other libraries, by the object of this package on which their users look for them.

From datasets 5.2, torch 2.15, torchdata 0.11, tensorflow 2.21, tensorflow-datasets 4.9.10, mosaicml-streaming 0.13,
webdataset 1.0, seqio 0.0.20, grain 0.2.18 and litdata 0.2. `tests/adapters` looks into the libraries.
"""

NAMES = {
    "bd": {
        "datasets": """Array2D Array3D Array4D Array5D ArrowBasedBuilder Audio BioSequence BioStructure BuilderConfig
            ClassLabel Column Dataset DatasetBuilder DatasetDict DatasetInfo DownloadConfig DownloadManager DownloadMode
            Features GeneratorBasedBuilder Image IterableColumn IterableDataset IterableDatasetDict Json LargeList List
            Mesh NamedSplit NamedSplitAll Nifti Pdf ReadInstruction Sequence Split SplitBase SplitDict SplitGenerator
            SplitInfo StreamingDownloadManager SubSplitInfo Translation TranslationVariableLanguages Value
            VerificationMode Version Video are_progress_bars_disabled concatenate_datasets disable_caching
            disable_progress_bar disable_progress_bars enable_caching enable_progress_bar enable_progress_bars
            experimental get_dataset_config_info get_dataset_config_names get_dataset_default_config_name
            get_dataset_infos get_dataset_split_names interleave_datasets is_caching_enabled is_progress_bar_enabled
            load_dataset load_dataset_builder load_from_disk percent tqdm""",
        "torch": """BatchSampler ChainDataset ConcatDataset DFIterDataPipe DataChunk DataLoader Dataset
            DistributedSampler IterDataPipe IterableDataset MapDataPipe RandomSampler Sampler SequentialSampler
            StackDataset StatefulDataLoader Subset SubsetRandomSampler TensorDataset WeightedRandomSampler
            default_collate default_convert get_worker_info random_split""",
        "tf.data": """AUTOTUNE Dataset DatasetSpec FixedLengthRecordDataset INFINITE_CARDINALITY Iterator IteratorSpec
            NumpyIterator Options TFRecordDataset TextLineDataset ThreadingOptions UNKNOWN_CARDINALITY experimental
            CsvDataset SqlDataset TFRecordWriter make_csv_dataset make_batched_features_dataset parse_example_dataset
            AutoShardPolicy bucket_by_sequence_length sample_from_datasets""",
        "tensorflow_datasets": """GenerateMode ImageFolder ReadConfig Split TranslateFolder as_dataframe as_numpy beam
            benchmark builder builder_cls builder_from_directories builder_from_directory core data_source
            dataset_builders dataset_collection decode deprecated disable_progress_bar display_progress_bar download
            enable_progress_bar even_splits features folder_dataset is_dataset_on_gcs list_builders
            list_dataset_collections load public_api show_examples show_statistics split_for_jax_process testing
            transform typing version visualization""",
        "streaming": """StreamingDataLoader Stream StreamingDataset CSVWriter JSONWriter MDSWriter TSVWriter XSVWriter
            LocalDataset""",
        "webdataset": """Cached DataPipeline Decoder DecodingError FluidInterface FluidWrapper MockDataset
            MultiShardSample RandomMix ResampledShards RoundRobin ShardWriter SimpleShardList TarWriter WebDataset
            WebLoader associate detshuffle extract_keys getfirst gopen gzfilter handle_extension ignore_and_continue
            ignore_and_stop imagehandler numpy_dumps pytorch_weights_only reraise_exception resampled shardspec
            single_node_only split_by_node split_by_worker tarfile_samples tarfile_to_samples torch_audio torch_dumps
            torch_loads torch_video warn_and_continue warn_and_stop""",
        "seqio": """Task TaskRegistry Mixture MixtureRegistry get_mixture_or_task maybe_get_mixture_or_task get_subtasks
            get_dataset FunctionDataSource TfdsDataSource FileDataSource TextLineDataSource TFExampleDataSource
            ProtoDataSource CacheDatasetPlaceholder ShardInfo SourceInfo Feature ContinuousFeature FeatureConverter
            EncDecFeatureConverter LMFeatureConverter PrefixLMFeatureConverter DecoderFeatureConverter
            EncoderFeatureConverter PassThroughFeatureConverter SentencePieceVocabulary ByteVocabulary Vocabulary
            PassThroughVocabulary preprocessors tokenize append_eos rekey Evaluator metrics trim_and_pack_dataset
            trim_and_pad_dataset mixing_rate_num_examples map_over_dataset add_global_cache_dirs
            set_tfds_data_dir_override stateless_shuffle""",
        "grain": """DataLoader DataLoaderIterator DatasetIterator IterDataset MapDataset MultiprocessingOptions
            ReadOptions Record RecordMetadata checkpoint config constants experimental load monitoring multiprocessing
            samplers sharding sources transforms CheckpointHandler IndexSampler SequentialSampler NoSharding
            ShardByJaxProcess ShardOptions ArrayRecordDataSource RandomAccessDataSource RangeDataSource Batch Filter Map
            MapWithIndex RandomMap""",
        "litdata": """StreamingDataset StreamingRawDataset CombinedStreamingDataset StreamingDataLoader TokensLoader
            ParallelStreamingDataset optimize walk train_test_split merge_datasets index_parquet_dataset""",
    },
    "ds": {
        "datasets": """add_column add_elasticsearch_index add_faiss_index add_faiss_index_from_external_arrays add_item
            align_labels_with_mapping batch builder_name cache_files cast cast_column citation class_encode_column
            cleanup_cache_files column_names config_name data dataset_size decode description download_checksums
            download_size drop_index epoch features filter flatten flatten_indices format formatted_as from_buffer
            from_csv from_dict from_file from_generator from_json from_list from_pandas from_parquet from_polars
            from_spark from_sql from_text get_index get_nearest_examples get_nearest_examples_batch homepage info
            is_index_initialized iter license list_indexes load_elasticsearch_index load_faiss_index load_from_disk
            load_state_dict map n_shards num_columns num_rows num_shards push_to_hub remove_columns rename_column
            rename_columns repeat reset_format reshard save_faiss_index save_to_disk search search_batch select
            select_columns set_epoch set_format set_transform shape shard shuffle size_in_bytes skip sort split
            state_dict supervised_keys take to_csv to_dict to_iterable_dataset to_json to_list to_pandas to_parquet
            to_polars to_sql to_tf_dataset train_test_split unique version with_format with_transform""",
        "tf.data": """apply as_numpy_iterator batch bucket_by_sequence_length cache cardinality choose_from_datasets
            concatenate counter element_spec enumerate filter fingerprint flat_map from_generator from_tensor_slices
            from_tensors get_single_element group_by_window ignore_errors interleave list_files load map options
            padded_batch prefetch ragged_batch random range rebatch reduce rejection_resample repeat
            sample_from_datasets save scan shard shuffle skip snapshot sparse_batch take take_while unbatch unique
            window with_options zip""",
        "streaming": """size num_samples next_epoch cache_usage state_dict load_state_dict resample_streams evict_shard
            evict_coldest_shard prepare_shard get_item on_exception""",
        "webdataset": """append batched close compose create_url_iterator decode extract_keys invoke iterator iterator1
            listed lmdb_cached log_keys map map_dict map_tuple mcached rename rename_keys repeat rsample select shuffle
            slice stage to_tuple unbatched unlisted with_epoch with_length xdecode""",
        "seqio": "num_input_examples get_dataset splits output_features preprocessors postprocessor",
        "grain": """apply batch filter map map_with_index mp_prefetch parents pipe prefetch random_map repeat seed
            shuffle slice source to_iter_dataset""",
        "pandas": """head tail sample describe columns dtypes groupby sort_values query iterrows itertuples drop
            drop_duplicates to_dict to_numpy iloc loc value_counts""",
    },
    "iterator": {
        "tf.data": "element_spec get_next get_next_as_optional save restore",
        "torch": "state_dict load_state_dict",
        "grain": "get_state set_state start_prefetch close",
    },
    "builder": {
        "tensorflow_datasets": """as_data_source as_dataset assert_is_not_blocked blocked_versions builder_config
            builder_configs canonical_version data_dir data_path download_and_prepare get_file_spec get_metadata
            get_reference info is_blocked is_prepared name pkg_dir_path release_notes supported_versions version
            versions""",
        "datasets": "as_dataset as_streaming_dataset cache_dir download_and_prepare hash info",
    },
}
