"""What makes looking for loops and doubles quick among thousands of datastreams."""
