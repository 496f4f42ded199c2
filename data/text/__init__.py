"""What is in a text: tokens, sentences, matches, answers."""
