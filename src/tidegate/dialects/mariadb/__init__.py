"""MariaDB."""

from tidegate.dialects.mariadb.dialect import Mariadb

__all__ = ["Mariadb"]
