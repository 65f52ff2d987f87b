from beam_datasets.transforms.export import Export as Export
from beam_datasets.transforms.materialize import Materialize as Materialize
from beam_datasets.transforms.read import ReadDataset as ReadDataset
from beam_datasets.transforms.stats import SummarizeDataset as SummarizeDataset
from beam_datasets.transforms.verify import VerifyDataset as VerifyDataset
from beam_datasets.transforms.write_dataset import WriteDataset as WriteDataset
