"""Where rows come from: one file a source."""
