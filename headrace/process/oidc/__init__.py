"""Authentication by tokens of an OpenID Connect provider. Imported only if a provider is configured."""
