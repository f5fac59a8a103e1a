"""Who may ask what: names and origins, tokens, roles and scopes, limits, and the page to sign in."""
