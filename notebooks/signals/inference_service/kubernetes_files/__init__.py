"""Manifests of the service for a cluster; checked against schemas, never applied."""
