"""Storage on HDFS and S3, which run here on loopback."""
