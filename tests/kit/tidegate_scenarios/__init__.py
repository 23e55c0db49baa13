"""The scenario kit: what is tried on a database, and what a table must hold then, as plain values of Python.

`tidegate certify` tries it on a user's server, so the wheel contains it; the tests draw their samples from it.
"""
