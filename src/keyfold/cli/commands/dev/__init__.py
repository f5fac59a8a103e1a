"""Commands for writing an app: templates, checks, experiments."""
