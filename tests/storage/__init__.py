"""Storage on HDFS and S3, each of which runs here on loopback, and through Spark on a local disk."""
