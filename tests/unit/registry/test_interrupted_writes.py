"""What Ctrl-C leaves of a transaction on the registry."""

import pytest
from sqlalchemy import Engine, event

from tidegate.registry import database


def test_an_interrupted_statement_leaves_no_lock(tmp_path):
    registry = database.Database(f"sqlite:///{tmp_path}/registry.db")
    with registry.write() as connection:
        connection.exec_driver_sql("CREATE TABLE notes (id INTEGER PRIMARY KEY, note TEXT)")

    def interrupt(cursor, statement, *_):
        cursor.execute(statement)
        if "RETURNING" in statement:
            raise KeyboardInterrupt
        return True

    event.listen(Engine, "do_execute", interrupt)
    try:
        with registry.write() as connection:
            connection.exec_driver_sql("INSERT INTO notes (note) VALUES ('lost'), ('lost') RETURNING id")
    except KeyboardInterrupt:
        event.remove(Engine, "do_execute", interrupt)
        # Still while the interruption is handled, as a run does that says of itself that it was interrupted.
        with registry.write() as connection:
            connection.exec_driver_sql("INSERT INTO notes (note) VALUES ('kept')")
    with registry.read() as connection:
        assert connection.exec_driver_sql("SELECT note FROM notes").scalars().all() == ["kept"]
    registry.close()


def test_the_interruption_itself_goes_on(tmp_path):
    registry = database.Database(f"sqlite:///{tmp_path}/registry.db")
    with pytest.raises(KeyboardInterrupt), registry.write():
        raise KeyboardInterrupt
    registry.close()
