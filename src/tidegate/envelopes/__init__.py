"""Envelopes: the formats in which change events are written, one file each.

Chosen by `source: {envelope: …}`. A value that cannot be read never becomes NULL.
"""
