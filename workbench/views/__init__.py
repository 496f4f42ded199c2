"""Streamlit pages: they draw and start things, they never compute."""
