"""What the table formats share."""
