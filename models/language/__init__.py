"""Language models: tokenizers and their training, masking, and perplexity."""
