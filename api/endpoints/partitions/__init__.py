"""What is known of the partitions of a datastream: lag, gaps, loads, ledgers, translation of offsets."""
