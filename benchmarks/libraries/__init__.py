"""Scripts for the same task with this project and other libraries; `python -m benchmarks libraries` measures them."""
