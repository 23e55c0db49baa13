"""Decides how the events of a log are written: one file an envelope.

Found by `tidegate.plugins`, chosen by `source: {envelope: …}`. Must never turn what it cannot read into NULL.
"""
