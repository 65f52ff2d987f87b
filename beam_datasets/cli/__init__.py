"""The command `beam-datasets`: a module for each subcommand, with its options and its output."""

from beam_datasets.cli.main import main as main
