from beam_datasets.cli.main import main as main
