"""What every partition carries: rates to loads, what they are worth, and the provider of them."""
