"""Sources, formats and sinks: what a second one needs to plug in."""
