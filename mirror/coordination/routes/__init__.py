"""Detection of loops and duplicate writers among thousands of datastreams."""
