"""What a command does with an app's file: loads, checks and plans it."""
