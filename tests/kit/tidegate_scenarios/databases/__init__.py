"""What the kit writes to each kind of database, in the module of that name."""
