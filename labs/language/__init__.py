"""Language models: their training text, their tokenizers, and their layers."""
