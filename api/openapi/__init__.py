"""The OpenAPI document: what FastAPI finds in the endpoints, and what it does not know of them."""
