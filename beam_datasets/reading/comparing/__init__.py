"""Two versions of a dataset, compared: what differs, and what the version number must be."""

from beam_datasets.reading.comparing.diffing import diff as diff
from beam_datasets.reading.comparing.result import DatasetDiff as DatasetDiff
from beam_datasets.reading.comparing.result import ExampleChange as ExampleChange
from beam_datasets.reading.comparing.result import FeatureChange as FeatureChange
from beam_datasets.reading.comparing.result import Reason as Reason
from beam_datasets.reading.comparing.result import SplitDiff as SplitDiff
from beam_datasets.reading.comparing.result import Verdict as Verdict
