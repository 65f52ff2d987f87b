"""The command `beam-datasets`: a module for each subcommand, their options, and what they print."""

from beam_datasets.cli.main import main as main
