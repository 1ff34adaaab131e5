"""Authentication with tokens of an OpenID Connect provider. The package `oidc` is imported only if a provider
is configured."""
