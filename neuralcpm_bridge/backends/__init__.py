"""The back ends of the ΔH protocol."""
