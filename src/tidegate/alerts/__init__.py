"""Tells people what is wrong with streams: one message an incident, by the channels of the project."""
