"""Huawei CDL: messages of version 1.0 and 2.0."""
