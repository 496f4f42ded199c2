"""The Language page: how tokenizers cut, how masked language models learn, and what is inside them."""
