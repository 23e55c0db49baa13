"""Every example of a docstring says what the code does."""

import doctest
import importlib
import pkgutil

import tidegate


def test_the_examples_of_docstrings_are_right():
    names = [module.name for module in pkgutil.walk_packages(tidegate.__path__, "tidegate.")]
    modules = [name for name in names if ".migrations" not in name and not name.endswith("__main__")]
    assert not [name for name in modules if doctest.testmod(importlib.import_module(name)).failed]
