"""Language models at a chat endpoint: where they are, asking them, and keeping what they answered."""
