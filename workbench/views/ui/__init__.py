"""What every page is made of: words, tables, charts, choices, jobs at work, and passages found."""
