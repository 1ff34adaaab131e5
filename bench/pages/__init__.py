"""The web pages: how soon they are there, and pictures of them."""
