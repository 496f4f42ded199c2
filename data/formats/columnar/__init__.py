"""Tables that are stored column by column."""
