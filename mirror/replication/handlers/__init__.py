"""What becomes of answers: fetched batches, acknowledgements, refusals, and stalls."""
