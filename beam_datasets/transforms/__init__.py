from beam_datasets.transforms.read import ReadDataset as ReadDataset
from beam_datasets.transforms.write_dataset import WriteDataset as WriteDataset
