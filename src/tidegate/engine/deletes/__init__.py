"""Detection and limits of deletes."""
