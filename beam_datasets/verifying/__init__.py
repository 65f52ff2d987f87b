"""Verifies that the files of a dataset equal the published ones, and reports lost examples."""

from beam_datasets.verifying.expected import Expected as Expected
from beam_datasets.verifying.expected import Finding as Finding
from beam_datasets.verifying.expected import Lost as Lost
from beam_datasets.verifying.expected import Report as Report
from beam_datasets.verifying.expected import read_expected as read_expected
from beam_datasets.verifying.report import Examination as Examination
from beam_datasets.verifying.report import conclude as conclude
from beam_datasets.verifying.report import examine as examine
from beam_datasets.verifying.report import examine_again as examine_again
from beam_datasets.verifying.report import verify as verify
from beam_datasets.verifying.scan import ShardFacts as ShardFacts
