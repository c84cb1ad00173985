"""The transaction coordinator of a node, and the topic in which it stores its state."""
