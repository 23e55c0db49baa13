"""The policies of a stream (deletes, contract, checks, schedule, maintenance) as pure values."""
