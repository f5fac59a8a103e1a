"""What a command needs to work on an app's home: finds it, starts Spark, asks before removals."""
