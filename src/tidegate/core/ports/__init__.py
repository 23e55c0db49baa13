"""What the plugins owe, one file a kind."""
