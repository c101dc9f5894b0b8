"""A zoo of mechanisms that contact and volume energies cannot express, and what `neuralcpm fit` makes of them."""
