"""What runs tell those who watch over many tools: metrics, traces and lineage."""
