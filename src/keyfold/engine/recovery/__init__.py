"""What a start must bring together: definition, state, view and readers."""
