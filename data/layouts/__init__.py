"""Collections as the field publishes them: passages, questions, judgements in files of their own or in rows of all."""
