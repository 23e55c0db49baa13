"""The checks of rows before anything is visible; one file a kind, chosen by the stream's `checks:`."""
