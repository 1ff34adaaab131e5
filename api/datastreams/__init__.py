"""What the endpoints of /v1/datastreams share. Read answers.py first."""
