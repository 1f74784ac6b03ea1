"""What several formats share: containers, envelopes, Connect's types, values that were not sent."""
