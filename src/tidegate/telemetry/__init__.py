"""What is sent of runs to those who watch over many tools: traces and lineage."""
