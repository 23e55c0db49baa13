"""The stages of a load, one file each."""
