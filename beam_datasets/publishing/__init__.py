"""Publishing a version: staged files, checkpoints, the commit on a disk or an object store, leftovers."""
