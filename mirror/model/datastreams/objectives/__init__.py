"""Objectives of a datastream: values, and the lines in which its metadata has them."""
