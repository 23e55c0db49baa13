"""A change log in SQL Server's change tables."""
