"""Speed against what one would use instead."""
