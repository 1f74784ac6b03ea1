"""AWS DMS: messages of its Kafka and Kinesis targets, files of its S3 target."""
