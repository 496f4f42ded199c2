"""Answers that a language model generates from passages: asked, cited, judged and paid for."""
