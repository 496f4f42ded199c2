"""User dictionaries on the Compare page: kept ones, and new ones made of words that are cut wrongly."""
