"""Comparison of two versions of a dataset: their differences, and the version number that these need."""

from beam_datasets.diffing.diffing import diff as diff
from beam_datasets.diffing.result import DatasetDiff as DatasetDiff
from beam_datasets.diffing.result import ExampleChange as ExampleChange
from beam_datasets.diffing.result import FeatureChange as FeatureChange
from beam_datasets.diffing.result import Reason as Reason
from beam_datasets.diffing.result import SplitDiff as SplitDiff
from beam_datasets.diffing.result import Verdict as Verdict
