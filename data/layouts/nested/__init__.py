"""Rows that lie in trees, objects or lists: questions under their paragraphs, passages by id, lists in cells."""
