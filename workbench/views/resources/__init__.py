"""The only cached functions: plain keys in, objects out."""
