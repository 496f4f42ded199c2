"""Why a passage has its score: parts that add up to it, or an honest word that they do not."""
