"""Training of cellular Potts Hamiltonians in PyTorch, and their export."""
