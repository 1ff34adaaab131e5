"""Authentication by tokens of an OpenID Connect provider. Imported only if one is configured."""
