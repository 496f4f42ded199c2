"""Language models, from the text they learn and the tokenizer that cuts it to what is inside them."""
