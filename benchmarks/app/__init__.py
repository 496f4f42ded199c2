"""Waiting times in the app."""
