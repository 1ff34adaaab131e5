"""Record batches: headers, checksums, codecs and records."""
