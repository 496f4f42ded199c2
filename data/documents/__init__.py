"""Documents in: text, Markdown, web pages, PDF, Word, slides and Hangul files to passages."""
