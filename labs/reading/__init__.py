"""Reading: answers of questions, how right they are, and what retrieval is worth for them."""
