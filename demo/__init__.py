"""The demo: a shop whose changes three engines write down, loaded hour by hour (`make demo`)."""
