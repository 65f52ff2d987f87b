from beam_datasets.statistics.computing import compute as compute
from beam_datasets.statistics.report import Statistics as Statistics
