"""Statistics of the features of a dataset: summaries that can be merged, and reports about them."""

from beam_datasets.statistics.report import Statistics as Statistics
from beam_datasets.statistics.report import compute as compute
