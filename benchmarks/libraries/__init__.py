"""The same work in this library and in others, as scripts; `python -m benchmarks libraries` measures them."""
