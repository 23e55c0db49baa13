"""Tidegate in Airflow 3: operators that load and verify streams, a sensor, and assets that tell what was loaded.

Every task runs the program `tidegate`, which may live in an environment of its own.
"""
