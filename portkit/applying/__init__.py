"""How edits become text: expressions, argument lists, statements and imports, one module each."""
