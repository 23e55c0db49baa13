"""What other tools are told of a project's tables, in files of their own."""
