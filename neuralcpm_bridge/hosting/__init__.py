"""What every host adapter shares: following a host's cells, mapping its types, keeping errors, checking, the log.

It knows the runtime only; what is peculiar to one host is in that host's package.
"""
