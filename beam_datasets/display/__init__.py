"""Examples for people: data frames and tables of examples, in notebooks and terminals."""

from beam_datasets.display.examples import Examples as Examples
from beam_datasets.display.examples import as_dataframe as as_dataframe
from beam_datasets.display.examples import show_examples as show_examples
