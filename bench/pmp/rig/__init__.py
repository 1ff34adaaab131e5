"""What the measurements of the metrics pipeline and of Pinot run on: servers, sessions and rows."""
