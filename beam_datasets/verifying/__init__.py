"""Whether a dataset is what was published, and which of its examples are lost where it is not."""

from beam_datasets.verifying.examining import Examination as Examination
from beam_datasets.verifying.examining import examine as examine
from beam_datasets.verifying.examining import examine_again as examine_again
from beam_datasets.verifying.examining import verify as verify
from beam_datasets.verifying.findings import Finding as Finding
from beam_datasets.verifying.findings import Lost as Lost
from beam_datasets.verifying.findings import Report as Report
