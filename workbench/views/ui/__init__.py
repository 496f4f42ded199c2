"""Parts that all pages share: texts, tables, charts, choices, jobs and passages."""
