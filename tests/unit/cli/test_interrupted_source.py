"""Ctrl-C while SQLite is in a function of ours, which drops what is raised there."""

import os
import signal
import sqlite3

from tidegate.cli.app import _terminated_like_interrupted
from tidegate.cli.shell import Shell
from tidegate.core.ids import Connection
from tidegate.dialects.sqlite.dialect import Sqlite
from tidegate.dialects.sqlite.session import SqliteSession


def test_an_interruption_in_a_function_of_sqlite_is_no_fault_of_the_data(tmp_path, capsys):
    sqlite3.connect(tmp_path / "shop.db").execute("create table t (id integer)").connection.close()
    session = SqliteSession(Sqlite(), Connection(name="shop", url=f"sqlite:///{tmp_path}/shop.db"))

    def interrupted(_text):
        os.kill(os.getpid(), signal.SIGINT)
        return "never"

    session._connection.create_function("tidegate_md5", 1, interrupted)
    with _terminated_like_interrupted():
        code = Shell(folder=tmp_path).guard(lambda: session.rows("select tidegate_md5('a')"))
        signal.setitimer(signal.ITIMER_REAL, 0)
    session.close()
    assert code == 130
    assert "UTF-8" not in capsys.readouterr().err
