"""Writes models and operations of the SDK from the OpenAPI document."""
