"""What a worker measures of its lanes and what it reports."""
