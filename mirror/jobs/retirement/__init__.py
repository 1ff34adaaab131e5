"""Finds unused topics, and performs the steps of their retirement."""
