"""Judging answers: whether they are right, by whose rules, and of which kinds of questions."""
