from beam_datasets.statistics.report import Statistics as Statistics
from beam_datasets.statistics.report import compute as compute
