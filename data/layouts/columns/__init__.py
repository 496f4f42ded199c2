"""What the columns of rows hold: their roles, their cells, and the passages they name or hold."""
