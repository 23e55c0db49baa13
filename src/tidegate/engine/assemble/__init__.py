"""From a project file to streams that can run."""
