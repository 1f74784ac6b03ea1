"""Parts that several formats share: containers, envelopes, Connect's types, values not sent."""
