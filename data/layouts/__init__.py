"""Collections as they are published: passages, questions and judgements in separate files, or together in rows."""
