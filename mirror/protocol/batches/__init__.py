"""Record batches: headers, checksums, codecs, and the records in them."""
